#include <htensor/convert/save.hpp>

#include <algorithm>
#include <bit>
#include <htensor/base/bytes.hpp>
#include <htensor/base/fault.hpp>
#include <htensor/dtype/packed.hpp>
#include <htensor/dtype/relations.hpp>
#include <htensor/hash/digest.hpp>
#include <map>

#include "base/format_text.hpp"
#include "base/utf8.hpp"
#include "convert/copy/apply.hpp"
#include "convert/plan/plan.hpp"
#include "io/file_source.hpp"
#include "io/strategy/mapped_file.hpp"

namespace ht::inline v1 {
namespace {

using Path = std::filesystem::path;

// Groups tensors by scope. Scopes are in order of first appearance, and tensors keep their order within one.
std::vector<const TensorToSave*> by_scope(std::span<const TensorToSave> tensors) {
  std::map<std::string_view, std::vector<const TensorToSave*>> scopes;
  std::vector<std::string_view> order;
  for (const auto& tensor : tensors) {
    auto& scope = scopes[tensor.scope];
    if (scope.empty()) order.push_back(tensor.scope);
    scope.push_back(&tensor);
  }
  std::vector<const TensorToSave*> ordered;
  ordered.reserve(tensors.size());
  for (const auto scope : order) ordered.insert(ordered.end(), scopes[scope].begin(), scopes[scope].end());
  return ordered;
}

class SaveOperation {
 public:
  explicit SaveOperation(const SaveOptions& options)
      : options_(options), port_(options.port != nullptr ? *options.port : io::system_port()) {}

  Result<detail::Saved> run(const Path& target, std::span<const TensorToSave> tensors) {
    detail::Saved saved{.plan = HT_TRY(plan_for(target, tensors)), .report = {}};
    saved.report = HT_TRY(apply_from(saved.plan, {.sources = sources()}, options_.apply,
                                     {.dtypes = options_.dtypes, .port = &port_}));
    return saved;
  }

  Result<void> run(std::span<const TensorToSave> tensors, const AllocateFile& allocate) {
    HT_TRY(check_options_for_memory());
    const auto plan = HT_TRY(plan_for({}, tensors));
    HT_TRY(check_losses(plan, options_.apply));
    const PlannedFile& file = plan.files.front();
    auto* const data = checked::narrow<std::ptrdiff_t>(file.bytes) ? allocate(file.bytes) : nullptr;
    if (data == nullptr) return fail(out_of_memory(file.bytes));
    const MutableBytes into(data, static_cast<std::size_t>(file.bytes));
    const auto files = sources();
    HT_TRY(copy_to_memory(file, into, {.sources = files, .work = options_.apply.work}));
    if (file.finish == nullptr) return {};
    std::uint64_t sum = 0;
    for (const auto& part : file.parts) {
      sum = crc64nvme(
          into.subspan(static_cast<std::size_t>(part.offset), static_cast<std::size_t>(part.bytes)), sum);
    }
    file.finish(into.first(file.header.size()), sum);
    return {};
  }

  Result<ConversionPlan> plan_for(const Path& target, std::span<const TensorToSave> tensors) {
    for (const auto* const tensor : by_scope(tensors)) HT_TRY(add(*tensor));
    for (const auto& item : options_.metadata) {
      HT_TRY(builder_.metadata().add(item.key, item.value));
    }
    catalog_.emplace(HT_TRY(std::move(builder_).build()));
    return plan_from(*catalog_, memory_, target, options_.convert);
  }

 private:
  // The files by their numbers in the catalog. File 0, the catalog's own file, does not exist.
  [[nodiscard]] std::vector<io::MappedFile*> sources() const {
    std::vector<io::MappedFile*> sources{nullptr};
    for (const auto& file : files_) sources.push_back(file.get());
    return sources;
  }

  [[nodiscard]] Result<void> check_options_for_memory() const {
    const auto refuse = [](std::string_view rule, std::string_view problem, std::string_view hint) {
      return fail(Error(ErrorCode::bad_state, rule, std::string(problem)).with_hint(hint));
    };
    if (options_.convert.format.empty())
      return refuse("format_of_memory_is_named", "a file in memory has no extension that names its format",
                    "set the format, for example safetensors");
    if (options_.convert.shard_bytes != 0)
      return refuse("memory_holds_one_file", "a file in memory cannot have shards",
                    "remove the shard size, or save to a path");
    if (options_.apply.seal)
      return refuse("seal_is_beside_a_file", "a file in memory cannot have a seal", "seal the file on disk");
    return {};
  }

