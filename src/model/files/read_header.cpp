#include "model/files/read_header.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/format_text.hpp"
#include "base/memory_hints.hpp"
#include "io/file_source.hpp"

namespace ht::inline v1 {
namespace {

// Uninitialized memory for a header. Page faults on new memory take longer than the read, so the memory uses
// huge pages, which cause fewer faults.
class Buffer {
 public:
  explicit Buffer(io::Port& port) : port_(&port) {}

  [[nodiscard]] Bytes bytes() const noexcept { return {data_.get(), size_}; }

  /// Grows to `size` and returns the new part.
  MutableBytes extend_to(std::size_t size) {
    if (size > capacity_) reallocate(size);
    return MutableBytes(data_.get(), size).subspan(std::exchange(size_, size));
  }

 private:
  struct Free {
    void operator()(std::byte* data) const noexcept { std::free(data); }
  };
  using Memory = std::unique_ptr<std::byte, Free>;

  void reallocate(std::size_t size) {
    const bool is_large = size >= min_large_bytes;
    const std::size_t capacity = is_large ? (size + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes
                                          : std::max<std::size_t>(size, 1);
    Memory larger(static_cast<std::byte*>(is_large ? std::aligned_alloc(huge_page_bytes, capacity)
                                                   : std::malloc(capacity)));
    if (!larger) throw std::bad_alloc();
    // If the system refuses huge pages, the memory has small pages.
    if (is_large)
      static_cast<void>(port_->advise({larger.get(), capacity}, io::Strategy::Advice::huge_pages));
    std::copy_n(data_.get(), size_, larger.get());
    data_ = std::move(larger);
    capacity_ = capacity;
  }

  static constexpr std::size_t min_large_bytes = std::size_t{1} << 20;
  io::Port* port_;
  Memory data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

// The parts of a file read so far. Headers are read, not mapped: a file that shrinks meanwhile causes an
// error instead of a fatal signal.
class FileReader {
 public:
  explicit FileReader(const io::Source& file) : file_(file), port_(port_of(file)) {}

  // The catalog may keep the prefix, which does not grow once the catalog exists.
  [[nodiscard]] FileParts parts() const noexcept { return {prefix_->bytes(), parts_, prefix_}; }

  Result<void> read(const Need& need) {
    const std::uint64_t end = need.offset + need.bytes;
    const std::uint64_t known = prefix_->bytes().size();
    if (need.offset <= known) return file_.read(known, prefix_->extend_to(static_cast<std::size_t>(end)));
    Buffer& buffer = buffers_.emplace_back(port_);
    HT_TRY(file_.read(need.offset, buffer.extend_to(static_cast<std::size_t>(need.bytes))));
    parts_.push_back({need.offset, buffer.bytes()});
    return {};
  }

 private:
  static io::Port& port_of(const io::Source& source) {
    const auto* const local = dynamic_cast<const io::FileSource*>(&source);
    return local != nullptr ? local->port() : io::system_port();
  }

  const io::Source& file_;
  io::Port& port_;
  std::shared_ptr<Buffer> prefix_ = std::make_shared<Buffer>(port_);
  std::vector<Buffer> buffers_;
  std::vector<FileParts::Part> parts_;
};

}  // namespace

Result<FileHeader> read_header(const io::Source& file, Parser parser, const ParseOptions& options) {
  constexpr std::uint64_t first_read = 4096;
  const std::uint64_t file_bytes = file.size();
  FileReader reader(file);
  HT_TRY(reader.read({0, std::min(first_read, file_bytes)}));
  while (true) {
    auto parsed = HT_TRY(parser(reader.parts(), file_bytes, options));
    if (auto* catalog = std::get_if<Catalog>(&parsed))
      return FileHeader{std::move(*catalog), reader.parts().prefix(), reader.parts().owner()};
    const Need need = std::get<Need>(parsed);
    if (!checked::range_fits(need.offset, need.bytes, file_bytes) ||
        reader.parts().range(need.offset, need.bytes)) {
      return fail(Error(ErrorCode::internal, "parser_requests_unread_bytes",
                        format_text("parser requested {} bytes at byte {} of a file of {} bytes", need.bytes,
                                    need.offset, file_bytes))
                      .with_hint("let the parser of the format request unread bytes of the file"));
    }
    HT_TRY(reader.read(need));
  }
}

}  // namespace ht::inline v1
