#include "io/mapped_file.hpp"

#include <algorithm>
#include <htensor/base/checked.hpp>
#include <htensor/base/fault.hpp>

#include "base/format_text.hpp"
#include "io/system_error.hpp"

namespace ht::inline v1::io {

MappedFile::MappedFile(std::shared_ptr<const Source> source, MapOptions options)
    : source_(std::move(source)),
      local_(std::dynamic_pointer_cast<const FileSource>(source_)),
      is_mappable_(local_ || source_->memory()),
      options_(std::move(options)) {}

Result<void> MappedFile::check_range(std::uint64_t offset, std::uint64_t bytes) const {
  if (checked::range_fits(offset, bytes, source_->size())) return {};
  return fail(Error(ErrorCode::out_of_bounds, "mapped_range_is_in_the_file",
                    format_text("{} bytes at byte {} are outside the file of {} bytes", bytes, offset,
                                source_->size()))
                  .at_path(source_->path().native())
                  .at_offset(offset));
}

MapDone MappedFile::view(const Range& range) const {
  return {
      {memory_.bytes.subspan(static_cast<std::size_t>(range.offset), static_cast<std::size_t>(range.bytes)),
       memory_.owner},
      true};
}

Result<MapDone> MappedFile::map(std::uint64_t offset, std::uint64_t bytes) {
  HT_TRY(check_range(offset, bytes));
  // The whole mapping does not change any more, so a view of it needs no lock.
  if (is_mapped()) return view({offset, bytes});
  return perform({offset, bytes}, mapped::Map{});
}

Result<void> MappedFile::advise(std::uint64_t offset, std::uint64_t bytes, Advice advice) {
  HT_TRY(check_range(offset, bytes));
  const bool drops = advice == Advice::drop || advice == Advice::evict;
  HT_TRY(perform({offset, bytes, advice},
                 drops ? mapped::Event(mapped::Drop{}) : mapped::Event(mapped::Advise{})));
  return {};
}

Result<MapDone> MappedFile::perform(const Range& range, const mapped::Event& request) {
  return without_bad_alloc([&]() -> Result<MapDone> {
    std::unique_lock lock(mutex_);
    mapped::Event event = request;
    for (;;) {
      auto [next, effect] = mapped::step(state_, event);
      state_ = std::move(next);
      if (std::holds_alternative<mapped::MapWhole>(effect)) {
        // Also without memory: the state must not stay `Mapping`.
        auto mapped = without_bad_alloc([&]() -> Result<mapped::Event> { return map_whole(); });
        event = mapped ? *std::move(mapped) : mapped::MapFailed{std::move(mapped).error()};
      } else if (std::holds_alternative<mapped::Repeat>(effect)) {
        event = request;
      } else if (std::holds_alternative<mapped::GiveView>(effect)) {
        return view(range);
      } else if (std::holds_alternative<mapped::GiveWindow>(effect)) {
        return give_window(range);
      } else if (auto* const refused = std::get_if<mapped::Refuse>(&effect)) {
        return fail(std::move(refused->error));
      } else {
        // Without the lock, which would keep other threads from their views while pages come from the disk.
        const auto mapping = mapping_;
        lock.unlock();
        if (std::holds_alternative<mapped::DropPages>(effect)) {
          HT_TRY(drop_pages(mapping, range));
        } else if (std::holds_alternative<mapped::AdviseWindow>(effect)) {
          HT_TRY(advise_windows(range));
        } else if (mapping) {
          HT_TRY(mapping->advise(range.offset, range.bytes, range.advice));
        }
        return MapDone{};
      }
    }
  });
}

mapped::Event MappedFile::map_whole() {
  if (auto memory = source_->memory()) {
    if (memory->bytes.size() != source_->size()) {
      return mapped::MapFailed{Error(ErrorCode::size_mismatch, "memory_of_a_source_has_its_size",
                                     format_text("source has {} bytes but its memory has {}", source_->size(),
                                                 memory->bytes.size()))
                                   .at_path(source_->path().native())
                                   .with_hint("return all bytes from Source::memory, or nullopt")};
    }
    memory_ = *std::move(memory);
  } else if (!local_) {
    return mapped::MapFailed{Error(ErrorCode::unsupported_strategy, "source_can_be_mapped",
                                   "source cannot be mapped: its bytes are read on request")
                                 .at_path(source_->path().native())
                                 .with_hint("load the model with ht::load, or read tensors with copy_to")};
  } else {
    auto mapping = Mapped::map(local_, 0, source_->size(), options_);
    if (!mapping) {
      if (mapping.error().cause() != std::errc::not_enough_memory)
        return mapped::MapFailed{std::move(mapping).error()};
      is_windowed_.store(true, std::memory_order_release);
      return mapped::NoRoom{};
    }
    memory_ = mapping->memory();
    mapping_ = *std::move(mapping);
  }
  is_whole_.store(true, std::memory_order_release);
  return mapped::WholeMapped{};
}

// Only files have windows: memory is always mapped whole.
Result<Mapped> MappedFile::map_window(const Range& range) const {
  return Mapped::map(local_, range.offset, range.bytes, options_);
}

// Only fetching has an effect that outlasts a window. Small windows, as there is no room for large ones.
Result<void> MappedFile::advise_windows(const Range& range) const {
  constexpr std::uint64_t window_bytes = std::uint64_t{64} << 20;
  if (range.advice != Advice::populate && range.advice != Advice::will_need) return {};
  for (std::uint64_t done = 0; done < range.bytes; done += window_bytes) {
    const Range part{range.offset + done, std::min(window_bytes, range.bytes - done), range.advice};
    HT_TRY(HT_TRY(map_window(part)).advise(part.offset, part.bytes, part.advice));
  }
  return {};
}

Result<MapDone> MappedFile::give_window(const Range& range) {
  const auto window = HT_TRY(map_window(range));
  std::erase_if(windows_, [](const Mapped::Watch& watch) { return watch.expired(); });
  windows_.push_back(window.watch());
  return MapDone{window.memory(), false};
}

Result<void> MappedFile::drop_pages(const std::optional<Mapped>& mapping, const Range& range) const {
  // The page cache keeps pages that are mapped, so they leave this process first.
  if (mapping) HT_TRY(mapping->advise(range.offset, range.bytes, Advice::drop));
  if (range.advice != Advice::evict || !local_) return {};
  const auto done = local_->port().forget(local_->handle(), range.offset, range.bytes);
  if (done) return {};
  return fail(system_error(ErrorCode::unsupported_strategy, "page_cache_can_be_emptied",
                           "evict from the page cache", local_->path(), done.error()));
}

Result<bool> MappedFile::release(Memory& memory) {
  const std::lock_guard lock(mutex_);
  for (const auto& watch : windows_) {
    auto window = Mapped::find(watch, memory);
    if (!window) continue;
    memory.owner.reset();
    if (auto unmapped = window->unmap(); !unmapped) {
      memory.owner = window->memory().owner;
      return fail(std::move(unmapped).error());
    }
    memory = {};
    return true;
  }
  return false;
}

Result<void> MappedFile::read(std::uint64_t offset, MutableBytes into) const {
  return local_ ? Mapped::read(*local_, offset, into, options_) : source_->read(offset, into);
}

std::optional<Error> MappedFile::fault() const {
  const std::lock_guard lock(mutex_);
  if (mapping_) return mapping_->fault();
  for (const auto& watch : windows_) {
    const auto window = Mapped::find(watch);
    if (auto error = window ? window->fault() : std::nullopt) return error;
  }
  return std::nullopt;
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
  if (done.is_whole) return visited;
  if (auto released = release(done.memory); !released && visited) return fail(std::move(released).error());
  return visited;
}

}  // namespace ht::inline v1::io