  Result<void> add(const TensorToSave& tensor) {
    Entry entry{.name = tensor.name, .dtype = tensor.dtype, .encoding = tensor.encoding, .dims = tensor.dims};
    std::optional<Bytes> memory;
    if (const auto* const splat = std::get_if<TensorToSave::Splat>(&tensor.data)) {
      HT_TRY(check_pattern(tensor.name, splat->pattern));
      entry.bytes = splat->bytes;
      entry.splat = splat->pattern.bytes();
    } else {
      const auto& storage = std::get<Storage>(tensor.data);
      if (const auto* const device = std::get_if<Storage::OnDevice>(&storage.origin())) {
        return fail(Error(ErrorCode::device_unavailable, "bytes_are_readable_by_the_host",
                          format_text("tensor '{}' is in the memory of {}, which the host cannot read",
                                      to_utf8(tensor.name), to_utf8(device->device)))
                        .at_tensor(tensor.name)
                        .with_hint("copy the tensor to the host first"));
      }
      const auto* const range = std::get_if<Storage::FileBacked>(&storage.origin());
      if (range != nullptr && storage.bytes().empty() && range->bytes != 0) {
        HT_TRY(use_file_range(*range, tensor.name, entry));
      } else if (range != nullptr && HT_TRY(use_mapped_range(*range, storage.bytes(), tensor.name, entry))) {
        // The bytes are copied from the file.
      } else if (changes_types() && !storage.bytes().empty()) {
        HT_TRY(use_memory_source(storage.bytes(), entry));
      } else {
        entry.bytes = storage.bytes().size();
        memory = storage.bytes();
      }
    }
    HT_TRY(check_size(entry));
    memory_.push_back(memory);
    return builder_.add(entry);
  }

  [[nodiscard]] bool changes_types() const noexcept {
    return !options_.convert.types.empty() || !options_.convert.dequantize.empty();
  }

  // Only values from a file can be converted, so the bytes are added as a MemorySource.
  Result<void> use_memory_source(Bytes bytes, Entry& entry) {
    files_.push_back(std::make_unique<io::MappedFile>(std::make_shared<io::MemorySource>(bytes, nullptr)));
    entry.file = HT_TRY(builder_.add_file(format_text("memory {}", files_.size())));
    entry.bytes = bytes.size();
    return {};
  }

  static Result<void> check_pattern(std::string_view name, const PartOrigin::Repeated& pattern) {
    if (std::has_single_bit(pattern.pattern_bytes) && pattern.pattern_bytes <= pattern.pattern.size())
      return {};
    return fail(Error(ErrorCode::size_mismatch, "pattern_size_is_a_power_of_two",
                      format_text("tensor '{}': pattern has {} bytes but must have 1, 2, 4, 8 or 16",
                                  to_utf8(name), pattern.pattern_bytes))
                    .at_tensor(name)
                    .with_hint("repeat the pattern to 1, 2, 4, 8 or 16 bytes"));
  }

  // Checks known types only; the caller is responsible for the size of other types.
  [[nodiscard]] Result<void> check_size(const Entry& entry) const {
    std::optional<std::uint64_t> needed;
    if (entry.encoding != EncodingTag::dense) {
      const auto encoding = find_encoding(entry.encoding);
      if (!encoding) return {};
      needed = block_bytes(entry.dims, *encoding);
    } else {
      const auto dtype = find_dtype(entry.dtype, options_.dtypes);
      if (!dtype) return {};
      needed = dense_bytes(entry.dims, dtype->bits);
    }
    if (needed == entry.bytes) return {};
    return fail(
        Error(ErrorCode::size_mismatch, "saved_size_matches_the_shape",
              needed ? format_text("tensor '{}' of shape [{}] needs {} bytes but has {}", to_utf8(entry.name),
                                   fmt::join(entry.dims, ", "), *needed, entry.bytes)
                     : format_text("tensor '{}' cannot have the shape [{}]", to_utf8(entry.name),
                                   fmt::join(entry.dims, ", ")))
            .at_tensor(entry.name)
            .with_hint("pass the shape of the data"));
  }

  // False if mapped bytes cannot be copied from their file, because its path may name another file by now.
  Result<bool> use_mapped_range(const Storage::FileBacked& range, Bytes bytes, std::string_view name,
                                Entry& entry) {
    if (range.inode == 0 || range.bytes != bytes.size() || bytes.empty()) return false;
    const auto number = number_of(range.path);
    if (!number) return false;
    const auto identity = files_[*number - 1]->source().identity();
    if (identity.device != range.device || identity.object != range.inode) return false;
    HT_TRY(use_file_range(range, name, entry));
    return true;
  }

  // The number of a file in the catalog. Each file is opened once.
  Result<std::uint32_t> number_of(const Path& path) {
    if (const auto found = numbers_.find(path); found != numbers_.end()) return found->second;
    files_.push_back(std::make_unique<io::MappedFile>(HT_TRY(io::FileSource::open(path, port_))));
    const auto number = HT_TRY(builder_.add_file(path.string()));
    numbers_.emplace(path, number);
    return number;
  }

  Result<void> use_file_range(const Storage::FileBacked& range, std::string_view name, Entry& entry) {
    const auto number = HT_TRY(number_of(range.path));
    const auto file_bytes = files_[number - 1]->source().size();
    if (!checked::range_fits(range.offset, range.bytes, file_bytes)) {
      return fail(Error(ErrorCode::truncated, "range_is_inside_the_file",
                        format_text("file has {} bytes but tensor '{}' needs {} bytes at byte {}", file_bytes,
                                    to_utf8(name), range.bytes, range.offset))
                      .at_path(range.path.native())
                      .at_tensor(name)
                      .at_offset(range.offset)
                      .with_hint("pass a range within the file"));
    }
    entry.file = number;
    entry.offset = range.offset;
    entry.bytes = range.bytes;
    return {};
  }

