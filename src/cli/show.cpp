#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "cli/cli.hpp"
#include "cli/elements.hpp"
#include "cli/options.hpp"
#include "cli/slice.hpp"
#include "cli/text.hpp"

namespace ht::cli {
namespace {

struct Options {
  std::string path;
  std::string name;
  std::string slice;
  std::uint64_t max_header = 0;
};

// The elements of one tensor to print, and their shape.
struct Part {
  Entry entry;
  DTypeInfo dtype;
  std::vector<Axis> axes;
  std::vector<std::int64_t> strides;  // of the axes, in elements
  std::vector<std::int64_t> shape;    // without the dropped ones

  /// Nothing to walk, however long the other axes are.
  [[nodiscard]] bool empty() const {
    return std::ranges::any_of(axes, [](const Axis& axis) { return axis.count == 0; });
  }
};

// Where a step along each dimension leads in the elements as they are stored.
void fill_strides(Part& part) {
  const auto& dims = part.entry.dims;
  part.strides.resize(dims.size());
  if (part.entry.order == ElementOrder::row_major) return layout::fill_row_major_strides(dims, part.strides);
  std::int64_t step = 1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    part.strides[i] = step;
    step *= std::max<std::int64_t>(dims[i], 1);
  }
}

Error not_dense(const Entry& entry, const Options& options) {
  const auto encoding = find_encoding(entry.encoding);
  return Error(ErrorCode::unsupported_encoding, "shown_tensors_are_dense",
               encoding ? fmt::format("tensor '{}' is {}, and show cannot decode block encodings yet",
                                      printable(entry.name), encoding->name)
                        : fmt::format("tensor '{}' has an unknown dtype and shape", printable(entry.name)))
      .at_path(options.path)
      .at_tensor(entry.name)
      .with_hint("write the stored bytes to a file: htensor export PATH NAME -o FILE.bin");
}

Result<Part> chosen_part(const Model& model, const Options& options) {
  const Catalog& catalog = model.catalog();
  const auto index = catalog.find(options.name);
  if (!index) return fail(model.raw(options.name).error());
  if (catalog[*index].dtype == DTypeTag::invalid) return fail(not_dense(catalog[*index], options));
  Part part{.entry = catalog[*index], .dtype = {}, .axes = {}, .strides = {}, .shape = {}};
  part.dtype = HT_TRY(model.dtype(part.entry.dtype));
  auto axes = parse_slice(options.slice, part.entry.dims);
  if (!axes) return fail(std::move(axes).error().at_path(options.path).at_tensor(options.name));
  part.axes = *std::move(axes);
  fill_strides(part);
  for (const auto& axis : part.axes) {
    if (!axis.dropped) part.shape.push_back(axis.count);
  }
  return part;
}

// Text goes out in large pieces, whatever the size of the tensor.
class Output {
 public:
  ~Output() { flush(); }
  fmt::memory_buffer& buffer() {
    if (buffer_.size() > 65536) flush();
    return buffer_;
  }
  void flush() {
    print({buffer_.data(), buffer_.size()});
    buffer_.clear();
  }

 private:
  fmt::memory_buffer buffer_;
};

// Calls `visit(index of the element as stored)` for each element in row-major order. It counts like an
// odometer and does not recurse: a file may name any rank.
template <class Visit>
Result<void> for_each(const Part& part, const Visit& visit) {
  if (part.empty()) return {};
  const auto& axes = part.axes;
  std::vector<std::int64_t> at(axes.size(), 0);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) offset += axes[i].begin * part.strides[i];
  while (true) {
    if (interrupted()) return fail(interruption());
    visit(offset);
    std::size_t depth = axes.size();
    while (depth > 0) {
      const Axis& axis = axes[depth - 1];
      const std::int64_t stride = axis.step * part.strides[depth - 1];
      if (++at[depth - 1] < axis.count) {
        offset += stride;
        break;
      }
      offset -= stride * (axis.count - 1);
      at[--depth] = 0;
    }
    if (depth == 0) return {};
  }
}

