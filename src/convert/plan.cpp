#include <htensor/convert/convert.hpp>

#include <algorithm>
#include <htensor/base/json_text.hpp>
#include <htensor/base/utf8.hpp>
#include <htensor/format/encode.hpp>
#include <htensor/format/metadata_edit.hpp>
#include <numeric>

#include "base/format_text.hpp"
#include "convert/from_memory.hpp"
#include "convert/losses.hpp"
#include "format/gguf/gguf.hpp"
#include "format/shards/numbered_name.hpp"

namespace ht::inline v1 {
namespace {

using Path = std::filesystem::path;

// As file systems that share blocks have them.
constexpr std::uint64_t block_bytes = 4096;

Result<std::string_view> chosen_format(const Path& target, const ConvertOptions& options) {
  const auto names = format_names();
  if (options.format.empty()) {
    auto meant = format_for(target);
    if (meant) return meant;
    return fail(std::move(meant).error().with_hint(
        format_text("name the format with --to, or use the extension of one of {}", fmt::join(names, ", "))));
  }
  if (const auto found = std::ranges::find(names, options.format); found != names.end()) return *found;
  return fail(Error(ErrorCode::not_found, "format_has_a_name",
                    format_text("format '{}' does not exist", to_utf8(options.format)))
                  .with_hint(format_text("choose one of {}", fmt::join(names, ", "))));
}

using From = decltype(PlannedPart::from);

From from_of(const TargetTensor& tensor) {
  const Entry& entry = tensor.entry;
  if (tensor.memory) return *tensor.memory;
  if (!entry.is_splat()) return StoredBytes{entry.file, entry.offset};
  RepeatedBytes repeated{.pattern = {}, .pattern_bytes = static_cast<std::uint8_t>(entry.splat.size())};
  std::ranges::copy(entry.splat, repeated.pattern.begin());
  return repeated;
}

class Planner {
 public:
  Planner(const Catalog& source, const InMemory& memory, Path target, const ConvertOptions& options,
          std::string_view format)
      : source_(source),
        memory_(memory),
        target_(std::move(target)),
        options_(options),
        format_(format),
        layout_{.alignment = options.alignment,
                .tensor_notes = options.tensor_notes,
                .keep_external = false,
                .block_bytes = options.share_blocks ? block_bytes : 0} {}

  Result<ConversionPlan> run() {
    HT_TRY(check_alignment());
    auto tensors = HT_TRY(target_tensors(source_, memory_, options_));
    if (options_.normalize_layout || must_be_little(tensors)) HT_TRY(normalize_layout(tensors));
    const auto metadata = HT_TRY(metadata_to_carry());
    fitted_ = HT_TRY(fit(std::move(tensors), metadata, source_, format_, layout_, options_.shard_bytes != 0));
    // As what they are now.
    if (options_.canonical) sort_canonically(fitted_.tensors, format_);
    plan_.format = format_;
    plan_.target = target_;
    plan_.is_sharded = options_.shard_bytes != 0;
    plan_.tensors = fitted_.tensors.size();
    plan_.losses = std::move(fitted_.losses);
    const auto whole = HT_TRY(catalog_of(fitted_.tensors, fitted_.metadata, source_, format_));
    plan_.warnings = reader_warnings(format_, whole);
    const auto shards = HT_TRY(cut_into_shards());
    if (shards.size() <= 1) {
      plan_.files.push_back(HT_TRY(plan_file(target_, fitted_.tensors, fitted_.metadata)));
      return std::move(plan_);
    }
    HT_TRY(plan_shards(shards));
    return std::move(plan_);
  }

 private:
  // An NPY's header is as long as it takes to align the data.
  [[nodiscard]] Result<void> check_alignment() const {
    constexpr std::uint64_t most = 8192;
    if (format_ != "npy" || options_.alignment <= most) return {};
    return fail(Error(ErrorCode::header_too_large, "numpy_reads_the_header",
                      format_text("alignment {} needs a header of that size, and numpy.load accepts at most "
                                  "10000 bytes by default",
                                  options_.alignment))
                    .with_hint(format_text("use --align {} or less", most)));
  }

