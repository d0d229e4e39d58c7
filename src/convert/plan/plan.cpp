#include <htensor/convert/convert.hpp>

#include <algorithm>
#include <array>
#include <htensor/dtype/encoding.hpp>
#include <htensor/format/format.hpp>
#include <htensor/format/metadata.hpp>
#include <numeric>
#include <utility>

#include "base/format_text.hpp"
#include "base/utf8.hpp"
#include "convert/plan/plan.hpp"
#include "convert/plan/target_catalog.hpp"
#include "format/irpa/irpa.hpp"
#include "format/shards/numbered_name.hpp"
#include "format/shards/shard_index.hpp"

namespace ht::inline v1 {
namespace {

using Path = std::filesystem::path;

// The usual size of a disk block on file systems that share disk blocks.
constexpr std::uint64_t usual_disk_block_bytes = 4096;

Result<const Format*> chosen_format(const Path& target, const ConvertOptions& options) {
  const auto names = format_names(options.formats);
  if (options.format.empty()) {
    auto by_extension = format_for(target, options.formats);
    if (by_extension) return by_extension;
    return fail(std::move(by_extension)
                    .error()
                    .with_hint(format_text("name the format with --to, or use the extension of one of {}",
                                           fmt::join(names, ", "))));
  }
  if (const auto* const found = find_format(options.format, options.formats)) return found;
  return fail(Error(ErrorCode::not_found, "format_name_is_known",
                    format_text("format '{}' does not exist", to_utf8(options.format)))
                  .with_hint(format_text("choose one of {}", fmt::join(names, ", "))));
}

using From = decltype(PlannedFile::Part::from);

From from_of(const TargetTensor& tensor) {
  const Entry& entry = tensor.entry;
  if (tensor.memory) return *tensor.memory;
  if (!entry.is_splat()) return PartOrigin::Stored{entry.file, entry.offset};
  PartOrigin::Repeated repeated{.pattern = {},
                                .pattern_bytes = static_cast<std::uint8_t>(entry.splat.size())};
  std::ranges::copy(entry.splat, repeated.pattern.begin());
  return repeated;
}

class Planner {
 public:
  Planner(const Catalog& source, const InMemory& memory, Path target, const ConvertOptions& options,
          const Format& format)
      : source_(source),
        source_format_(find_format(source.format(), options.formats)),
        memory_(memory),
        target_(std::move(target)),
        options_(options),
        format_(format),
        layout_{.alignment = options.alignment,
                .describe_types = options.describe_types,
                .empty_metadata = options.empty_metadata,
                .keep_external = false,
                .disk_block_bytes = options.share_blocks ? usual_disk_block_bytes : 0} {}

  Result<ConversionPlan> run() {
    HT_TRY(check_options());
    tensors_ = HT_TRY(target_tensors(source_, memory_, options_));
    HT_TRY(change_types(tensors_, options_,
                        [&](const TargetTensor& tensor, Loss::Kind kind, const Error& why) -> Loss& {
                          return add_loss(tensor.name, kind, why);
                        }));
    if (options_.normalize_layout) {
      for (auto& tensor : tensors_) HT_TRY(normalize_layout(tensor));
    } else {
      HT_TRY(normalize_unsupported_layouts(tensors_, format_, source_format_));
    }
    metadata_ = HT_TRY(metadata_to_carry());
    auto planned = plan_files();
    if (!planned && planned.error().code() == ErrorCode::would_lose) {
      HT_TRY(drop_unsupported());
      planned = plan_files();
    }
    HT_TRY(std::move(planned));
    plan_.format = format_.name;
    plan_.formats = options_.formats;
    plan_.target = target_;
    plan_.is_sharded = options_.shard_bytes != 0;
    plan_.tensors = tensors_.size();
    return std::move(plan_);
  }

