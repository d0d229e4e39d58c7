#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "cli/cli.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
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
  AnyTensor tensor;
  std::vector<Axis> axes;
  std::vector<std::int64_t> strides;  // of the axes, in elements in row-major order
  std::vector<std::int64_t> shape;    // without the dropped ones

  /// Nothing to walk, however long the other axes are.
  [[nodiscard]] bool empty() const {
    return std::ranges::any_of(axes, [](const Axis& axis) { return axis.count == 0; });
  }
};

Error not_dense(const AnyTensor& tensor, const Options& options) {
  const auto name = printable(tensor.name());
  return Error(ErrorCode::unsupported_encoding, "shown_tensors_are_dense",
               tensor.type().is_blocks()
                   ? fmt::format("tensor '{}' is {}, and show cannot decode block encodings yet", name,
                                 tensor.type().name)
                   : fmt::format("tensor '{}' has an unknown dtype and shape", name))
      .at_path(options.path)
      .at_tensor(tensor.name())
      .with_hint("write the stored bytes to a file: htensor export PATH NAME -o FILE.bin");
}

Result<Part> chosen_part(const Model& model, const Options& options) {
  const auto tensor = HT_TRY(model[options.name]);
  if (!tensor.type().is_dense()) return fail(not_dense(tensor, options));
  auto axes = parse_slice(options.slice, tensor.dims());
  if (!axes) return fail(std::move(axes).error().at_path(options.path).at_tensor(options.name));
  Part part{.tensor = tensor, .axes = *std::move(axes), .strides = {}, .shape = {}};
  part.strides.resize(tensor.dims().size());
  layout::fill_row_major_strides(tensor.dims(), part.strides);
  for (const auto& axis : part.axes) {
    if (!axis.dropped) part.shape.push_back(axis.count);
  }
  return part;
}

template <class D>
void append_nth(OutputBuffer& out, Bytes elements, std::int64_t index, bool json) {
  if constexpr (is_packed<D>) {
    append_element<D>(out, PackedPointer<const D>(elements.data())[index], json);
  } else {
    typename D::Element element{};
    std::memcpy(&element, elements.data() + static_cast<std::size_t>(index) * sizeof(element),
                sizeof(element));
    append_element<D>(out, element, json);
  }
}

// Prints elements of a dense tensor. A group of 8 elements is read at a time, or more while elements are
// printed one after another, so that a corner of a large tensor costs no more than that of a small one.
class ElementPrinter {
 public:
  /// `bad_dtype` for dtypes of users.
  [[nodiscard]] static Result<ElementPrinter> of(const AnyTensor& tensor, bool json) {
    const auto elements = HT_TRY(layout::count_elements(tensor.dims()));
    return visit_dtype(tensor.type().dtype,
                       [&]<class D>(D) { return ElementPrinter(tensor, &append_nth<D>, json, elements); });
  }

  /// Appends the nth element in row-major order, as text or JSON.
  [[nodiscard]] Result<void> append(OutputBuffer& out, std::int64_t index) {
    if (index < begin_ || index >= end_) HT_TRY(read(index));
    append_(out, piece_, index - begin_, json_);
    return {};
  }

 private:
  using Append = void (*)(OutputBuffer& out, Bytes elements, std::int64_t index, bool json);

  ElementPrinter(const AnyTensor& tensor, Append append_one, bool json, std::int64_t elements)
      : tensor_(tensor), append_(append_one), json_(json), elements_(elements) {}

  [[nodiscard]] Result<void> read(std::int64_t index) {
    const std::int64_t count = index == end_ && index != 0 ? max_piece : group;
    const auto bytes = [&](std::int64_t elements) {
      return bytes_for(static_cast<std::uint64_t>(elements), tensor_.type().bits).value_or(0);
    };
    begin_ = index / group * group;
    end_ = std::min(begin_ + count, elements_);
    piece_.resize(static_cast<std::size_t>(bytes(end_ - begin_)));
    return tensor_.copy_to(piece_, bytes(begin_));
  }

  // They have whole bytes, whatever the dtype.
  static constexpr std::int64_t group = 8;
  static constexpr std::int64_t max_piece = 4096;

  AnyTensor tensor_;
  Append append_;
  bool json_;
  std::int64_t elements_;  // of the tensor
  // Elements from `begin_` to `end_`.
  std::vector<std::byte> piece_;
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
};

