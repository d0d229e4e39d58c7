#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <ranges>
#include <utility>
#include <vector>

#include "cli/cli.hpp"
#include "cli/options.hpp"
#include "cli/print/output.hpp"
#include "cli/print/progress.hpp"
#include "cli/print/statistics_text.hpp"
#include "cli/print/text.hpp"

namespace ht::cli {
namespace {

struct ShowArguments {
  std::string path;
  std::string name;
  std::string slice;
  bool stats = false;
  bool hist = false;
};

// The selection in one dimension: `count` elements from `begin` on, `step` apart.
struct Axis {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t step = 1;
  // Whether a single index selects from the dimension, which is then not part of the result.
  bool dropped = false;
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (const auto part : std::views::split(text, at))
    parts.push_back(trimmed(std::string_view(part.begin(), part.end())));
  return parts;
}

tl::unexpected<Error> malformed_slice(std::string_view part) {
  return fail(Error(ErrorCode::bad_shape, "slice_is_well_formed", fmt::format("'{}' is not a slice", part))
                  .with_hint("write begin:end:step or an index for each dimension, as in 0:4,:,-1"));
}

// Parses an index or a field of the range `part`; nullopt if the text is empty.
Result<std::optional<std::int64_t>> parse_bound(std::string_view text, std::string_view part) {
  if (text.empty()) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return malformed_slice(part);
  return value;
}

// Negative values count from the end. The sum cannot overflow: the signs differ.
std::int64_t from_front(std::int64_t value, std::int64_t extent) {
  return value < 0 ? value + extent : value;
}

Result<Axis> parse_index(std::string_view part, std::int64_t extent) {
  const auto index = HT_TRY(parse_bound(part, part));
  if (!index) return malformed_slice(part);
  const std::int64_t begin = from_front(*index, extent);
  if (begin < 0 || begin >= extent) {
    return fail(Error(ErrorCode::out_of_bounds, "slice_index_is_inside",
                      fmt::format("index {} is outside a dimension of size {}", *index, extent))
                    .with_hint("count indices from 0, and negative ones from the end"));
  }
  return Axis{.begin = begin, .count = 1, .dropped = true};
}

Result<Axis> parse_range(std::string_view part, std::int64_t extent) {
  const auto fields = split(part, ':');
  if (fields.size() > 3) return malformed_slice(part);
  const auto begin = HT_TRY(parse_bound(fields[0], part));
  const auto end = HT_TRY(parse_bound(fields[1], part));
  const auto step = HT_TRY(parse_bound(fields.size() == 3 ? fields[2] : "", part)).value_or(1);
  if (step == 0 || step == std::numeric_limits<std::int64_t>::min()) return malformed_slice(part);
  // With a negative step, the range goes from the last element to before the first.
  const std::int64_t low = step > 0 ? 0 : -1;
  const std::int64_t high = step > 0 ? extent : extent - 1;
  const auto cut = [&](std::optional<std::int64_t> value, std::int64_t otherwise) {
    return value ? std::clamp(from_front(*value, extent), low, high) : otherwise;
  };
  const std::int64_t first = cut(begin, step > 0 ? low : high);
  const std::int64_t last = cut(end, step > 0 ? high : low);
  const std::int64_t distance = step > 0 ? last - first : first - last;
  const std::int64_t stride = step > 0 ? step : -step;
  const std::int64_t count = distance <= 0 ? 0 : (distance - 1) / stride + 1;
  // With a negative step, the first element of an empty range may lie before the dimension.
  return Axis{.begin = count == 0 ? 0 : first, .count = count, .step = step};
}

// Parses `0:4,:,-1` as in Python: one axis for each dimension; dimensions that the text omits are whole.
// Negative numbers count from the end and ranges are clamped. `out_of_bounds` for an index outside the
// dimension, `bad_shape` for a malformed slice or one with too many parts.
Result<std::vector<Axis>> parse_slice(std::string_view text, std::span<const std::int64_t> dims) {
  std::vector<Axis> axes;
  if (!trimmed(text).empty()) {
    const auto parts = split(text, ',');
    if (parts.size() > dims.size()) {
      return fail(
          Error(ErrorCode::bad_shape, "slice_parts_within_rank",
                fmt::format("slice '{}' has {} part{} but the shape {} has rank {}", text, parts.size(),
                            parts.size() == 1 ? "" : "s", shape_text(dims), dims.size()))
              .with_hint("give at most one part per dimension"));
    }
    for (const auto part : parts) {
      const std::int64_t extent = dims[axes.size()];
      const bool is_range = part.find(':') != std::string_view::npos;
      axes.push_back(HT_TRY(is_range ? parse_range(part, extent) : parse_index(part, extent)));
    }
  }
  while (axes.size() < dims.size()) axes.push_back({.count = dims[axes.size()]});
  return axes;
}

// The elements of one tensor to print, and their shape.
struct Part {
  AnyTensor tensor;
  std::int64_t elements;  // of the tensor
  std::vector<Axis> axes;
  std::vector<std::int64_t> strides{};  // of the axes, in elements in row-major order
  std::vector<std::int64_t> shape{};    // without the dropped axes
};

Error without_type(const AnyTensor& tensor, const ShowArguments& options) {
  return Error(ErrorCode::unsupported_encoding, "shown_tensors_have_a_type",
               fmt::format("tensor '{}' has an unknown dtype and shape", printable(tensor.name())))
      .at_path(options.path)
      .at_tensor(tensor.name())
      .with_hint("write the stored bytes to a file: htensor export PATH NAME -o FILE.bin");
}

Result<Part> chosen_part(const Model& model, const ShowArguments& options) {
  const auto tensor = HT_TRY(model[options.name]);
  if (!tensor.type().is_known()) return fail(without_type(tensor, options));
  auto axes = parse_slice(options.slice, tensor.dims());
  if (!axes) return fail(std::move(axes).error().at_path(options.path).at_tensor(options.name));
  const auto elements = HT_TRY(layout::count_elements(tensor.dims()));
  Part part{.tensor = tensor, .elements = elements, .axes = *std::move(axes)};
  part.strides.resize(tensor.dims().size());
  layout::fill_row_major_strides(tensor.dims(), part.strides);
  for (const auto& axis : part.axes) {
    if (!axis.dropped) part.shape.push_back(axis.count);
  }
  return part;
}

// Appends an element of a piece, as text or JSON.
using AppendNth = void (*)(OutputBuffer& out, Bytes piece, std::int64_t index, bool json);

template <class D>
void append_nth(OutputBuffer& out, Bytes piece, std::int64_t index, bool json) {
  if constexpr (is_packed<D>) {
    append_element<D>(out, ElementPointer<const D>(piece.data())[index], json);
  } else {
    typename D::Element element{};
    std::memcpy(&element, piece.data() + static_cast<std::size_t>(index) * sizeof(element), sizeof(element));
    append_element<D>(out, element, json);
  }
}

// Prints the elements of a part: as text like numpy, in nested brackets, with the middle of long dimensions
// left out; as JSON separated by commas only. Elements are read in groups of 8, or more for consecutive
// elements, so that a corner of a large tensor costs no more than that of a small one.
class Printer {
 public:
  Printer(OutputBuffer& out, const Part& part, AppendNth append, bool json)
      : out_(out), part_(part), append_(append), json_(json), innermost_(part.axes.size()) {
    std::int64_t total = 1;
    // Both factors are capped at `max_shown` + 1, which avoids overflow.
    for (const auto& axis : part.axes)
      total = std::min(total, max_shown + 1) * std::min(axis.count, max_shown + 1);
    shortened_ = !json && total > max_shown;
    while (innermost_ > 0 && part.axes[innermost_ - 1].dropped) --innermost_;
  }