  // What fills a header up says nothing of the model.
  [[nodiscard]] Result<Metadata> metadata_to_carry() const {
    Metadata metadata;
    if (!options_.metadata) return metadata;
    const Metadata& all = source_.metadata();
    const bool from_gguf = source_.format() == "gguf";
    for (std::size_t i = 0; i < all.size(); ++i) {
      // Nor does which part of another file this one was.
      const bool is_of_a_part = from_gguf && all[i].key.starts_with("split.");
      if (!is_padding(all[i]) && !is_of_a_part) HT_TRY(metadata.add(all[i].key, all[i].value));
    }
    HT_TRY(metadata.index());
    return metadata;
  }

  Result<PlannedFile> plan_file(Path path, std::span<const TargetTensor> tensors, const Metadata& metadata) {
    const auto catalog = HT_TRY(catalog_of(tensors, metadata, source_, format_));
    auto encoded = HT_TRY(encode(format_, catalog, layout_));
    PlannedFile file{.path = std::move(path),
                     .bytes = encoded.file_bytes,
                     .header = std::move(encoded.header),
                     .parts = {},
                     .relayouts = {}};
    file.parts.reserve(catalog.size());
    for (std::size_t i = 0; i < catalog.size(); ++i) {
      if (!encoded.offsets[i] || catalog[i].bytes == 0) continue;
      const From from = tensors[i].relayout ? From(relaid(tensors[i], file)) : from_of(tensors[i]);
      file.parts.push_back({.offset = *encoded.offsets[i], .bytes = catalog[i].bytes, .from = from});
    }
    std::ranges::sort(file.parts, {}, &PlannedPart::offset);
    return file;
  }

  // A GGUF has one order for all of its tensors, and most programs refuse the other one: only who has such a
  // file already gets another.
  [[nodiscard]] bool must_be_little(std::span<const TargetTensor> tensors) const {
    const auto is_big = [](const TargetTensor& tensor) { return tensor.entry.byte_order == ByteOrder::big; };
    return format_ == "gguf" && (source_.format() != "gguf" || !std::ranges::all_of(tensors, is_big));
  }

  static RelaidBytes relaid(const TargetTensor& tensor, PlannedFile& file) {
    file.relayouts.push_back(tensor.relayout);
    return {.file = tensor.entry.file,
            .offset = tensor.entry.offset,
            .relayout = static_cast<std::uint32_t>(file.relayouts.size() - 1)};
  }

  // Tensors that follow each other; each shard has one at least.
  [[nodiscard]] Result<std::vector<std::span<const TargetTensor>>> cut_into_shards() const {
    const std::span<const TargetTensor> all(fitted_.tensors);
    if (options_.shard_bytes == 0) return std::vector{all};
    if (format_ != "safetensors" && format_ != "gguf") {
      return fail(Error(ErrorCode::would_lose, "format_has_shards",
                        format_text("the format {} has no shards", format_))
                      .with_hint("convert to safetensors or GGUF, or leave out --shard-size"));
    }
    std::vector<std::span<const TargetTensor>> shards;
    std::size_t begin = 0;
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i != begin && all[i].entry.bytes > options_.shard_bytes - std::min(bytes, options_.shard_bytes)) {
        shards.push_back(all.subspan(begin, i - begin));
        begin = i;
        bytes = 0;
      }
      bytes += all[i].entry.bytes;
    }
    shards.push_back(all.subspan(begin));
    // Of five digits in their names, and in GGUF of 16 bits.
    const std::size_t most = format_ == "gguf" ? 65'535 : 99'999;
    if (shards.size() > most) {
      return fail(Error(ErrorCode::would_lose, "shards_can_be_numbered",
                        format_text("the model needs {} shards but the limit is {}", shards.size(), most))
                      .with_hint("use a larger --shard-size"));
    }
    return shards;
  }

