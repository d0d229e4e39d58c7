// verify: compares every byte with the seal and names the tensors that differ.
#include <fmt/format.h>

#include <chrono>
#include <htensor/base/utf8.hpp>
#include <htensor/integrity/verify.hpp>
#include <memory>

#include "cli/cli.hpp"
#include "cli/options.hpp"
#include "cli/progress.hpp"
#include "cli/table.hpp"
#include "cli/text.hpp"

namespace ht::cli {
namespace {

struct Options {
  std::string path;
  std::uint64_t max_header = 0;
  bool quick = false;
};

std::string json_text(const Verification& found) {
  std::string out =
      fmt::format(R"({{"ok":{},"verdict":"{}","checked_bytes":{},"algorithm":"{}","seal":{},"bad":[)",
                  found.ok(), to_string(found.verdict), found.checked_bytes, to_string(found.algorithm),
                  found.seal.empty() ? "null" : json_string(found.seal.string()));
  for (const auto& bad : found.bad) {
    if (&bad != &found.bad.front()) out += ',';
    append_text(out, R"({{"file":{},"part":"{}","tensor":{},"offset":{},"bytes":{}}})",
                json_string(bad.file.string()), to_string(bad.part),
                bad.part == FilePart::tensor ? json_string(bad.tensor) : "null", bad.offset, bad.bytes);
  }
  return out += "]}\n";
}

std::string_view explained(Verdict verdict) {
  switch (verdict) {
    case Verdict::intact: return "intact: every byte matches";
    case Verdict::headers_match: return "headers and sizes match; data not read";
    case Verdict::damaged: return "damaged: checksum mismatch; download the file again";
    case Verdict::grown: return "grown: bytes follow the sealed end of the file";
    case Verdict::truncated: return "truncated: bytes are missing at the end; download the file again";
    case Verdict::replaced: return "replaced: every byte range differs from the seal";
    case Verdict::missing: return "missing: a sealed file does not exist; download it";
  }
  return "";
}

std::string people_text(const Verification& found, const Options& options, double seconds) {
  std::string out;
  if (!found.bad.empty()) {
    std::vector<std::vector<std::string>> cells{{"file", "part", "offset", "bytes"}};
    for (const auto& bad : found.bad) {
      cells.push_back(
          {printable(bad.file.string()),
           bad.part == FilePart::tensor ? printable(bad.tensor) : fmt::format("({})", to_string(bad.part)),
           fmt::to_string(bad.offset), fmt::to_string(bad.bytes)});
    }
    out += table(cells, {2, 3}) + "\n";
  }
  const double rate = seconds > 0 ? static_cast<double>(found.checked_bytes) / seconds / 1e9 : 0;
  append_text(out, "{}: {}\n", printable(options.path), explained(found.verdict));
  append_text(out, "{} checked by {} in {:.3f} s: {:.2f} GB/s{}\n", size_text(found.checked_bytes),
              to_string(found.algorithm), seconds, rate,
              found.seal.empty() ? ", against the file's own checksum" : "");
  return out;
}

// Without a seal that can be read, the answer is no.
Result<Exit> without_verdict(const Error& error, const Options& options, const Common& common) {
  if (error.code() == ErrorCode::not_sealed) {
    // A file that is not a model is an error of its own.
    const auto model =
        Model::open(options.path, {.catalog_only = true, .max_header_bytes = options.max_header});
    if (!model) return fail(model.error());
  }
  if (common.json || common.jsonl) {
    auto json = json_error(error);
    json.erase(json.begin());  // its brace, as it stands within another
    print(fmt::format(R"({{"ok":false,"verdict":"{}","checked_bytes":0,"bad":[],{})"
                      "\n",
                      to_string(error.code()), json));
  } else {
    complain(error);
  }
  return Exit::answer_is_no;
}

Result<Exit> verify(const Options& options, const Common& common) {
  const auto begin = std::chrono::steady_clock::now();
  WorkWithBar work(common);
  const auto found = ht::verify(
      options.path, {.quick = options.quick, .work = work.options(), .max_header_bytes = options.max_header});
  if (!found) {
    const auto code = found.error().code();
    if (code != ErrorCode::not_sealed && code != ErrorCode::bad_seal) return fail(found.error());
    return without_verdict(found.error(), options, common);
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  if (common.json || common.jsonl) {
    print(json_text(*found));
  } else if (!common.quiet || !found->ok()) {
    print(people_text(*found, options, elapsed.count()));
  }
  return found->ok() ? Exit::good : Exit::answer_is_no;
}

}  // namespace

Action register_verify(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  add_flag(verb, "--quick", options->quick, "Check headers and sizes only");
  add_max_header(verb, options->max_header);
  return for_each_path(
      verb, options->path, [options](const Common& common) { return verify(*options, common); },
      Heading::none);
}

}  // namespace ht::cli
