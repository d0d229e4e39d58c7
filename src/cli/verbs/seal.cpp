// seal, hash and verify: write or print the digests of a model, or compare every byte with them.
#include <fmt/format.h>

#include <chrono>
#include <htensor/integrity/seal.hpp>
#include <memory>

#include "cli/cli.hpp"
#include "cli/options.hpp"
#include "cli/print/progress.hpp"
#include "cli/print/table.hpp"
#include "cli/print/text.hpp"

namespace ht::cli {
namespace {

struct SealArguments {
  std::string algorithm = "crc64nvme";
  std::uint64_t max_splat = default_max_splat_bytes;
  bool per_tensor = false;
  bool force = false;

  [[nodiscard]] HashAlgorithm chosen() const {
    return hash_algorithm_named(algorithm).value_or(HashAlgorithm::crc64nvme);
  }
};

// Whether the files do not match their existing seal, or that seal is damaged.
bool is_negative_answer(const Error& error) {
  return error.code() == ErrorCode::checksum_mismatch || error.code() == ErrorCode::bad_seal;
}

Result<Exit> seal(const std::string& path, const SealArguments& options, const Common& common) {
  const auto model = HT_TRY(Model::open(path, {.max_header_bytes = common.max_header}));
  WorkWithBar work(common);
  const auto outcome = ht::seal(model, {.algorithm = options.chosen(),
                                        .work = work.options(),
                                        .max_splat_bytes = options.max_splat,
                                        .force = options.force});
  if (!outcome && is_negative_answer(outcome.error())) return report_negative_answer(outcome.error(), common);
  const auto sealed = HT_TRY(outcome);
  const auto hex = to_hex(sealed.digest);
  if (common.is_json()) {
    print(fmt::format(R"({{"seal":{},"bytes":{},"digest":"{}","base64":"{}","algorithm":"{}"}})"
                      "\n",
                      json_path(sealed.seal), sealed.bytes, hex, to_base64(sealed.digest),
                      options.algorithm));
  } else if (!common.quiet) {
    print(fmt::format("{}: {} sealed, {} {}\n", printable(sealed.seal.string()),
                      byte_count_text(sealed.bytes), options.algorithm, hex));
  }
  return Exit::good;
}

struct NamedDigest {
  std::string name;
  Digest digest;
};

std::string json_digest(const NamedDigest& named) {
  return fmt::format(R"({{"name":{},"digest":"{}"}})", json_string(named.name), to_hex(named.digest));
}

Result<Exit> hash(const std::string& path, const SealArguments& options, const Common& common) {
  const auto model = HT_TRY(Model::open(path, {.max_header_bytes = common.max_header}));
  WorkWithBar work(common);
  const auto found = HT_TRY(ht::hash(model, {.algorithm = options.chosen(),
                                             .per_tensor = options.per_tensor,
                                             .work = work.options(),
                                             .max_splat_bytes = options.max_splat}));
  std::vector<NamedDigest> files;
  files.reserve(found.files.size());
  for (const auto& [file, digest] : found.files) files.emplace_back(file.string(), digest);
  std::vector<NamedDigest> tensors;
  tensors.reserve(found.tensors.size());
  for (const auto& digest : found.tensors)
    tensors.emplace_back(std::string(model.catalog()[tensors.size()].name), digest);
  auto& listed = options.per_tensor ? tensors : files;
  std::string out;
  if (common.jsonl) {
    for (const auto& each : listed) out += json_digest(each) + "\n";
  } else if (common.json) {
    append_text(out, R"({{"digest":"{}","base64":"{}","algorithm":"{}","files":{},"tensors":{}}})",
                to_hex(found.digest), to_base64(found.digest), options.algorithm,
                json_list(files, json_digest), json_list(tensors, json_digest));
    out += '\n';
  } else {
    // In the format of sha256sum.
    if (options.per_tensor || files.size() > 1) listed.emplace_back(path, found.digest);
    for (const auto& [name, digest] : listed) append_text(out, "{}  {}\n", to_hex(digest), printable(name));
  }
  print(out);
  return Exit::good;
}

std::string json_text(const Verification& found) {
  const auto json_bad = [](const auto& bad) {
    return fmt::format(R"({{"file":{},"part":"{}","tensor":{},"offset":{},"bytes":{}}})", json_path(bad.file),
                       to_string(bad.part),
                       bad.part == Verification::Part::tensor ? json_string(bad.tensor) : "null", bad.offset,
                       bad.bytes);
  };
  return fmt::format(R"({{"ok":{},"verdict":"{}","checked_bytes":{},"algorithm":"{}","seal":{},"bad":{}}})"
                     "\n",
                     found.is_intact(), to_string(found.verdict), found.checked_bytes,
                     to_string(found.algorithm), json_or_null(found.seal.native()),
                     json_list(found.bad, json_bad));
}

std::string_view explained(Verification::Verdict verdict) {
  switch (verdict) {
    case Verification::Verdict::intact: return "intact: every byte matches";
    case Verification::Verdict::headers_match: return "headers and sizes match; data not read";
    case Verification::Verdict::damaged: return "damaged: checksum mismatch; download the file again";
    case Verification::Verdict::grown: return "grown: bytes follow the recorded end of the file";
    case Verification::Verdict::truncated:
      return "truncated: bytes are missing at the end; download the file again";
    case Verification::Verdict::replaced: return "replaced: every byte range differs from the seal";
    case Verification::Verdict::missing: return "missing: a sealed file does not exist; download it";
  }
  return "";
}

std::string human_text(const Verification& found, const std::string& path, double seconds) {
  std::string out;
  if (!found.bad.empty()) {
    std::vector<std::vector<std::string>> cells{{"file", "part", "offset", "bytes"}};
    for (const auto& bad : found.bad) {
      cells.push_back({printable(bad.file.string()),
                       bad.part == Verification::Part::tensor ? printable(bad.tensor)
                                                              : fmt::format("({})", to_string(bad.part)),
                       fmt::to_string(bad.offset), fmt::to_string(bad.bytes)});
    }
    out += table(cells, {2, 3}) + "\n";
  }
  const double rate = seconds > 0 ? static_cast<double>(found.checked_bytes) / seconds / 1e9 : 0;
  // If the seal covers several files, `found.file` is the first one that has the verdict.
  append_text(out, "{}: {}\n", printable(found.file.empty() ? path : found.file.string()),
              explained(found.verdict));
  append_text(out, "{} checked by {} in {:.3f} s: {:.2f} GB/s{}\n", byte_count_text(found.checked_bytes),
              to_string(found.algorithm), seconds, rate,
              found.seal.empty() ? ", against the file's own checksum" : "");
  return out;
}

// Exit status 1 if there is no readable seal.
Result<Exit> print_unverified(const Error& error, const std::string& path, const Common& common) {
  if (error.code() != ErrorCode::not_sealed && error.code() != ErrorCode::bad_seal) return fail(error);
  // A file that is not a model is reported as such.
  if (error.code() == ErrorCode::not_sealed)
    HT_TRY(Model::open(path, {.catalog_only = true, .max_header_bytes = common.max_header}));
  if (common.is_json()) {
    print(fmt::format(R"({{"ok":false,"verdict":"{}","checked_bytes":0,"bad":[],"error":{{{}}}}})"
                      "\n",
                      to_string(error.code()), json_members(error)));
  } else {
    print_diagnostic(error);
  }
  return Exit::negative_answer;
}

Result<Exit> verify(const std::string& path, bool quick, const Common& common) {
  const auto begin = std::chrono::steady_clock::now();
  WorkWithBar work(common);
  const auto found = ht::compare_with_seal(
      path, {.quick = quick, .work = work.options(), .max_header_bytes = common.max_header});
  if (!found) return print_unverified(found.error(), path, common);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  if (common.is_json()) {
    print(json_text(*found));
  } else if (!common.quiet || !found->is_intact()) {
    print(human_text(*found, path, elapsed.count()));
  }
  return found->is_intact() ? Exit::good : Exit::negative_answer;
}

// Registers seal or hash, which differ in one flag.
Action register_digests(CLI::App& verb, decltype(&seal) run, const std::string& flag,
                        bool SealArguments::* value, const std::string& description) {
  auto options = std::make_shared<SealArguments>();
  std::vector<std::string> names;
  names.reserve(std::size(all_hash_algorithms));
  for (const auto each : all_hash_algorithms) names.emplace_back(to_string(each));
  add_choice(verb, "--algorithm", options->algorithm, names,
             "Digest algorithm; default: crc64nvme, the fastest");
  add_flag(verb, flag, options.get()->*value, description);
  add_size(verb, "--max-splat SIZE", options->max_splat,
           "With xxh3-128 and sha256: largest splat (a tensor stored as one repeated pattern) to hash; "
           "default: 1G");
  const auto run_for_path = [options, run](const auto& path, const Common& common) {
    return run(path, *options, common);
  };
  return for_each_path(verb, run_for_path, Heading::none);
}

}  // namespace

Action register_seal(CLI::App& verb) {
  return register_digests(verb, seal, "--force", &SealArguments::force,
                          "Replace the seal even if the current bytes do not match it");
}

Action register_hash(CLI::App& verb) {
  return register_digests(
      verb, hash, "--per-tensor", &SealArguments::per_tensor,
      "Print the digest of each tensor, which is equal in every format. As text: the tensors, then the "
      "model, without the files; --json: the tensors, the model and the files; --jsonl: only the tensors");
}

Action register_verify(CLI::App& verb) {
  auto quick = std::make_shared<bool>();
  add_flag(verb, "--quick", *quick, "Check headers and sizes only");
  const auto verify_path = [quick](const auto& path, const Common& common) {
    return verify(path, *quick, common);
  };
  return for_each_path(verb, verify_path, Heading::none);
}

}  // namespace ht::cli
