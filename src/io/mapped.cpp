#include "io/mapped.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/fault_registry.hpp"
#include "base/format_text.hpp"
#include "io/fault_handler.hpp"
#include "io/system_error.hpp"

namespace ht::inline v1::io {

struct Mapped::Mapping final : fault::Source {
  std::shared_ptr<const FileSource> file;
  Region region;
  // The requested part; the region may begin earlier, at a page.
  std::uint64_t offset = 0;
  Bytes bytes;
  MapOptions options;
  std::optional<FaultHandler> handler;
  fault::Range guarded;

  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  // A destructor cannot report a failure; Mapped::unmap does.
  ~Mapping() override { static_cast<void>(unmap()); }

  [[nodiscard]] std::uint64_t region_offset() const { return offset - offset % file->port().page_bytes(); }

  // Of the range that was asked for, which is not empty.
  Result<void> map(std::uint64_t range_bytes) {
    const std::uint64_t lead = offset % file->port().page_bytes();
    const auto mapped = file->port().map(file->handle(), region_offset(), range_bytes + lead);
    if (!mapped) {
      const bool never = mapped.error() == std::errc::function_not_supported;
      return fail(system_error(never ? ErrorCode::unsupported_platform : ErrorCode::map_failed,
                               "file_can_be_mapped", "map", file->path(), mapped.error()));
    }
    region = *mapped;
    bytes = Bytes(region.data + lead, static_cast<std::size_t>(range_bytes));
    if (options.faults == FaultPolicy::off) return {};
    handler.emplace();
    const Bytes pages(region.data, static_cast<std::size_t>(region.bytes));
    // Without memory for it the mapping goes with this object.
    guarded = HT_TRY(fault::Range::add(pages, *this, options.faults));
    return {};
  }

  IoResult<void> unmap() {
    if (region.bytes == 0) return {};
    IoResult<void> done;
    // Not registered when its pages are free for others, whose faults are none of ours.
    const bool is_unmapped = guarded.remove([&] {
      done = file->port().unmap(region);
      return done.has_value();
    });
    if (!is_unmapped) return done;
    region = {};
    bytes = {};
    return done;
  }