  // Prints the elements of the axes from `depth` on, starting at `offset`. No axis may be empty.
  // NOLINTNEXTLINE(misc-no-recursion): as deep as the rank, which is at most 64 in every format
  [[nodiscard]] Result<void> print_axis(std::size_t depth, std::int64_t offset, std::size_t indent) {
    const auto at = [&](std::int64_t i) {
      const Axis& axis = part_.axes[depth];
      return offset + (axis.begin + i * axis.step) * part_.strides[depth];
    };
    for (; depth < part_.axes.size() && part_.axes[depth].dropped; ++depth) offset = at(0);
    if (depth == part_.axes.size()) return print_element(offset);
    const Axis& axis = part_.axes[depth];
    if (!json_) out_ += '[';
    for (std::int64_t i = 0; i < axis.count; ++i) {
      if (i > 0 && !json_) separate(depth + 1 == innermost_, indent);
      if (shortened_ && axis.count > 2 * edge && i == edge) {
        out_ += "...";
        i = axis.count - edge - 1;
        continue;
      }
      HT_TRY(print_axis(depth + 1, at(i), indent + 1));
    }
    if (!json_) out_ += ']';
    return {};
  }

 private:
  // Prints the element with this row-major index.
  [[nodiscard]] Result<void> print_element(std::int64_t index) {
    if (is_interrupted()) return fail(interruption());
    if (index < begin_ || index >= end_) HT_TRY(read(index));
    if (json_) out_ += std::exchange(json_separator_, ",");
    append_(out_, piece_, index - begin_, json_);
    return {};
  }

