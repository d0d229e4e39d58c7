#include <algorithm>
#include <htensor/base/utf8.hpp>
#include <htensor/integrity/seal.hpp>
#include <htensor/integrity/verify.hpp>
#include <htensor/io/mapped.hpp>

#include "base/format_text.hpp"
#include "integrity/compare.hpp"
#include "integrity/own_checksum.hpp"
#include "integrity/seal_place.hpp"

namespace ht::inline v1 {
namespace {

using Path = std::filesystem::path;

io::Port& port_of(const VerifyOptions& options) {
  return options.port != nullptr ? *options.port : io::system_port();
}

bool is_absent(const Error& error) { return error.cause() == std::errc::no_such_file_or_directory; }

// Every file of the seal, as long as it is needed.
struct OpenFiles {
  std::vector<std::optional<io::Mapped>> mapped;
  std::vector<const io::Mapped*> files;
};

Result<OpenFiles> open_files(const std::vector<Path>& paths, io::Port& port) {
  OpenFiles open;
  open.mapped.reserve(paths.size());
  for (const auto& path : paths) {
    auto opened = io::Opened::open(path, port);
    if (!opened && !is_absent(opened.error())) return fail(std::move(opened).error());
    open.mapped.push_back(opened ? std::optional(HT_TRY((*std::move(opened)).map())) : std::nullopt);
    open.files.push_back(open.mapped.back() ? &*open.mapped.back() : nullptr);
  }
  return open;
}

Error not_of_this_file(const Seal& seal, const Path& path) {
  return Error(ErrorCode::bad_seal, "seal_is_of_this_file",
               format_text("is the seal of '{}', and nothing in '{}' is as it says",
                           to_utf8(seal.files[0].name), to_utf8(path.filename().string())))
      .with_hint("put the seal back beside its own file");
}

ErrorCode code_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::truncated: return ErrorCode::truncated;
    case Verdict::grown: return ErrorCode::trailing_bytes;
    case Verdict::missing: return ErrorCode::missing_shard;
    default: return ErrorCode::checksum_mismatch;
  }
}

}  // namespace

std::string_view to_string(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::intact: return "intact";
    case Verdict::damaged: return "damaged";
    case Verdict::grown: return "grown";
    case Verdict::truncated: return "truncated";
    case Verdict::replaced: return "replaced";
    case Verdict::missing: return "missing";
  }
  return "unknown";
}

std::string_view to_string(FilePart part) noexcept {
  switch (part) {
    case FilePart::header: return "header";
    case FilePart::tensor: return "tensor";
    case FilePart::gap: return "gap";
    case FilePart::tail: return "tail";
  }
  return "unknown";
}

Result<void> Verification::result() const {
  if (ok()) return {};
  if (bad.empty()) return fail(code_of(verdict), "bytes_are_as_sealed", "is not as it was sealed");
  const auto& first = bad.front();
  const std::string what = first.part == FilePart::tensor
                               ? format_text("in tensor '{}'", first.tensor)
                               : format_text("in what is its {}", to_string(first.part));
  const std::string more = bad.size() > 1 ? format_text(", and {} more", bad.size() - 1) : "";
  return fail(Error(code_of(verdict), "bytes_are_as_sealed",
                    format_text("is {}: {} bytes from byte {} on, {}, are not as they were sealed{}",
                                to_string(verdict), first.bytes, first.offset, what, more))
                  .at_path(first.file.native())
                  .at_tensor(first.tensor)
                  .at_offset(first.offset)
                  .with_hint("fetch the file again; `htensor verify` lists all that is bad"));
}

Result<Verification> verify(const Path& path, const VerifyOptions& options) {
  return without_bad_alloc([&]() -> Result<Verification> {
    auto& port = port_of(options);
    const auto place = place_of_seal(path, port);
    const auto seal = read_seal(place.seal, port);
    if (!seal) {
      if (seal.error().code() != ErrorCode::not_sealed || !place.file) return fail(seal.error());
      auto opened = HT_TRY(io::Opened::open(path, port));
      const auto file = HT_TRY(std::move(opened).map());
      const auto own = HT_TRY(own_checksum(io::file_of(file)));
      if (!own) return fail(seal.error());
      return verify_own(file, *own, options);
    }
    const auto paths = sealed_paths(*seal, place);
    const auto open = HT_TRY(open_files(paths, port));
    auto found = HT_TRY(compare(*seal, open.files, paths, options));
    found.seal = place.seal;
    // Who renames both keeps what he has; who finds nothing as it should be under another name has mixed up
    // seals.
    if (found.verdict == Verdict::replaced && place.file && seal->files.size() == 1 &&
        place.file->filename() != Path(seal->files[0].name).filename()) {
      return fail(not_of_this_file(*seal, *place.file).at_path(place.seal.native()));
    }
    return found;
  });
}

}  // namespace ht::inline v1
