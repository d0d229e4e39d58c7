// The verbs residency, prefetch and evict: they report and change which tensors are in the page cache.
#include <fmt/format.h>

#include <htensor/load/load.hpp>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cli/cli.hpp"
#include "cli/options.hpp"
#include "cli/print/progress.hpp"
#include "cli/print/rows.hpp"
#include "cli/print/table.hpp"
#include "cli/print/text.hpp"

namespace ht::cli {
namespace {

std::string percent(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.0f}%", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

struct ResidencyTotals {
  std::uint64_t stored_bytes = 0;
  std::uint64_t splat_bytes = 0;
  std::optional<std::uint64_t> cached_bytes = 0;

  // One tensor with unknown residency makes the sum unknown.
  void add(const Entry& entry, std::optional<std::uint64_t> cached) {
    auto& bytes = entry.is_splat() ? splat_bytes : stored_bytes;
    bytes = saturating_add(bytes, entry.bytes);
    cached_bytes =
        cached && cached_bytes ? std::optional(saturating_add(*cached_bytes, *cached)) : std::nullopt;
  }

  [[nodiscard]] std::string summary() const {
    std::string out = byte_count_text(stored_bytes);
    if (cached_bytes) {
      out = fmt::format("{} of {} in the page cache ({})", byte_count_text(*cached_bytes), out,
                        percent(*cached_bytes, stored_bytes));
    } else {
      out +=
          "; the amount in the page cache is unknown: the kernel reports it only to users who own the file "
          "or can write to it";
    }
    if (splat_bytes != 0)
      append_text(out, "; {} in splats (tensors stored as one repeated pattern)",
                  byte_count_text(splat_bytes));
    return out;
  }
};

// The page cache state of tensors, queried in batches: on older kernels each query maps a part of the file.
class PageCache {
 public:
  explicit PageCache(const Model& model) : model_(model) {}

  Result<std::optional<std::uint64_t>> of(std::size_t tensor) {
    if (tensor < first_ || tensor - first_ >= batch_.size()) {
      first_ = tensor;
      batch_ = HT_TRY(ht::residency(model_, tensor, batch_size));
    }
    return batch_[tensor - first_].cached_bytes;
  }

 private:
  static constexpr std::size_t batch_size = 1024;
  const Model& model_;
  std::size_t first_ = 0;
  std::vector<TensorResidency> batch_;
};

void append_json_row(OutputBuffer& out, const Entry& entry, std::optional<std::uint64_t> cached_bytes) {
  out.append(R"({"name":)", JsonText{entry.name}, R"(,"bytes":)", entry.bytes, R"(,"cached_bytes":)",
             cached_bytes, '}');
}

Result<void> print_json_lines(OutputBuffer& out, const Rows& rows, const Model& model) {
  PageCache cache(model);
  return rows.for_each([&](const Row& row) -> Result<void> {
    append_json_row(out, row.entry, HT_TRY(cache.of(row.position)));
    out += '\n';
    return {};
  });
}

Result<void> print_json(OutputBuffer& out, const Rows& rows, const Model& model) {
  ResidencyTotals totals;
  PageCache cache(model);
  out += R"({"tensors":[)";
  std::string_view separator;
  HT_TRY(rows.for_each([&](const Row& row) -> Result<void> {
    const auto cached_bytes = HT_TRY(cache.of(row.position));
    totals.add(row.entry, cached_bytes);
    out += std::exchange(separator, ",");
    append_json_row(out, row.entry, cached_bytes);
    return {};
  }));
  out.append(R"(],"cached_bytes":)", totals.cached_bytes, "}\n");
  return {};
}

Result<void> print_human(OutputBuffer& out, const Rows& rows, const Model& model, bool quiet) {
  constexpr std::string_view unknown = "unknown";
  Table table(out, {{.title = "name", .shortens = true},
                    {.title = "bytes", .right = true},
                    {.title = "cached", .right = true},
                    {.title = "", .right = true}});
  // The page cache is queried in the second pass only; the first pass measures the widest possible text.
  HT_TRY(rows.for_each([&](const Row& row) {
    table.name(row.entry.name);
    table.size(row.entry.bytes);
    table.text(unknown);
    table.text("100%");
  }));
  table.start_printing();
  ResidencyTotals totals;
  PageCache cache(model);
  HT_TRY(rows.for_each([&](const Row& row) -> Result<void> {
    const auto cached_bytes = HT_TRY(cache.of(row.position));
    totals.add(row.entry, cached_bytes);
    table.name(row.entry.name);
    table.size(row.entry.bytes);
    cached_bytes ? table.size(*cached_bytes) : table.text(unknown);
    const bool has_share = cached_bytes && !row.entry.is_splat();
    table.text(has_share ? percent(*cached_bytes, row.entry.bytes) : "-");
    return {};
  }));
  if (!quiet) append_text(out, "\n{}\n", totals.summary());
  return {};
}

Result<void> print_residency(const Model& model, const NameFilter& filter, const Common& common) {
  const auto rows = HT_TRY(Rows::of(model, filter));
  OutputBuffer out;
  auto printed = common.jsonl  ? print_json_lines(out, rows, model)
                 : common.json ? print_json(out, rows, model)
                               : print_human(out, rows, model, common.quiet);
  if (!printed && !common.jsonl) end_list_early(out, common.json);
  return printed;
}

enum class Operation : std::uint8_t { report, prefetch, evict };

Action register_verb(CLI::App& verb, Operation operation) {
  auto filter = std::make_shared<NameFilter>();
  add_filter(verb, *filter);
  return for_each_path(verb, [filter, operation](const auto& path, const Common& common) -> Result<Exit> {
    const auto model = HT_TRY(Model::open(path, {.max_header_bytes = common.max_header}));
    if (operation == Operation::prefetch) HT_TRY(ht::prefetch(model, *filter, WorkWithBar(common).options()));
    if (operation == Operation::evict) HT_TRY(ht::evict(model, *filter));
    HT_TRY(print_residency(model, *filter, common));
    return Exit::good;
  });
}

}  // namespace

Action register_residency(CLI::App& verb) { return register_verb(verb, Operation::report); }
Action register_prefetch(CLI::App& verb) { return register_verb(verb, Operation::prefetch); }
Action register_evict(CLI::App& verb) { return register_verb(verb, Operation::evict); }

}  // namespace ht::cli
