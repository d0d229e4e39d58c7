#include <htensor/io/mapped.hpp>

#include <algorithm>
#include <htensor/base/fault.hpp>
#include <optional>
#include <utility>

#include "base/format_text.hpp"
#include "io/fault_handler.hpp"
#include "io/file.hpp"
#include "io/system_error.hpp"

namespace ht::inline v1::io {

struct Mapped::Mapping final : fault::Source {
  std::unique_ptr<File> file;
  Region region;
  // What was asked for; the region may begin earlier, at a page.
  std::uint64_t offset = 0;
  Bytes bytes;
  std::size_t unmapped_bytes = 0;  // what there was before it was given back
  MapOptions options;
  std::optional<FaultHandler> handler;
  fault::Range guarded;

  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() override { static_cast<void>(unmap()); }  // who wants to hear of a failure calls Mapped::unmap

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
    auto is_guarded = guard();
    // Unguarded it is not to stand, and is given back as far as that can be done.
    if (!is_guarded) static_cast<void>(unmap());
    return is_guarded;
  }

  Result<void> guard() {
    if (!options.guard) return {};
    if (!handler) handler.emplace();
    guarded = HT_TRY(fault::Range::add({region.data, static_cast<std::size_t>(region.bytes)}, *this));
    return {};
  }