  [[nodiscard]] Result<void> read(std::int64_t index) {
    const std::int64_t count = index == end_ && index != 0 ? max_piece : group;
    if (part_.tensor.type().is_block_encoded()) {
      begin_ = index;
      end_ = std::min(begin_ + count, part_.elements);
      std::vector<double> values(static_cast<std::size_t>(end_ - begin_));
      HT_TRY(part_.tensor.read_values(values, begin_));
      piece_.resize(values.size() * sizeof(double));
      std::memcpy(piece_.data(), values.data(), piece_.size());
      return {};
    }
    const auto bytes = [&](std::int64_t elements) {
      return bytes_for(static_cast<std::uint64_t>(elements), part_.tensor.type().bits).value_or(0);
    };
    begin_ = index / group * group;
    end_ = std::min(begin_ + count, part_.elements);
    piece_.resize(static_cast<std::size_t>(bytes(end_ - begin_)));
    return part_.tensor.copy_to(piece_, bytes(begin_));
  }

  void separate(bool innermost, std::size_t indent) {
    if (innermost) {
      out_ += ", ";
    } else {
      out_ += '\n';
      out_.append_spaces(indent + 1);
    }
  }

  static constexpr std::int64_t max_shown = 1000;
  static constexpr std::int64_t edge = 3;
  // Eight elements of any dtype are whole bytes.
  static constexpr std::int64_t group = 8;
  static constexpr std::int64_t max_piece = 4096;