  Result<void> plan_shards(const std::vector<std::span<const TargetTensor>>& shards) {
    HT_TRY(check_name());
    const NumberedName name{.stem = target_.stem().string(),
                            .number = 1,
                            .count = static_cast<std::uint32_t>(shards.size()),
                            .extension = target_.extension().string()};
    for (std::uint32_t i = 0; i < shards.size(); ++i) {
      const auto path = target_.parent_path() / name.of(i + 1);
      const auto metadata = HT_TRY(metadata_of_shard(i, name.count));
      plan_.files.push_back(HT_TRY(plan_file(path, shards[i], metadata)));
    }
    if (format_ == "safetensors") plan_index(shards);
    return {};
  }

  // Shards are found again by their names, and those of safetensors by what an index calls them.
  [[nodiscard]] Result<void> check_name() const {
    const bool is_found = format_of_extension(target_.extension().string()) == format_ && target_.has_stem();
    if (is_found && is_utf8(target_.filename().string())) return {};
    return fail(Error(ErrorCode::bad_name, "shards_are_found_by_their_names",
                      is_found
                          ? "names of shards must be valid UTF-8"
                          : format_text("shards of {} need a name that ends with its extension", format_))
                    .at_path(target_.native())
                    .with_hint(format_text("name the target model.{}", format_)));
  }

  // Each safetensors file tells all; the first part of a GGUF does, and the others which part they are.
  [[nodiscard]] Result<Metadata> metadata_of_shard(std::uint32_t number, std::uint32_t count) const {
    if (format_ == "safetensors") return fitted_.metadata;
    Metadata metadata;
    const Metadata& all = fitted_.metadata;
    for (std::size_t i = 0; number == 0 && i < all.size(); ++i) {
      // What was split, or merged, before may tell so still.
      if (!all[i].key.starts_with("split.")) HT_TRY(metadata.add(all[i].key, all[i].value));
    }
    HT_TRY(metadata.add("split.no", static_cast<std::uint16_t>(number)));
    HT_TRY(metadata.add("split.count", static_cast<std::uint16_t>(count)));
    HT_TRY(metadata.add("split.tensors.count", static_cast<std::int32_t>(fitted_.tensors.size())));
    HT_TRY(metadata.index());
    return metadata;
  }

  void plan_index(const std::vector<std::span<const TargetTensor>>& shards) {
    std::uint64_t total = 0;
    for (const auto& tensor : fitted_.tensors) total += tensor.entry.bytes;
    std::string json =
        format_text("{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n  \"weight_map\": {{", total);
    bool first = true;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      for (const auto& tensor : shards[i]) {
        json += std::exchange(first, false) ? "\n    " : ",\n    ";
        append_json_string(json, tensor.name);
        json += ": ";
        append_json_string(json, plan_.files[i].path.filename().string());
      }
    }
    json += "\n  }\n}\n";
    const Bytes bytes = bytes_of(json);
    auto path = target_;
    path += ".index.json";
    plan_.files.push_back({.path = std::move(path),
                           .bytes = bytes.size(),
                           .header = {bytes.begin(), bytes.end()},
                           .parts = {},
                           .relayouts = {}});
  }

  const Catalog& source_;
  const InMemory& memory_;
  Path target_;
  const ConvertOptions& options_;
  std::string_view format_;
  Layout layout_;
  Fitted fitted_;
  ConversionPlan plan_;
};

}  // namespace

std::uint64_t ConversionPlan::bytes() const noexcept {
  return std::accumulate(files.begin(), files.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const PlannedFile& file) { return sum + file.bytes; });
}

const Path& ConversionPlan::model_path() const noexcept {
  return format == "safetensors" ? files.back().path : files.front().path;
}

Result<ConversionPlan> plan_conversion(const Catalog& source, const Path& target,
                                       const ConvertOptions& options) {
  return plan_from(source, {}, target, options);
}

Result<ConversionPlan> plan_from(const Catalog& source, const InMemory& memory, const Path& target,
                                 const ConvertOptions& options) {
  return without_bad_alloc([&]() -> Result<ConversionPlan> {
    const auto format = HT_TRY(chosen_format(target, options));
    auto plan = Planner(source, memory, target, options, format).run();
    if (plan || !plan.error().path().empty()) return plan;
    return fail(std::move(plan).error().at_path(target.native()));
  });
}

}  // namespace ht::inline v1