  Error describe(std::uint64_t in_region) const override {
    const std::uint64_t at = region_offset() + in_region;
    const auto now = file->port().stat(file->handle());
    const bool is_shorter = now && now->bytes < file->stat().bytes && now->bytes <= at;
    auto error =
        is_shorter ? Error(ErrorCode::changed_underfoot, "mapped_pages_are_still_there",
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
    const Region rest{region.data + in_region, region.bytes - in_region};
    return file->port().map_over(rest, file->handle(), region_offset() + in_region).has_value();
  }
};

Result<Mapped> Mapped::map(std::shared_ptr<const FileSource> file, std::uint64_t offset, std::uint64_t bytes,
                           MapOptions options) {
  return without_bad_alloc([&]() -> Result<Mapped> {
    // More than the address space has, as on a system of 32 bits.
    if (checked::range_fits(offset, bytes, file->size()) && !checked::narrow<std::ptrdiff_t>(bytes)) {
      return fail(system_error(ErrorCode::map_failed, "file_can_be_mapped", "map", file->path(),
                               std::make_error_code(std::errc::not_enough_memory)));
    }
    if (!checked::range_fits(offset, bytes, file->size())) {
      return fail(Error(ErrorCode::out_of_bounds, "mapped_range_is_in_the_file",
                        format_text("{} bytes at byte {} are outside the file of {} bytes", bytes, offset,
                                    file->size()))
                      .at_path(file->path().native())
                      .at_offset(offset));
    }
    auto mapping = std::make_shared<Mapping>();
    mapping->file = std::move(file);
    mapping->offset = offset;
    mapping->options = std::move(options);
    if (bytes != 0) HT_TRY(mapping->map(bytes));
    return Mapped(std::move(mapping));
  });
}

Mapped::Mapped(std::shared_ptr<Mapping> mapping) noexcept : mapping_(std::move(mapping)) {}

Bytes Mapped::bytes() const noexcept { return mapping_->bytes; }
Memory Mapped::memory() const noexcept { return {mapping_->bytes, mapping_}; }

std::optional<Error> Mapped::fault() const { return mapping_->guarded.first_fault(); }

std::optional<Mapped> Mapped::find(const Watch& watch, const Memory& memory) {
  auto mapping = watch.lock();
  if (!mapping || mapping.get() != memory.owner.get()) return std::nullopt;
  return Mapped(std::move(mapping));
}
std::optional<Mapped> Mapped::find(const Watch& watch) {
  auto mapping = watch.lock();
  if (!mapping) return std::nullopt;
  return Mapped(std::move(mapping));
}

Result<Bytes> Mapped::range(std::uint64_t file_offset, std::uint64_t bytes) const {
  const auto inside = checked::subtract(file_offset, mapping_->offset);
  const auto found = inside ? part(mapping_->bytes, *inside, bytes) : std::nullopt;
  if (!found) {
    return fail(Error(ErrorCode::out_of_bounds, "range_is_mapped",
                      format_text("{} bytes at byte {} are outside the mapping of {} bytes at byte {}", bytes,
                                  file_offset, mapping_->bytes.size(), mapping_->offset))
                    .at_path(mapping_->file->path().native())
                    .at_offset(file_offset));
  }
  return *found;
}

Result<void> Mapped::read(const FileSource& file, std::uint64_t offset, MutableBytes into,
                          const MapOptions& options) {
  auto done = file.read(offset, into);
  if (done) return {};
  const std::uint64_t at = done.error().offset().value_or(offset);
  // A file that shrank has changed, which is the better answer.
  if (auto unchanged = file.check_unchanged(); !unchanged) done = std::move(unchanged);
  auto error = std::move(done).error().at_offset(at);
  return fail(options.tensor_at ? std::move(error).at_tensor(options.tensor_at(at)) : std::move(error));
}

Result<Region> Mapped::pages_of(std::uint64_t offset, std::uint64_t bytes, bool inward) const {
  const Bytes part = HT_TRY(range(offset, bytes));
  const std::uint64_t page = mapping_->file->port().page_bytes();
  // From the first page of the region on, which is where a page of the file begins.
  const auto begin = static_cast<std::uint64_t>(part.data() - mapping_->region.data);
  const std::uint64_t end = begin + part.size();
  // The last page is whole where nothing of the file follows in it.
  const std::uint64_t region_end = mapping_->region.bytes;
  const auto up = [&](std::uint64_t at) { return std::min((at + page - 1) / page * page, region_end); };
  const auto down = [&](std::uint64_t at) { return at == region_end ? at : at / page * page; };
  const std::uint64_t first = inward ? up(begin) : begin / page * page;
  const std::uint64_t last = inward ? down(end) : up(end);
  if (bytes == 0 || first >= last) return Region{};
  return Region{mapping_->region.data + first, last - first};
}

Result<void> Mapped::read_through(std::uint64_t offset, std::uint64_t bytes) const {
  constexpr std::uint64_t piece_bytes = std::uint64_t{1} << 20;
  std::vector<std::byte> buffer;
  for (std::uint64_t done = 0; done < bytes; done += piece_bytes) {
    buffer.resize(static_cast<std::size_t>(std::min(piece_bytes, bytes - done)));
    HT_TRY(read(*mapping_->file, offset + done, buffer, mapping_->options));
  }
  return {};
}

Result<void> Mapped::advise(std::uint64_t offset, std::uint64_t bytes, Advice advice) const {
  // Dropping a page that a neighbour is on would cost the neighbour.
  const auto region = HT_TRY(pages_of(offset, bytes, advice == Advice::drop));
  if (region.bytes == 0) return {};
  if (advice == Advice::populate) {
    const Bytes pages(region.data, static_cast<std::size_t>(region.bytes));
    // Guarded also where nothing is touched: a section replaces zeros that an earlier fault has left, which
    // the system would take for fetched pages.
    return guarded(pages, [&]() -> Result<void> {
      if (mapping_->file->port().advise(region, advice)) return {};
      // An older system does not know the advice, or a page cannot be read. Reading fetches pages, too.
      if (mapping_->options.faults == FaultPolicy::off) return read_through(offset, bytes);
      fault::touch(pages);
      return {};
    });
  }
  const auto done = mapping_->file->port().advise(region, advice);
  if (done) return {};
  return fail(system_error(ErrorCode::unsupported_strategy, "system_takes_the_advice", "apply memory advice",
                           mapping_->file->path(), done.error())
                  .at_offset(offset));
}

Result<void> Mapped::unmap() {
  if (mapping_.use_count() > 1) {
    return fail(Error(ErrorCode::in_use, "nobody_holds_the_mapping",
                      format_text("mapping is still in use: {} references", mapping_.use_count() - 1))
                    .at_path(mapping_->file->path().native())
                    .with_hint("release all tensors of this file first"));
  }
  const auto done = mapping_->unmap();
  if (!done) {
    return fail(system_error(ErrorCode::unmap_failed, "mapping_can_be_given_back", "unmap",
                             mapping_->file->path(), done.error()));
  }
  return {};
}

}  // namespace ht::inline v1::io
