#include "io/strategy/mapped_file.hpp"

#include <algorithm>
#include <htensor/base/bytes.hpp>

#include "base/fault_registry.hpp"
#include "base/format_text.hpp"
#include "io/file_source.hpp"
#include "io/port/fault_handler.hpp"
#include "io/port/system_error.hpp"
#include "io/strategy/own_memory.hpp"

namespace ht::inline v1::io {

struct MappedFile::ReleasedFault {
  std::mutex mutex;
  std::optional<Error> first;
};

// A mapped part of the file, unmapped with its last owner.
struct MappedFile::Mapping final : fault::Backing {
  std::shared_ptr<const FileSource> file;
  MapOptions options;
  // The requested part; the region may begin earlier, at a page.
  std::uint64_t offset;
  Bytes bytes;
  Region region;
  std::optional<FaultHandler> handler;
  fault::Registration guarded;
  std::shared_ptr<ReleasedFault> released_fault;

  Mapping(std::shared_ptr<const FileSource> of_file, MapOptions map_options, std::uint64_t at)
      : file(std::move(of_file)), options(std::move(map_options)), offset(at) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  // A destructor cannot report a failure; MappedFile::release does.
  ~Mapping() override { static_cast<void>(unmap()); }

  [[nodiscard]] std::uint64_t region_offset() const { return offset - offset % file->port().page_bytes(); }

  // Maps the requested part, which is not empty.
  Result<void> map(std::uint64_t part_bytes) {
    const std::uint64_t lead = offset % file->port().page_bytes();
    // Larger than the address space, for example on a 32-bit system.
    const bool is_too_large = !checked::narrow<std::ptrdiff_t>(part_bytes);
    const auto mapped = is_too_large ? tl::unexpected(std::make_error_code(std::errc::not_enough_memory))
                        : options.is_private
                            ? file->port().map_private(file->handle(), region_offset(), part_bytes + lead)
                            : file->port().map(file->handle(), region_offset(), part_bytes + lead);
    if (!mapped) {
      const bool has_no_mappings = mapped.error() == std::errc::function_not_supported;
      return fail(system_error(has_no_mappings ? ErrorCode::unsupported_platform : ErrorCode::map_failed,
                               "file_can_be_mapped", "map", file->path(), mapped.error()));
    }
    region = *mapped;
    bytes = Bytes(region.data + lead, static_cast<std::size_t>(part_bytes));
    if (options.faults == FaultPolicy::off) return {};
    handler.emplace();
    const Bytes pages(region.data, static_cast<std::size_t>(region.bytes));
    // If this runs out of memory, the destructor unmaps the region.
    guarded = HT_TRY(fault::Registration::add(pages, *this, options.faults, options.is_private));
    return {};
  }

  IoResult<void> unmap() {
    if (region.bytes == 0) return {};
    keep_fault();
    IoResult<void> done;
    // Unregisters the range before it is unmapped. Otherwise, other code could map the same addresses, and
    // the library would handle the faults of that code.
    const bool is_unmapped = guarded.remove([&] {
      done = file->port().unmap(region);
      return done.has_value();
    });
    if (is_unmapped) region = {};
    return done;
  }

  // Copies the first fault to `released_fault`, so that `MappedFile::fault` can still report it after the
  // pages are unmapped.
  void keep_fault() {
    auto fault = without_bad_alloc([&]() -> Result<std::optional<Error>> { return guarded.first_fault(); });
    if (fault && !*fault) return;
    const std::lock_guard lock(released_fault->mutex);
    if (!released_fault->first) released_fault->first = fault ? **std::move(fault) : std::move(fault).error();
  }

  // Returns the pages of a mapped range: only whole pages inside it if `inward`, else all that it touches.
  [[nodiscard]] Region pages_of(const Range& range, bool inward) const {
    const std::uint64_t page = file->port().page_bytes();
    // Relative to the region, which begins at a page of the file.
    const std::uint64_t begin = range.offset - region_offset();
    const std::uint64_t end = begin + range.bytes;
    // The end of the region counts as the end of a page: no mapped bytes follow in that page.
    const auto up = [&](std::uint64_t at) { return std::min((at + page - 1) / page * page, region.bytes); };
    const auto down = [&](std::uint64_t at) { return at == region.bytes ? at : at / page * page; };
    const std::uint64_t first = inward ? up(begin) : begin / page * page;
    const std::uint64_t last = inward ? down(end) : up(end);
    if (range.bytes == 0 || first >= last) return {};
    return {region.data + first, last - first};
  }