// Calls `visit(index of the element in the whole tensor)` for each element, both in row-major order.
template <class Visit>
Result<void> for_each(const Part& part, const Visit& visit) {
  if (part.empty()) return {};
  const auto& axes = part.axes;
  std::vector<std::int64_t> at(axes.size(), 0);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) offset += axes[i].begin * part.strides[i];
  while (true) {
    if (interrupted()) return fail(interruption());
    HT_TRY(visit(offset));
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

Result<void> print_json(const Part& part, ElementPrinter& elements) {
  OutputBuffer out;
  append_text(out, R"({{"name":{},"dtype":{},"shape":{},"values_shape":{},"values":[)",
              json_string(part.tensor.name()), json_string(part.tensor.type().name),
              json_shape(part.tensor.dims()), json_shape(part.shape));
  bool first = true;
  HT_TRY(for_each(part, [&](std::int64_t index) {
    if (!std::exchange(first, false)) out += ',';
    return elements.append(out, index);
  }));
  out += "]}\n";
  return {};
}

// As numpy prints: nested brackets, the middle of long dimensions left out.
class Printer {
 public:
  Printer(const Part& part, ElementPrinter& elements)
      : part_(part), elements_(elements), innermost_(part.axes.size()) {
    std::int64_t total = 1;
    // Enough is known once it is too many.
    for (const auto& axis : part.axes) total = std::min(total, most + 1) * std::min(axis.count, most + 1);
    shortened_ = total > most;
    while (innermost_ > 0 && part.axes[innermost_ - 1].dropped) --innermost_;
  }

  Result<void> print_all() {
    if (part_.empty()) {
      out_ += "[]";
    } else {
      HT_TRY(print_axis(0, 0, 0));
    }
    out_ += '\n';
    return {};
  }

 private:
  // NOLINTNEXTLINE(misc-no-recursion): as deep as the rank, which is at most 64 in every format
  Result<void> print_axis(std::size_t depth, std::int64_t offset, std::size_t indent) {
    const auto at = [&](std::int64_t i) {
      const Axis& axis = part_.axes[depth];
      return offset + (axis.begin + i * axis.step) * part_.strides[depth];
    };
    for (; depth < part_.axes.size() && part_.axes[depth].dropped; ++depth) offset = at(0);
    if (depth == part_.axes.size()) return elements_.append(out_, offset);
    const Axis& axis = part_.axes[depth];
    const bool innermost = depth + 1 == innermost_;
    out_ += '[';
    for (std::int64_t i = 0; i < axis.count; ++i) {
      if (i > 0) separate(innermost, indent);
      if (shortened_ && axis.count > 2 * edge && i == edge) {
        out_ += "...";
        i = axis.count - edge - 1;
        continue;
      }
      HT_TRY(print_axis(depth + 1, at(i), indent + 1));
    }
    out_ += ']';
    return {};
  }

  void separate(bool innermost, std::size_t indent) {
    if (innermost) {
      out_ += ", ";
    } else {
      append_text(out_, "\n{:{}}", "", indent + 1);
    }
  }

  static constexpr std::int64_t most = 1000;
  static constexpr std::int64_t edge = 3;
  const Part& part_;
  ElementPrinter& elements_;
  std::size_t innermost_;  // one behind the last axis that is not dropped
  OutputBuffer out_;
  bool shortened_ = false;
};

Result<Exit> show(const Options& options, const Common& common) {
  const auto model = HT_TRY(Model::open(options.path, {.max_header_bytes = options.max_header}));
  const auto part = HT_TRY(chosen_part(model, options));
  const bool json = common.json || common.jsonl;
  auto elements = HT_TRY(ElementPrinter::of(part.tensor, json));
  if (json) {
    HT_TRY(print_json(part, elements));
    return Exit::good;
  }
  if (!common.quiet) {
    print(fmt::format("{}  {} {}\n", printable(part.tensor.name()), part.tensor.type().name,
                      shape_text(part.tensor.dims())));
  }
  HT_TRY(Printer(part, elements).print_all());
  return Exit::good;
}

}  // namespace

Action register_show(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  add_path(verb, options->path);
  add_text(verb, "NAME", options->name, "The tensor", Presence::required);
  add_text(verb, "--slice SLICE", options->slice,
           "begin:end:step or an index for each dimension, as in Python: 0:4,:,-1. In JSON, values are flat "
           "in row-major order and values_shape is their shape");
  add_max_header(verb, options->max_header);
  return [options](const Common& common) { return show(*options, common); };
}

}  // namespace ht::cli