 private:
  [[nodiscard]] Result<void> check_options() const {
    if (options_.alignment > format_.max_alignment) {
      return fail(
          Error(ErrorCode::header_too_large, "alignment_within_format_limit",
                format_text("alignment {} exceeds the limit of {} for the format {}{}{}", options_.alignment,
                            format_.max_alignment, format_.name,
                            format_.max_alignment_reason.empty() ? "" : ": ", format_.max_alignment_reason))
              .with_hint(format_text("use --align {} or less", format_.max_alignment)));
    }
    if (options_.shard_bytes != 0 && format_.sharding == Format::Sharding::none) {
      return fail(Error(ErrorCode::would_lose, "format_has_shards",
                        format_text("the format {} has no shards", format_.name))
                      .with_hint("convert to safetensors or GGUF, or leave out --shard-size"));
    }
    return {};
  }

  // Padding and split keys describe the source's files, not the model, and are left out.
  [[nodiscard]] Result<Metadata> metadata_to_carry() const {
    Metadata metadata;
    if (!options_.metadata) return metadata;
    const bool has_parts = source_format_ != nullptr && source_format_->sharding == Format::Sharding::parts;
    for (const auto& item : source_.metadata()) {
      const bool is_split_key = has_parts && item.key.starts_with(split_prefix);
      if (!is_padding(item) && !is_split_key) HT_TRY(metadata.add(item.key, item.value));
    }
    HT_TRY(metadata.index());
    return metadata;
  }

  // Drops metadata and keeps tensors as raw bytes where the format cannot store them. Each tensor and each
  // key is checked alone: an Error about all of them, such as too many tensors, is left to `encode`.
  Result<void> drop_unsupported() {
    HT_TRY(drop_unsupported_metadata());
    // Entries point into this vector, so it must not reallocate.
    raw_dims_.reserve(tensors_.size());
    for (auto& tensor : tensors_) HT_TRY(drop_unsupported_type(tensor));
    return {};
  }

  // Returns why the format cannot store a file of this tensor and metadata; nullopt if it can.
  [[nodiscard]] std::optional<Error> refusal(const TargetTensor& tensor,
                                             const Metadata& metadata = {}) const {
    auto catalog = catalog_of(std::span(&tensor, 1), metadata, source_, format_);
    if (!catalog) return std::move(catalog).error();
    auto encoded = encode(format_, *catalog, layout_);
    if (!encoded) return std::move(encoded).error();
    return std::nullopt;
  }

  Result<void> drop_unsupported_metadata() {
    const auto metadata = std::exchange(metadata_, {});
    static constexpr std::array<std::int64_t, 1> none{0};
    const TargetTensor small{"t", {.dtype = format_.raw_dtype, .dims = none}, {}};
    for (const auto& item : metadata) {
      const auto& [key, value] = item;
      Metadata alone;
      HT_TRY(alone.add(key, value));
      const auto refused = refusal(small, alone);
      if (!refused) {
        HT_TRY(metadata_.add(key, value));
        continue;
      }
      if (refused->code() != ErrorCode::would_lose) return fail(*refused);
      // A key about padding, alignment or the split of the source's files is not a loss, because the target
      // has its own.
      if (describes_layout(item)) continue;
      add_loss(key, Loss::Kind::metadata, *refused).is_tensor = false;
    }
    return metadata_.index();
  }

  Result<void> drop_unsupported_type(TargetTensor& tensor) {
    auto refused = refusal(tensor);
    if (!refused) return {};
    // Dropping a note is a loss only if it states more than the dtype and the shape, which the target stores.
    const bool has_note = !format_irpa::note_beyond_type(tensor.entry).empty();
    if (const auto note = std::exchange(tensor.entry.note, {}); !note.empty()) {
      auto other = refusal(tensor);
      if (!other) {
        if (has_note) add_loss(tensor.name, Loss::Kind::metadata, *refused);
        return {};
      }
      tensor.entry.note = note;
      refused = std::move(other);
    }
    if (refused->code() != ErrorCode::would_lose) return fail(*std::move(refused));
    HT_TRY(keep_raw_bytes(tensor, *refused));
    auto raw_refusal = refusal(tensor);
    if (raw_refusal && !tensor.entry.note.empty()) {
      if (has_note) add_loss(tensor.name, Loss::Kind::metadata, *raw_refusal);
      tensor.entry.note = {};
      raw_refusal = refusal(tensor);
    }
    if (raw_refusal) return fail(*std::move(refused));
    return {};
  }

