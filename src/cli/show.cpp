#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "cli/cli.hpp"
#include "cli/slice.hpp"
#include "cli/text.hpp"

namespace ht::cli {
namespace {

struct Options {
  std::string path;
  std::string name;
  std::string slice;
};

// What is to be shown of one tensor: which elements, in which shape.
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

Result<Part> chosen_part(const Model& model, const Options& options) {
  const Catalog& catalog = model.catalog();
  const auto index = catalog.find(options.name);
  // The typed look-up has the words for a name that is not there.
  if (!index) return fail(model.flat<U8>(options.name).error());
  Part part{.entry = catalog[*index], .dtype = {}, .axes = {}, .strides = {}, .shape = {}};
  part.dtype = HT_TRY(model.dtype(part.entry.dtype));
  auto axes = parse_slice(options.slice, part.entry.dims);
  if (!axes) return fail(std::move(axes).error().at_path(options.path).at_tensor(options.name));
  part.axes = *std::move(axes);
  part.strides.resize(part.axes.size());
  layout::fill_row_major_strides(part.entry.dims, part.strides);
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

// Calls `visit(linear index)` for each element in row-major order.
template <class Visit>
Result<void> for_each(const Part& part, std::size_t depth, std::int64_t offset, const Visit& visit) {
  if (interrupted()) return fail(interruption());
  if (depth == part.axes.size()) {
    visit(offset);
    return {};
  }
  const Axis& axis = part.axes[depth];
  for (std::int64_t i = 0; i < axis.count; ++i) {
    HT_TRY(for_each(part, depth + 1, offset + (axis.begin + i * axis.step) * part.strides[depth], visit));
  }
  return {};
}

// Appends the element at a row-major index. The only thing here that knows its dtype.
using AppendElement = std::function<void(fmt::memory_buffer&, std::int64_t)>;

Result<AppendElement> element_appender(const Model& model, const Part& part, bool json) {
  return visit_dtype(part.entry.dtype, [&]<class D>(D) -> Result<AppendElement> {
    return [elements = HT_TRY(model.flat<D>(part.entry.name)), json](
               fmt::memory_buffer& out, std::int64_t i) { append_element<D>(out, elements(i), json); };
  });
}

Result<void> print_json(const Part& part, const AppendElement& append) {
  Output out;
  fmt::format_to(std::back_inserter(out.buffer()),
                 R"({{"name":{},"dtype":{},"shape":{},"values_shape":{},"values":[)",
                 json_string(part.entry.name), json_string(part.dtype.name), json_shape(part.entry.dims),
                 json_shape(part.shape));
  bool first = true;
  if (!part.empty()) {
    HT_TRY(for_each(part, 0, 0, [&](std::int64_t index) {
      if (!std::exchange(first, false)) out.buffer().push_back(',');
      append(out.buffer(), index);
    }));
  }
  out.buffer().append(std::string_view("]}\n"));
  return {};
}

// As numpy prints: nested brackets, the middle of long dimensions left out.
class Printer {
 public:
  Printer(const Part& part, const AppendElement& append) : part_(part), append_(append) {
    std::int64_t total = 1;
    // Enough is known once it is too many.
    for (const auto& axis : part.axes) total = std::min(total, most) * std::min(axis.count, most);
    shortened_ = total > most;
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
  void print_axis(std::size_t depth, std::int64_t offset, std::size_t indent) {
    if (depth == part_.axes.size()) return append_(out_.buffer(), offset);
    const Axis& axis = part_.axes[depth];
    const auto at = [&](std::int64_t i) {
      return offset + (axis.begin + i * axis.step) * part_.strides[depth];
    };
    if (axis.dropped) return print_axis(depth + 1, at(0), indent);
    const bool innermost = std::ranges::all_of(part_.axes.begin() + static_cast<std::ptrdiff_t>(depth) + 1,
                                               part_.axes.end(), &Axis::dropped);
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
      fmt::format_to(std::back_inserter(out_.buffer()), "\n{:{}}", "", indent + 1);
    }
  }

  static constexpr std::int64_t most = 1000;
  static constexpr std::int64_t edge = 3;
  const Part& part_;
  const AppendElement& append_;
  Output out_;
  bool shortened_ = false;
};

Result<Exit> show(const Options& options, const Common& common) {
  const auto model = HT_TRY(Model::open(options.path));
  const auto part = HT_TRY(chosen_part(model, options));
  const bool json = common.json || common.jsonl;
  const auto append = HT_TRY(element_appender(model, part, json));
  if (json) {
    HT_TRY(print_json(part, append));
    return Exit::good;
  }
  if (!common.quiet) {
    print(
        fmt::format("{}  {} {}\n", printable(part.entry.name), part.dtype.name, shape_text(part.entry.dims)));
  }
  Printer(part, append).print_all();
  return Exit::good;
}

}  // namespace

Action register_show(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  verb.add_option("path", options->path, "The file")->required()->type_name("PATH");
  verb.add_option("name", options->name, "The tensor")->required()->type_name("NAME");
  verb.add_option("--slice", options->slice,
                  "begin:end:step or an index for each dimension, as in Python: 0:4,:,-1. "
                  "JSON has the values flat, in row-major order, and their shape as values_shape")
      ->type_name("SLICE");
  return [options](const Common& common) { return show(*options, common); };
}

}  // namespace ht::cli