  OutputBuffer& out_;
  const Part& part_;
  AppendNth append_;
  bool json_;
  std::size_t innermost_;  // one after the last axis that is not dropped
  bool shortened_ = false;
  std::string_view json_separator_;
  // Elements from `begin_` to `end_`.
  std::vector<std::byte> piece_;
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
};

// Values of blocks are read as F64 and printed as F32.
void append_block_value(OutputBuffer& out, Bytes piece, std::int64_t index, bool json) {
  double value = 0;
  std::memcpy(&value, piece.data() + static_cast<std::size_t>(index) * sizeof(value), sizeof(value));
  append_element<F32>(out, static_cast<float>(value), json);
}

// The range of rows that a slice selects. Statistics need whole rows.
Result<AnyTensor> chosen_rows(const Part& part, const ShowArguments& options) {
  const auto dims = part.tensor.dims();
  const auto is_whole = [&](std::size_t i) {
    const Axis& axis = part.axes[i];
    return axis.begin == 0 && axis.step == 1 && axis.count == dims[i];
  };
  bool inner_axes_are_whole = true;
  for (std::size_t i = 1; i < part.axes.size(); ++i)
    inner_axes_are_whole = inner_axes_are_whole && is_whole(i);
  if (part.axes.empty() || (inner_axes_are_whole && is_whole(0))) return part.tensor;
  const Axis& rows = part.axes[0];
  if (inner_axes_are_whole && (rows.step == 1 || rows.count <= 1))
    return part.tensor.slice(rows.begin, rows.begin + rows.count);
  return fail(
      Error(ErrorCode::bad_shape, "statistics_are_of_whole_rows",
            fmt::format("slice '{}' is not a range of whole rows", printable(options.slice)))
          .at_path(options.path)
          .at_tensor(options.name)
          .with_hint(
              "with --stats and --hist, give a range of the first dimension alone, as in --slice 0:4"));
}

// Prints statistics of all values, in one or two passes over the tensor.
Result<Exit> show_statistics(const Part& part, const ShowArguments& options, const Common& common) {
  const auto rows = HT_TRY(chosen_rows(part, options));
  Statistics facts;
  std::optional<Histogram> histogram;
  {
    WorkWithBar work(common);
    facts = HT_TRY(ht::statistics(rows, work.options()));
  }
  if (options.hist && facts.finite_count() != 0) {
    WorkWithBar work(common);
    const Histogram::Range range{.low = facts.min, .high = facts.max, .bins = histogram_bins};
    histogram = HT_TRY(ht::histogram(rows, range, work.options()));
  }
  OutputBuffer out;
  if (common.is_json()) {
    out.append(R"({"name":)", JsonText{rows.name()}, R"(,"dtype":)", JsonText{rows.type().name},
               R"(,"shape":)");
    append_shape(out, rows.dims(), ",");
    out += R"(,"stats":)";
    append_json_statistics(out, facts);
    if (options.hist) {
      out += R"(,"histogram":)";
      histogram ? append_json_histogram(out, *histogram) : static_cast<void>(out += "null");
    }
    out += "}\n";
    return Exit::good;
  }
  if (!common.quiet)
    append_text(out, "{}  {} {}\n", printable(rows.name()), rows.type().name, shape_text(rows.dims()));
  if (options.stats) append_statistics(out, facts, rows.dims());
  if (histogram) append_histogram(out, *histogram, terminal_columns(STDOUT_FILENO), bars_of_locale());
  return Exit::good;
}

Result<AppendNth> appender_of(const ElementType& type) {
  if (type.is_block_encoded()) return &append_block_value;
  // `bad_dtype` for user dtypes.
  return visit_dtype(type.dtype, []<class D>(D) -> AppendNth { return &append_nth<D>; });
}

Result<Exit> show(const ShowArguments& options, const Common& common) {
  const auto model = HT_TRY(Model::open(options.path, {.max_header_bytes = common.max_header}));
  const auto part = HT_TRY(chosen_part(model, options));
  const bool json = common.is_json();
  const auto& tensor = part.tensor;
  if (options.stats || options.hist) return show_statistics(part, options, common);
  const auto append = HT_TRY(appender_of(tensor.type()));
  OutputBuffer out;
  if (json) {
    out.append(R"({"name":)", JsonText{tensor.name()}, R"(,"dtype":)", JsonText{tensor.type().name},
               R"(,"shape":)");
    append_shape(out, tensor.dims(), ",");
    out += R"(,"values_shape":)";
    append_shape(out, part.shape, ",");
    out += R"(,"values":[)";
  } else if (!common.quiet) {
    append_text(out, "{}  {} {}\n", printable(tensor.name()), tensor.type().name, shape_text(tensor.dims()));
  }
  // Skip a part without elements, because its other axes may be very long.
  const bool is_empty = std::ranges::any_of(part.axes, [](const Axis& axis) { return axis.count == 0; });
  if (!is_empty) {
    auto printed = Printer(out, part, append, json).print_axis(0, 0, 0);
    if (!printed) {
      end_list_early(out, json);
      return fail(std::move(printed).error());
    }
  } else if (!json) {
    out += "[]";
  }
  out += json ? "]}\n" : "\n";
  return Exit::good;
}

}  // namespace

Action register_show(CLI::App& verb) {
  auto options = std::make_shared<ShowArguments>();
  add_path(verb, options->path);
  add_text(verb, "NAME", options->name, "Name of the tensor", Presence::required);
  add_text(verb, "--slice SLICE", options->slice,
           "begin:end:step or an index for each dimension, as in Python: 0:4,:,-1. In JSON, values are flat "
           "in row-major order and values_shape is their shape");
  add_flag(verb, "--stats", options->stats, "Show min, max, mean, std, norm and counts instead of values");
  add_flag(verb, "--hist", options->hist, "Show a histogram instead of values");
  return [options](const Common& common) { return show(*options, common); };
}

}  // namespace ht::cli