Result<void> print_json(const Part& part, const AppendElement& append) {
  Output out;
  append_text(out.buffer(), R"({{"name":{},"dtype":{},"shape":{},"values_shape":{},"values":[)",
              json_string(part.entry.name), json_string(part.dtype.name), json_shape(part.entry.dims),
              json_shape(part.shape));
  bool first = true;
  HT_TRY(for_each(part, [&](std::int64_t index) {
    if (!std::exchange(first, false)) out.buffer().push_back(',');
    append(out.buffer(), index);
  }));
  out.buffer().append(std::string_view("]}\n"));
  return {};
}

// As numpy prints: nested brackets, the middle of long dimensions left out.
class Printer {
 public:
  Printer(const Part& part, const AppendElement& append)
      : part_(part), append_(append), innermost_(part.axes.size()) {
    std::int64_t total = 1;
    // Enough is known once it is too many.
    for (const auto& axis : part.axes) total = std::min(total, most) * std::min(axis.count, most);
    shortened_ = total > most;
    while (innermost_ > 0 && part.axes[innermost_ - 1].dropped) --innermost_;
  }

  void print_all() {
    if (part_.empty()) {
      out_.buffer().append(std::string_view("[]"));
    } else {
      print_axis(0, 0, 0);
    }
    out_.buffer().push_back('\n');
  }

 private:
  // NOLINTNEXTLINE(misc-no-recursion): as deep as the rank, which is at most 64 in every format
  void print_axis(std::size_t depth, std::int64_t offset, std::size_t indent) {
    const auto at = [&](std::int64_t i) {
      const Axis& axis = part_.axes[depth];
      return offset + (axis.begin + i * axis.step) * part_.strides[depth];
    };
    for (; depth < part_.axes.size() && part_.axes[depth].dropped; ++depth) offset = at(0);
    if (depth == part_.axes.size()) return append_(out_.buffer(), offset);
    const Axis& axis = part_.axes[depth];
    const bool innermost = depth + 1 == innermost_;
    out_.buffer().push_back('[');
    for (std::int64_t i = 0; i < axis.count; ++i) {
      if (i > 0) separate(innermost, indent);
      if (shortened_ && axis.count > 2 * edge && i == edge) {
        out_.buffer().append(std::string_view("..."));
        i = axis.count - edge - 1;
        continue;
      }
      print_axis(depth + 1, at(i), indent + 1);
    }
    out_.buffer().push_back(']');
  }

  void separate(bool innermost, std::size_t indent) {
    if (innermost) {
      out_.buffer().append(std::string_view(", "));
    } else {
      append_text(out_.buffer(), "\n{:{}}", "", indent + 1);
    }
  }

  static constexpr std::int64_t most = 1000;
  static constexpr std::int64_t edge = 3;
  const Part& part_;
  const AppendElement& append_;
  std::size_t innermost_;  // one behind the last axis that is not dropped
  Output out_;
  bool shortened_ = false;
};

Result<Exit> show(const Options& options, const Common& common) {
  const auto model = HT_TRY(Model::open(options.path, {.max_header_bytes = options.max_header}));
  const auto part = HT_TRY(chosen_part(model, options));
  const bool json = common.json || common.jsonl;
  const auto raw = part.entry.is_splat() ? Storage() : HT_TRY(model.raw(part.entry.name));
  const auto append = HT_TRY(element_appender(part.entry, raw, json));
  HT_TRY(guarded(raw.bytes(), [&]() -> Result<void> {
    if (json) return print_json(part, append);
    if (!common.quiet) {
      print(fmt::format("{}  {} {}\n", printable(part.entry.name), part.dtype.name,
                        shape_text(part.entry.dims)));
    }
    Printer(part, append).print_all();
    return {};
  }));
  return Exit::good;
}

}  // namespace

Action register_show(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  add_path(verb, options->path);
  add_text(verb, options->name,
           {.name = "NAME", .type = "NAME", .description = "The tensor", .required = true});
  add_text(verb, options->slice,
           {.name = "--slice",
            .type = "SLICE",
            .description = "begin:end:step or an index for each dimension, as in Python: 0:4,:,-1. In JSON, "
                           "values are flat in row-major order and values_shape is their shape"});
  add_max_header(verb, options->max_header);
  return [options](const Common& common) { return show(*options, common); };
}

}  // namespace ht::cli
