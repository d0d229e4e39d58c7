#include "model/read_catalog.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/format_text.hpp"
#include "io/file.hpp"

namespace ht::inline v1 {
namespace {

// Memory to read into. It is not cleared first, and a large one grows without a copy, as realloc moves pages.
class Buffer {
 public:
  [[nodiscard]] Bytes bytes() const noexcept { return {data_.get(), size_}; }

  /// Grows to `size` and returns the new part.
  MutableBytes extend_to(std::size_t size) {
    std::byte* const before = data_.release();
    auto* const larger = static_cast<std::byte*>(std::realloc(before, std::max<std::size_t>(size, 1)));
    data_.reset(larger != nullptr ? larger : before);
    if (larger == nullptr) throw std::bad_alloc();
    return MutableBytes(larger, size).subspan(std::exchange(size_, size));
  }

 private:
  struct Free {
    void operator()(std::byte* data) const noexcept { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

// The parts of a file read so far. A header is read and not mapped: a file that shrinks meanwhile is an error
// here, and would be a fatal signal there.
class FileReader {
 public:
  explicit FileReader(const io::Opened& file) : file_(file) {}

  // The catalog may keep the prefix, which does not grow once there is a catalog.
  [[nodiscard]] Seen seen() const noexcept { return {prefix_->bytes(), parts_, prefix_}; }

  Result<void> read(const Need& need) {
    const std::uint64_t end = need.offset + need.bytes;
    const std::uint64_t known = prefix_->bytes().size();
    if (need.offset <= known) return fill(known, prefix_->extend_to(static_cast<std::size_t>(end)));
    Buffer& buffer = buffers_.emplace_back();
    HT_TRY(fill(need.offset, buffer.extend_to(static_cast<std::size_t>(need.bytes))));
    parts_.push_back({need.offset, buffer.bytes()});
    return {};
  }

 private:
  // Fresh memory is mapped page by page on its first use, which takes longer than the read: large pages are
  // fewer. A system that refuses them reads into small ones.
  Result<void> fill(std::uint64_t offset, MutableBytes into) {
    if (into.size() >= min_large_bytes) {
      auto& port = io::file_of(file_).port();
      const auto page = static_cast<std::size_t>(port.page_bytes());
      void* begin = into.data();
      std::size_t bytes = into.size();
      if (std::align(page, page, begin, bytes) != nullptr) {
        static_cast<void>(
            port.advise({static_cast<std::byte*>(begin), bytes / page * page}, io::Advice::huge_pages));
      }
    }
    return file_.read(offset, into);
  }

  static constexpr std::size_t min_large_bytes = std::size_t{4} << 20;
  const io::Opened& file_;
  std::shared_ptr<Buffer> prefix_ = std::make_shared<Buffer>();
  std::vector<Buffer> buffers_;
  std::vector<SeenPart> parts_;
};

}  // namespace

Result<Catalog> read_catalog(const io::Opened& file, Parser parser, const ParseOptions& options) {
  constexpr std::uint64_t first_read = 4096;
  const std::uint64_t file_bytes = file.stat().bytes;
  FileReader reader(file);
  HT_TRY(reader.read({0, std::min(first_read, file_bytes)}));
  while (true) {
    auto parsed = HT_TRY(parser(reader.seen(), file_bytes, options));
    if (auto* catalog = std::get_if<Catalog>(&parsed)) return std::move(*catalog);
    const Need need = std::get<Need>(parsed);
    if (!checked::range_fits(need.offset, need.bytes, file_bytes) ||
        reader.seen().range(need.offset, need.bytes)) {
      return fail(ErrorCode::internal, "parser_asks_for_more_that_is_there",
                  format_text("parser requested {} bytes at byte {} of a file of {} bytes", need.bytes,
                              need.offset, file_bytes));
    }
    HT_TRY(reader.read(need));
  }
}

}  // namespace ht::inline v1
