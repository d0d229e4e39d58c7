// The port for unsupported systems (-DHT_PORT=none): every call fails with `function_not_supported`.

#include "io/port/fault_handler.hpp"
#include "io/port/port.hpp"
#include "io/port/system_error.hpp"

namespace ht::inline v1::io {
namespace {

class NoPort final : public Port {
 public:
  IoResult<FileHandle> open(const std::filesystem::path& /*path*/) override { return no(); }
  IoResult<FileHandle> duplicate(FileHandle /*file*/) override { return no(); }
  IoResult<void> close(FileHandle /*file*/) override { return no(); }
  IoResult<FileStat> stat(FileHandle /*file*/) override { return no(); }
  IoResult<FileStat> stat(const std::filesystem::path& /*path*/) override { return no(); }
  IoResult<std::filesystem::path> read_link(const std::filesystem::path& /*path*/) override { return no(); }
  IoResult<std::vector<std::string>> list(const std::filesystem::path& /*path*/) override { return no(); }
  IoResult<std::uint64_t> read_at(FileHandle /*file*/, std::uint64_t /*offset*/,
                                  MutableBytes /*into*/) override {
    return no();
  }
  IoResult<Region> map(FileHandle /*file*/, std::uint64_t /*offset*/, std::uint64_t /*bytes*/) override {
    return no();
  }
  IoResult<Region> map_private(FileHandle /*file*/, std::uint64_t /*offset*/,
                               std::uint64_t /*bytes*/) override {
    return no();
  }
  IoResult<void> unmap(Region /*region*/) override { return no(); }
  IoResult<void> map_over(Region /*region*/, FileHandle /*file*/, std::uint64_t /*offset*/) override {
    return no();
  }
  IoResult<void> advise(Region /*region*/, Strategy::Advice /*advice*/) override { return no(); }
  [[nodiscard]] std::uint64_t page_bytes() const noexcept override { return 4096; }
  IoResult<FileHandle> reopen_direct(FileHandle /*file*/, Access /*access*/) override { return no(); }
  IoResult<DirectAlignment> direct_alignment(FileHandle /*file*/) override { return no(); }
  IoResult<std::unique_ptr<ReadQueue>> read_queue(std::uint32_t /*depth*/) override { return no(); }
  IoResult<void> cached(FileHandle /*file*/, std::span<Source::CacheQuery> /*parts*/) override {
    return no();
  }
  IoResult<void> drop_cached(FileHandle /*file*/, std::uint64_t /*offset*/,
                             std::uint64_t /*bytes*/) override {
    return no();
  }
  IoResult<FileSystem> file_system(FileHandle /*file*/) override { return no(); }
  IoResult<std::uint64_t> available_memory() override { return no(); }
  IoResult<std::uint64_t> peak_memory() override { return no(); }
  IoResult<std::uint64_t> next_data(FileHandle /*file*/, std::uint64_t /*offset*/) override { return no(); }
  IoResult<std::uint64_t> next_hole(FileHandle /*file*/, std::uint64_t /*offset*/) override { return no(); }
  IoResult<FileHandle> create(const std::filesystem::path& /*path*/,
                              std::optional<Source::Rights> /*rights*/) override {
    return no();
  }
  IoResult<FileHandle> create_nameless(const std::filesystem::path& /*folder*/,
                                       std::optional<Source::Rights> /*rights*/) override {
    return no();
  }
  IoResult<void> name(FileHandle /*file*/, const std::filesystem::path& /*path*/) override { return no(); }
  IoResult<void> claim(FileHandle /*file*/) override { return no(); }
  IoResult<std::uint64_t> write_at(FileHandle /*file*/, std::uint64_t /*offset*/, Bytes /*from*/) override {
    return no();
  }
  IoResult<void> clone_range(const CopyRequest& /*request*/) override { return no(); }
  IoResult<std::uint64_t> copy_range(const CopyRequest& /*request*/) override { return no(); }
  IoResult<void> allocate(FileHandle /*file*/, std::uint64_t /*bytes*/) override { return no(); }
  IoResult<void> resize(FileHandle /*file*/, std::uint64_t /*bytes*/) override { return no(); }
  IoResult<void> sync(FileHandle /*file*/) override { return no(); }
  IoResult<void> rename(const std::filesystem::path& /*from*/, const std::filesystem::path& /*to*/,
                        IfExists /*if_exists*/) override {
    return no();
  }
  IoResult<void> unlink(const std::filesystem::path& /*path*/) override { return no(); }

 private:
  static tl::unexpected<std::error_code> no() { return tl::unexpected(no_port()); }
};

}  // namespace

Port& system_port() noexcept {
  static NoPort port;
  return port;
}

// Without mappings there are no faults.
FaultHandler::FaultHandler() = default;
// NOLINTNEXTLINE(modernize-use-equals-default): the class is not trivial, as in the other ports
FaultHandler::~FaultHandler() {}

}  // namespace ht::inline v1::io