  IoResult<void> unmap() {
    if (region.bytes == 0) return {};
    // Before its pages are free for others, whose faults are none of ours.
    guarded = {};
    auto done = file->port().unmap(region);
    if (!done) {
      // It still stands. Without memory for this it does so unguarded, as it is about to go.
      static_cast<void>(guard());
      return done;
    }
    region = {};
    unmapped_bytes = bytes.size();
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

Opened::Opened(std::unique_ptr<File> file) noexcept : file_(std::move(file)) {}
Opened::Opened(Opened&&) noexcept = default;
Opened& Opened::operator=(Opened&&) noexcept = default;
Opened::~Opened() = default;

Result<Opened> Opened::open(const std::filesystem::path& path, Port& port) {
  return without_bad_alloc(
      [&]() -> Result<Opened> { return Opened(HT_TRY(File::open_regular(path, port))); });
}

const File& file_of(const Opened& opened) noexcept { return *opened.file_; }

const FileStat& Opened::stat() const noexcept { return file_->stat(); }
const std::filesystem::path& Opened::path() const noexcept { return file_->path(); }
namespace {

Error given_up() {
  return Error(ErrorCode::bad_state, "opened_is_not_given_up", "file was already mapped or moved from")
      .with_hint("open the file again");
}

}  // namespace

Result<void> Opened::read(std::uint64_t offset, MutableBytes into) const {
  if (!file_) return fail(given_up());
  return file_->read(offset, into);
}

Result<Mapped> Opened::map(MapOptions options) && {
  if (!file_) return fail(given_up());
  const auto bytes = file_->stat().bytes;
  return std::move(*this).map(0, bytes, std::move(options));
}

Result<Mapped> Opened::map(std::uint64_t offset, std::uint64_t bytes, MapOptions options) && {
  if (!file_) return fail(given_up());
  return without_bad_alloc([&]() -> Result<Mapped> {
    // Whatever happens, this state is over: the file is closed or belongs to the mapping.
    auto mapping = std::make_shared<Mapped::Mapping>();
    mapping->file = std::move(file_);
    mapping->offset = offset;
    mapping->options = std::move(options);
    const File& file = *mapping->file;
    if (!checked::range_fits(offset, bytes, file.stat().bytes) || !checked::narrow<std::ptrdiff_t>(bytes)) {
      return fail(Error(ErrorCode::out_of_bounds, "mapped_range_is_in_the_file",
                        format_text("{} bytes at byte {} are outside the file of {} bytes", bytes, offset,
                                    file.stat().bytes))
                      .at_path(file.path().native())
                      .at_offset(offset));
    }
    if (bytes == 0) return Mapped(std::move(mapping));

    HT_TRY(mapping->map(bytes));
    return Mapped(std::move(mapping));
  });
}

Mapped::Mapped(std::shared_ptr<Mapping> mapping) noexcept : mapping_(std::move(mapping)) {}

const std::filesystem::path& Mapped::path() const noexcept { return mapping_->file->path(); }
const FileStat& Mapped::stat() const noexcept { return mapping_->file->stat(); }
std::uint64_t Mapped::offset() const noexcept { return mapping_->offset; }
Bytes Mapped::bytes() const noexcept { return mapping_->bytes; }
std::shared_ptr<const void> Mapped::owner() const noexcept { return mapping_; }

bool Mapped::is_guarded() const noexcept { return mapping_->options.guard; }

Result<Bytes> Mapped::range(std::uint64_t file_offset, std::uint64_t bytes) const {
  const auto inside = checked::subtract(file_offset, mapping_->offset);
  const auto found = inside ? part(mapping_->bytes, *inside, bytes) : std::nullopt;
  if (!found) {
    return fail(Error(ErrorCode::out_of_bounds, "range_is_mapped",
                      format_text("{} bytes at byte {} are outside the mapping of {} bytes at byte {}", bytes,
                                  file_offset, mapping_->bytes.size(), mapping_->offset))
                    .at_path(path().native())
                    .at_offset(file_offset));
  }
  return *found;
}

Result<void> Mapped::check_unchanged() const { return mapping_->file->check_unchanged(); }

namespace {

// Dropping a page that a neighbour is on would cost the neighbour.
constexpr bool rounds_inward(Advice advice) { return advice == Advice::drop || advice == Advice::cold; }

}  // namespace

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

Result<void> Mapped::advise(std::uint64_t offset, std::uint64_t bytes, Advice advice) const {
  const auto region = HT_TRY(pages_of(offset, bytes, rounds_inward(advice)));
  if (region.bytes == 0) return {};
  if (advice == Advice::populate) {
    const Bytes pages(region.data, static_cast<std::size_t>(region.bytes));
    // Under the guard also where nothing is touched: it puts the file's own pages in place of the zeros that
    // an earlier fault has left, which the system would take for fetched.
    return guarded(pages, [&] {
      // An older system does not know it, or a page cannot be read: touching the pages tells, and fetches
      // them.
      if (!mapping_->file->port().advise(region, advice)) fault::touch(pages);
    });
  }
  const auto done = mapping_->file->port().advise(region, advice);
  if (done) return {};
  return fail(system_error(ErrorCode::unsupported_strategy, "system_takes_the_advice", "apply memory advice",
                           path(), done.error())
                  .at_offset(offset));
}

Result<void> Mapped::lock(std::uint64_t offset, std::uint64_t bytes) const {
  const auto region = HT_TRY(pages_of(offset, bytes, false));
  if (region.bytes == 0) return {};
  const auto done = mapping_->file->port().lock(region);
  if (done) return {};
  return fail(Error(ErrorCode::out_of_memory, "pages_can_be_locked",
                    format_text("cannot lock {} bytes in memory", region.bytes))
                  .at_path(path().native())
                  .at_offset(offset)
                  .because(done.error())
                  .with_hint("raise the limit on locked memory (`ulimit -l`), or lock less"));
}

Result<std::optional<std::uint64_t>> Mapped::cached(std::uint64_t offset, std::uint64_t bytes) const {
  HT_TRY(range(offset, bytes));
  const File& file = *mapping_->file;
  const auto found = file.port().cached(file.handle(), offset, bytes);
  if (found) return *found;
  if (found.error() == std::errc::operation_not_permitted) return std::nullopt;
  return fail(system_error(ErrorCode::unsupported_strategy, "page_cache_can_be_asked", "query the page cache",
                           path(), found.error()));
}

Result<void> Mapped::forget(std::uint64_t offset, std::uint64_t bytes) const {
  // The page cache keeps what is mapped somewhere, so it goes from here first.
  HT_TRY(advise(offset, bytes, Advice::drop));
  const File& file = *mapping_->file;
  const auto done = file.port().forget(file.handle(), offset, bytes);
  if (done) return {};
  return fail(system_error(ErrorCode::unsupported_strategy, "page_cache_can_be_emptied",
                           "evict from the page cache", path(), done.error()));
}

Result<void> Mapped::map_again() {
  if (mapping_->unmapped_bytes == 0) return {};
  HT_TRY(mapping_->file->check_unchanged());
  HT_TRY(mapping_->map(mapping_->unmapped_bytes));
  mapping_->unmapped_bytes = 0;
  return {};
}

const File& file_of(const Mapped& mapped) noexcept { return *mapped.mapping_->file; }

Result<void> Mapped::unmap() {
  if (mapping_.use_count() > 1) {
    return fail(Error(ErrorCode::in_use, "nobody_holds_the_mapping",
                      format_text("mapping is still in use: {} references", mapping_.use_count() - 1))
                    .at_path(path().native())
                    .with_hint("release all tensors of this file first"));
  }
  const auto done = mapping_->unmap();
  if (!done) {
    return fail(
        system_error(ErrorCode::unmap_failed, "mapping_can_be_given_back", "unmap", path(), done.error()));
  }
  return {};
}

}  // namespace ht::inline v1::io