  const SaveOptions& options_;
  io::Port& port_;
  CatalogBuilder builder_{"tensors"};
  std::optional<Catalog> catalog_;  // the plan refers to it
  InMemory memory_;
  std::map<Path, std::uint32_t> numbers_;
  std::vector<std::unique_ptr<io::MappedFile>> files_;
};

}  // namespace

Result<TensorToSave> detail::to_save(std::string_view name, const DTypeInfo& dtype, layout::Extents extents,
                                     const Storage& storage, const Result<Bytes>& elements) {
  return without_bad_alloc([&]() -> Result<TensorToSave> {
    const Bytes bytes = HT_TRY(elements);
    TensorToSave saved{.name = std::string(name), .dtype = dtype.tag};
    saved.dims.assign(extents.begin(), extents.end());
    const auto* const file = std::get_if<Storage::FileBacked>(&storage.origin());
    const auto last_bits = HT_TRY(layout::count_elements(extents)) % 8 * dtype.bits % 8;
    if (last_bits != 0) {
      // The bits after the last element are zero in a file; in a view they belong to other elements.
      auto copy = HT_TRY(Storage::owned(bytes.size()));
      const MutableBytes into = HT_TRY(copy.writable_bytes());
      HT_TRY(guarded(bytes, [&] { std::ranges::copy(bytes, into.begin()); }));
      into.back() &= static_cast<std::byte>((1U << last_bits) - 1);
      saved.data = std::move(copy);
    } else if (file != nullptr && !bytes.empty()) {
      auto range = *file;
      range.offset += static_cast<std::uint64_t>(bytes.data() - storage.bytes().data());
      range.bytes = bytes.size();
      saved.data = HT_TRY(Storage::file_backed(std::make_shared<const Storage>(storage), bytes, range));
    } else {
      saved.data = HT_TRY(Storage::owned_read_only(std::make_shared<const Storage>(storage), bytes));
    }
    return saved;
  });
}

Result<ConversionReport> save(const Path& target, std::span<const TensorToSave> tensors,
                              const SaveOptions& options) {
  return HT_TRY(detail::save_with_plan(target, tensors, options)).report;
}

Result<detail::Saved> detail::save_with_plan(const Path& target, std::span<const TensorToSave> tensors,
                                             const SaveOptions& options) {
  return without_bad_alloc([&] { return SaveOperation(options).run(target, tensors); });
}

Result<ConversionPlan> plan_save(const std::filesystem::path& target, std::span<const TensorToSave> tensors,
                                 const SaveOptions& options) {
  return without_bad_alloc([&] { return SaveOperation(options).plan_for(target, tensors); });
}

Result<std::vector<Path>> check_save(const ConversionPlan& plan, const SaveOptions& options) {
  return check_target(plan, options.apply, {.dtypes = options.dtypes, .port = options.port});
}

Result<void> save_to_memory(std::span<const TensorToSave> tensors, const AllocateFile& allocate,
                            const SaveOptions& options) {
  return without_bad_alloc([&] { return SaveOperation(options).run(tensors, allocate); });
}

Result<TensorToSave> to_save(std::string_view name, const AnyTensor& tensor) {
  return without_bad_alloc([&]() -> Result<TensorToSave> {
    const Entry entry = tensor.entry();
    TensorToSave saved{.name = std::string(name), .dtype = entry.dtype, .encoding = entry.encoding};
    saved.dims.assign(tensor.dims().begin(), tensor.dims().end());
    const ElementType type = tensor.type();
    const auto elements = static_cast<std::uint64_t>(element_count(tensor.dims()).value_or(0));
    // The bits after the last element are zero in a file; in rows of a tensor they belong to other elements.
    const bool has_padding = type.is_dense() && elements % 8 * static_cast<std::uint64_t>(type.bits) % 8 != 0;
    // Only a whole splat stays a splat: rows of a splat may begin within its pattern.
    if (tensor.is_splat() && tensor.byte_size() == entry.bytes) {
      TensorToSave::Splat splat{.pattern = {}, .bytes = tensor.byte_size()};
      splat.pattern.pattern_bytes = static_cast<std::uint8_t>(entry.splat.size());
      std::ranges::copy(entry.splat, splat.pattern.pattern.begin());
      saved.data = splat;
      return saved;
    }
    if (tensor.is_plain() && !has_padding) {
      auto storage = tensor.storage();
      if (storage) {
        saved.data = *std::move(storage);
        return saved;
      }
      // A source that cannot be mapped is read.
      if (storage.error().code() != ErrorCode::unsupported_strategy) return fail(std::move(storage).error());
    }
    auto copy = HT_TRY(Storage::owned(tensor.byte_size()));
    HT_TRY(tensor.copy_to(HT_TRY(copy.writable_bytes())));
    saved.data = std::move(copy);
    return saved;
  });
}

}  // namespace ht::inline v1
