#include "model/read_catalog.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/format_text.hpp"

namespace ht::inline v1 {
namespace {

// Bytes that are about to be read, so none is cleared first; and large ones grow without being copied, as
// realloc moves their pages.
class Buffer {
 public:
  [[nodiscard]] Bytes bytes() const noexcept { return {data_.get(), size_}; }

  /// Makes it longer and returns the new part.
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

// What was read of a file. Headers are read and not looked at through the mapping: a file that shrinks
// meanwhile is an error here and would be a fatal signal there.
class FileReader {
 public:
  explicit FileReader(const io::Opened& file) : file_(file) {}

  [[nodiscard]] Seen seen() const noexcept { return {prefix_.bytes(), parts_}; }

  Result<void> read(const Need& need) {
    const std::uint64_t end = need.offset + need.bytes;
    const std::uint64_t known = prefix_.bytes().size();
    if (need.offset <= known) return file_.read(known, prefix_.extend_to(static_cast<std::size_t>(end)));
    Buffer& buffer = buffers_.emplace_back();
    HT_TRY(file_.read(need.offset, buffer.extend_to(static_cast<std::size_t>(need.bytes))));
    parts_.push_back({need.offset, buffer.bytes()});
    return {};
  }

 private:
  const io::Opened& file_;
  Buffer prefix_;
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