  Result<void> keep_raw_bytes(TargetTensor& tensor, const Error& refused) {
    const Entry before = tensor.entry;
    // Raw bytes carry no byte order, so they are stored row-major and little-endian.
    HT_TRY(normalize_layout(tensor));
    raw_dims_.push_back(static_cast<std::int64_t>(tensor.entry.bytes));
    tensor.entry.dtype = format_.raw_dtype;
    tensor.entry.encoding = EncodingTag::dense;
    tensor.entry.dims = std::span(&raw_dims_.back(), 1);
    add_loss(tensor.name, Loss::Kind::raw_bytes, refused).change = change_text(before, tensor.entry);
    return {};
  }

  Loss& add_loss(std::string_view name, Loss::Kind kind, const Error& error) {
    return plan_.losses.emplace_back(Loss{.name = std::string(name),
                                          .kind = kind,
                                          .is_tensor = true,
                                          .why = std::string(error.message()),
                                          .hint = std::string(error.hint())});
  }

  // Called again after `drop_unsupported` if the format rejected a tensor or a key.
  Result<void> plan_files() {
    plan_.files.clear();
    if (options_.canonical) sort_canonically(tensors_, format_);
    const auto whole = HT_TRY(catalog_of(tensors_, metadata_, source_, format_));
    const auto shards = HT_TRY(cut_into_shards());
    if (shards.size() > 1) {
      HT_TRY(plan_shards(shards));
    } else {
      plan_.files.push_back(HT_TRY(plan_file(target_, tensors_, whole)));
    }
    if (format_.warnings != nullptr) plan_.warnings = format_.warnings(whole);
    return {};
  }

  Result<PlannedFile> plan_file(Path path, std::span<const TargetTensor> tensors, const Catalog& catalog) {
    auto encoded = HT_TRY(encode(format_, catalog, layout_));
    PlannedFile file{.path = std::move(path),
                     .bytes = encoded.file_bytes,
                     .header = std::move(encoded.header),
                     .finish = encoded.finish};
    file.parts.reserve(catalog.size());
    for (std::size_t i = 0; i < catalog.size(); ++i) {
      if (!encoded.offsets[i] || catalog[i].bytes == 0) continue;
      const auto& tensor = tensors[i];
      const From from = tensor.change     ? From(converted(tensor, file))
                        : tensor.relayout ? From(reordered(tensor, file))
                                          : from_of(tensor);
      file.parts.push_back({.offset = *encoded.offsets[i], .bytes = catalog[i].bytes, .from = from});
    }
    std::ranges::sort(file.parts, {}, &PlannedFile::Part::offset);
    return file;
  }

  static PartOrigin::Reordered reordered(const TargetTensor& tensor, PlannedFile& file) {
    file.relayouts.push_back(tensor.relayout);
    return {.file = tensor.entry.file,
            .offset = tensor.entry.offset,
            .relayout = static_cast<std::uint32_t>(file.relayouts.size() - 1)};
  }

  static PartOrigin::Converted converted(const TargetTensor& tensor, PlannedFile& file) {
    file.changes.push_back(*tensor.change);
    return {.file = tensor.entry.file,
            .offset = tensor.entry.offset,
            .change = static_cast<std::uint32_t>(file.changes.size() - 1)};
  }