  Error describe(std::uint64_t in_region) const override {
    const std::uint64_t at = region_offset() + in_region;
    const auto now = file->port().stat(file->handle());
    const bool is_shorter = now && now->bytes < file->stat().bytes && now->bytes <= at;
    auto error =
        is_shorter ? Error(ErrorCode::changed_underfoot, "mapped_pages_are_in_the_file",
                           format_text("file shrank from {} to {} bytes while in use; byte {} cannot be read",
                                       file->stat().bytes, now->bytes, at))
                         .with_hint("retry when no other program writes to the file")
                   : Error(ErrorCode::read_failed, "mapped_pages_can_be_read",
                           format_text("cannot read mapped byte {}", at))
                         .with_hint("check the disk or network, for instance in the system log (dmesg)");
    if (options.tensor_at) error = std::move(error).at_tensor(options.tensor_at(at));
    return std::move(error).at_path(file->path().native()).at_offset(at);
  }

  bool restore(std::uint64_t in_region) noexcept override {
    if (options.is_private) return false;
    const Region rest{region.data + in_region, region.bytes - in_region};
    return file->port().map_over(rest, file->handle(), region_offset() + in_region).has_value();
  }
};

MappedFile::MappedFile(std::shared_ptr<const Source> source, MapOptions options)
    : source_(std::move(source)),
      file_(std::dynamic_pointer_cast<const FileSource>(source_)),
      is_mappable_(file_ || source_->memory()),
      options_(std::move(options)),
      released_fault_(std::make_shared<ReleasedFault>()) {}

Result<void> MappedFile::check_range(std::uint64_t offset, std::uint64_t bytes) const {
  if (checked::range_fits(offset, bytes, source_->size())) return {};
  return fail(Error(ErrorCode::out_of_bounds, "mapped_range_is_in_the_file",
                    format_text("{} bytes at byte {} are outside the file of {} bytes", bytes, offset,
                                source_->size()))
                  .at_path(source_->path().native())
                  .at_offset(offset)
                  .with_hint("download the file again: its header describes more bytes"));
}

Strategy::MapDone MappedFile::view(const Range& range) const {
  return {
      {memory_.bytes.subspan(static_cast<std::size_t>(range.offset), static_cast<std::size_t>(range.bytes)),
       memory_.owner},
      true};
}

Result<Strategy::MapDone> MappedFile::map(std::uint64_t offset, std::uint64_t bytes) {
  HT_TRY(check_range(offset, bytes));
  // The mapping of the whole source does not change once made, so a view of it needs no lock.
  if (is_mapped()) return view({offset, bytes});
  return perform({offset, bytes}, mapped::Map{});
}

Result<Strategy::MapDone> MappedFile::map_private(std::uint64_t offset, std::uint64_t bytes) {
  return without_bad_alloc([&]() -> Result<Strategy::MapDone> {
    {
      const std::lock_guard lock(mutex_);
      if (!private_) {
        auto options = options_;
        options.is_private = true;
        private_ = std::make_unique<MappedFile>(source_, std::move(options));
      }
    }
    return private_->map(offset, bytes);
  });
}

Result<void> MappedFile::advise(std::uint64_t offset, std::uint64_t bytes, Strategy::Advice advice) {
  HT_TRY(check_range(offset, bytes));
  const bool drops = advice == Strategy::Advice::drop || advice == Strategy::Advice::evict;
  HT_TRY(perform({offset, bytes, advice},
                 drops ? mapped::Event(mapped::Drop{}) : mapped::Event(mapped::Advise{})));
  return {};
}

Result<Strategy::MapDone> MappedFile::perform(const Range& range, const mapped::Event& request) {
  return without_bad_alloc([&]() -> Result<Strategy::MapDone> {
    std::unique_lock lock(mutex_);
    mapped::Event event = request;
    for (;;) {
      auto [next, effect] = mapped::step(state_, event);
      state_ = std::move(next);
      if (std::holds_alternative<mapped::MapWhole>(effect)) {
        // Out of memory is an event too: the state must not stay `Mapping`.
        auto mapped = without_bad_alloc([&]() -> Result<mapped::Event> { return map_whole(); });
        event = mapped ? *std::move(mapped) : mapped::MapFailed{std::move(mapped).error()};
      } else if (std::holds_alternative<mapped::Repeat>(effect)) {
        event = request;
      } else if (std::holds_alternative<mapped::ReturnView>(effect)) {
        return view(range);
      } else if (std::holds_alternative<mapped::ReturnWindow>(effect)) {
        return map_window(range);
      } else if (auto* const refused = std::get_if<mapped::Refuse>(&effect)) {
        return fail(std::move(refused->error));
      } else {
        // Without the lock: other threads must get their views while pages are read from the disk.
        const auto mapping = mapping_;
        lock.unlock();
        if (std::holds_alternative<mapped::DropPages>(effect)) {
          HT_TRY(drop_pages(mapping.get(), range));
        } else if (std::holds_alternative<mapped::AdviseWindow>(effect)) {
          HT_TRY(advise_windows(range));
        } else if (mapping) {
          HT_TRY(advise_pages(*mapping, range));
        }
        return Strategy::MapDone{};
      }
    }
  });
}

mapped::Event MappedFile::map_whole() {
  // Private memory of a source that is not a file: each request gets a copy of its range instead of a window.
  if (options_.is_private && !file_) {
    is_windowed_.store(true, std::memory_order_release);
    return mapped::NoRoom{};
  }
  if (auto memory = source_->memory()) {
    if (memory->bytes.size() != source_->size()) {
      return mapped::MapFailed{Error(ErrorCode::size_mismatch, "memory_of_a_source_has_its_size",
                                     format_text("source has {} bytes but its memory has {}", source_->size(),
                                                 memory->bytes.size()))
                                   .at_path(source_->path().native())
                                   .with_hint("return all bytes from Source::memory, or nullopt")};
    }
    memory_ = *std::move(memory);
  } else if (!file_) {
    return mapped::MapFailed{Error(ErrorCode::unsupported_strategy, "source_can_be_mapped",
                                   "source cannot be mapped: its bytes are read on request")
                                 .at_path(source_->path().native())
                                 .with_hint("load the model with ht::load, or read tensors with copy_to")};
  } else {
    auto mapping = map_part({0, source_->size()});
    if (!mapping) {
      if (mapping.error().cause() != std::errc::not_enough_memory)
        return mapped::MapFailed{std::move(mapping).error()};
      is_windowed_.store(true, std::memory_order_release);
      return mapped::NoRoom{};
    }
    mapping_ = *std::move(mapping);
    memory_ = {mapping_->bytes, mapping_};
  }
  is_whole_.store(true, std::memory_order_release);
  return mapped::WholeMapped{};
}

// Only for files: memory is always mapped whole.
Result<std::shared_ptr<MappedFile::Mapping>> MappedFile::map_part(const Range& range) const {
  auto mapping = std::make_shared<Mapping>(file_, options_, range.offset);
  mapping->released_fault = released_fault_;
  if (range.bytes != 0) HT_TRY(mapping->map(range.bytes));
  return mapping;
}

// For private memory of a source that is not a file.
Result<Strategy::MapDone> MappedFile::copy_range(const Range& range) const {
  const auto memory = HT_TRY(OwnMemory::allocate(range.bytes, system_port()));
  HT_TRY(source_->read(range.offset, memory->bytes()));
  return Strategy::MapDone{{memory->bytes(), memory}, false};
}

Result<Strategy::MapDone> MappedFile::map_window(const Range& range) {
  if (!file_) return copy_range(range);
  const auto window = HT_TRY(map_part(range));
  std::erase_if(windows_, [](const auto& watched) { return watched.expired(); });
  windows_.push_back(window);
  return Strategy::MapDone{{window->bytes, window}, false};
}

// Only advice that fetches pages has an effect that outlasts a window. Windows are small because the address
// space has no room for large ones.
Result<void> MappedFile::advise_windows(const Range& range) const {
  constexpr std::uint64_t window_bytes = std::uint64_t{64} << 20;
  if (range.advice != Strategy::Advice::populate && range.advice != Strategy::Advice::will_need) return {};
  for (std::uint64_t done = 0; done < range.bytes; done += window_bytes) {
    const Range part{range.offset + done, std::min(window_bytes, range.bytes - done), range.advice};
    HT_TRY(advise_pages(*HT_TRY(map_part(part)), part));
  }
  return {};
}

Result<void> MappedFile::advise_pages(const Mapping& mapping, const Range& range) const {
  // Do not drop a page that another range shares.
  const Region region = mapping.pages_of(range, range.advice == Strategy::Advice::drop);
  if (region.bytes == 0) return {};
  if (range.advice == Strategy::Advice::populate) {
    const Bytes pages(region.data, static_cast<std::size_t>(region.bytes));
    // Runs under `guarded` even if no page is touched: `guarded` first restores pages that an earlier fault
    // replaced with zeros. Without that, the system would count the pages of zeros as populated.
    return guarded(pages, [&]() -> Result<void> {
      if (file_->port().advise(region, range.advice)) return {};
      // An older kernel does not know the advice, or a page cannot be read. Touching or reading also fetches
      // pages.
      if (options_.faults == FaultPolicy::off) return read_through(range);
      fault::touch(pages);
      return {};
    });
  }
  const auto done = file_->port().advise(region, range.advice);
  if (done) return {};
  return fail(system_error(ErrorCode::unsupported_strategy, "memory_advice_is_accepted",
                           "apply memory advice", file_->path(), done.error())
                  .at_offset(range.offset));
}

Result<void> MappedFile::drop_pages(const Mapping* mapping, const Range& range) const {
  // The page cache keeps mapped pages, so the pages of this mapping are dropped first.
  if (mapping != nullptr) HT_TRY(advise_pages(*mapping, {range.offset, range.bytes, Strategy::Advice::drop}));
  if (range.advice != Strategy::Advice::evict || !file_) return {};
  const auto done = file_->port().drop_cached(file_->handle(), range.offset, range.bytes);
  if (done) return {};
  return fail(system_error(ErrorCode::unsupported_strategy, "page_cache_can_be_evicted",
                           "evict from the page cache", file_->path(), done.error()));
}

Result<bool> MappedFile::release(Memory& memory) {
  const std::lock_guard lock(mutex_);
  for (const auto& watched : windows_) {
    const auto window = watched.lock();
    if (!window || window.get() != memory.owner.get()) continue;
    memory.owner.reset();
    std::optional<Error> refusal;
    if (window.use_count() > 1) {
      refusal = Error(ErrorCode::in_use, "mapping_is_not_in_use",
                      format_text("mapping is still in use: {} references", window.use_count() - 1))
                    .at_path(file_->path().native())
                    .with_hint("release all tensors of this file first");
    } else if (const auto done = window->unmap(); !done) {
      refusal = system_error(ErrorCode::unmap_failed, "mapping_can_be_unmapped", "unmap", file_->path(),
                             done.error());
    }
    if (refusal) {
      memory.owner = window;
      return fail(*std::move(refusal));
    }
    memory = {};
    return true;
  }
  return false;
}

Result<void> MappedFile::read(std::uint64_t offset, MutableBytes into) const {
  auto done = source_->read(offset, into);
  if (done || !file_) return done;
  const std::uint64_t at = done.error().offset().value_or(offset);
  // If the file changed, for example shrank, that error is reported instead.
  if (auto unchanged = file_->check_unchanged(); !unchanged) done = std::move(unchanged);
  auto error = std::move(done).error().at_offset(at);
  return fail(options_.tensor_at ? std::move(error).at_tensor(options_.tensor_at(at)) : std::move(error));
}

// Reads a range with system calls and discards the bytes.
Result<void> MappedFile::read_through(const Range& range) const {
  constexpr std::uint64_t piece_bytes = std::uint64_t{1} << 20;
  std::vector<std::byte> buffer;
  for (std::uint64_t done = 0; done < range.bytes; done += piece_bytes) {
    buffer.resize(static_cast<std::size_t>(std::min(piece_bytes, range.bytes - done)));
    HT_TRY(read(range.offset + done, buffer));
  }
  return {};
}

std::optional<Error> MappedFile::fault() const {
  const std::lock_guard lock(mutex_);
  if (private_) {
    if (auto error = private_->fault()) return error;
  }
  if (mapping_) return mapping_->guarded.first_fault();
  for (const auto& watched : windows_) {
    const auto window = watched.lock();
    if (auto error = window ? window->guarded.first_fault() : std::nullopt) return error;
  }
  const std::lock_guard released_lock(released_fault_->mutex);
  return released_fault_->first;
}

Result<void> MappedFile::visit(std::uint64_t offset, std::uint64_t bytes,
                               const std::function<Result<void>(Bytes)>& body) {
  HT_TRY(check_range(offset, bytes));
  if (must_read()) {
    return without_bad_alloc([&]() -> Result<void> {
      std::vector<std::byte> copy(static_cast<std::size_t>(bytes));
      HT_TRY(read(offset, copy));
      return body(copy);
    });
  }
  auto done = HT_TRY(map(offset, bytes));
  const Bytes mapped_bytes = done.memory.bytes;
  auto visited = guarded(mapped_bytes, [&] { return body(mapped_bytes); });
  if (done.has_other_owner) return visited;
  if (auto released = release(done.memory); !released && visited) return fail(std::move(released).error());
  return visited;
}

}  // namespace ht::inline v1::io