  // Divides the tensors into shards. Tensors of a shard are adjacent. Each shard has at least one, except
  // that a model without tensors has one empty shard.
  [[nodiscard]] Result<std::vector<std::span<const TargetTensor>>> cut_into_shards() const {
    const std::span<const TargetTensor> all(tensors_);
    if (options_.shard_bytes == 0) return std::vector{all};
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
    if (shards.size() > format_.max_shards) {
      return fail(Error(ErrorCode::would_lose, "shards_can_be_numbered",
                        format_text("the model needs {} shards but the limit is {}", shards.size(),
                                    format_.max_shards))
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
      const SplitInfo part{.number = i, .count = name.count, .tensors = tensors_.size()};
      const auto metadata = HT_TRY(metadata_of_part(format_.sharding, metadata_, part));
      const auto catalog = HT_TRY(catalog_of(shards[i], metadata, source_, format_));
      plan_.files.push_back(
          HT_TRY(plan_file(target_.parent_path() / name.name_of_part(i + 1), shards[i], catalog)));
    }
    if (format_.sharding == Format::Sharding::index) plan_index(shards, name);
    return {};
  }

  // Readers find shards by their names, or by the names in an index.
  [[nodiscard]] Result<void> check_name() const {
    const auto* const named = format_of_extension(target_.extension().string(), options_.formats);
    const bool is_found = named == &format_ && target_.has_stem();
    if (is_found && is_utf8(target_.filename().string())) return {};
    return fail(
        Error(ErrorCode::bad_name, "shard_names_can_be_found",
              is_found ? "names of shards must be valid UTF-8"
                       : format_text("shards of {} need a name that ends with its extension", format_.name))
            .at_path(target_.native())
            .with_hint(format_text("name the target model{}", format_.extension)));
  }

  void plan_index(const std::vector<std::span<const TargetTensor>>& shards, const NumberedName& name) {
    ShardIndex index{.files = name.names(), .tensors = {}, .file_of = {}};
    std::uint64_t total = 0;
    for (std::uint32_t i = 0; i < shards.size(); ++i) {
      for (const auto& tensor : shards[i]) {
        index.tensors.add(tensor.name);
        index.file_of.push_back(i);
        total += tensor.entry.bytes;
      }
    }
    const std::string json = encode_shard_index(index, total);
    const Bytes bytes = bytes_of(json);
    auto path = target_;
    path += index_suffix;
    plan_.main_file = plan_.files.size();
    plan_.files.push_back(
        {.path = std::move(path), .bytes = bytes.size(), .header = {bytes.begin(), bytes.end()}});
  }

  const Catalog& source_;
  const Format* source_format_;  // null if unknown
  const InMemory& memory_;
  Path target_;
  const ConvertOptions& options_;
  const Format& format_;
  EncodeOptions layout_;
  std::vector<TargetTensor> tensors_;
  Metadata metadata_;
  std::vector<std::int64_t> raw_dims_;  // shapes of tensors that are kept as raw bytes: entries point at them
  ConversionPlan plan_;
};

}  // namespace

std::uint64_t ConversionPlan::bytes() const noexcept {
  return std::accumulate(files.begin(), files.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const PlannedFile& file) { return sum + file.bytes; });
}

const Path& ConversionPlan::model_path() const noexcept { return files[main_file].path; }

Result<ConversionPlan> plan_conversion(const Model& source, const Path& target,
                                       const ConvertOptions& options) {
  return without_bad_alloc([&]() -> Result<ConversionPlan> {
    auto plan = HT_TRY(plan_from(source.catalog(), {}, target, options));
    plan.sources = identities_of(source);
    return plan;
  });
}

Result<ConversionPlan> plan_from(const Catalog& source, const InMemory& memory, const Path& target,
                                 const ConvertOptions& options) {
  return without_bad_alloc([&]() -> Result<ConversionPlan> {
    const auto* const format = HT_TRY(chosen_format(target, options));
    auto plan = Planner(source, memory, target, options, *format).run();
    if (plan || !plan.error().path().empty()) return plan;
    return fail(std::move(plan).error().at_path(target.native()));
  });
}

}  // namespace ht::inline v1
