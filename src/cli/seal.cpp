// seal and hash: write or print the digests of a model.
#include <fmt/format.h>

#include <htensor/base/utf8.hpp>
#include <htensor/integrity/seal.hpp>
#include <memory>

#include "cli/cli.hpp"
#include "cli/options.hpp"
#include "cli/progress.hpp"
#include "cli/text.hpp"

namespace ht::cli {
namespace {

struct Options {
  std::string path;
  std::string algorithm = "crc64nvme";
  std::uint64_t max_header = 0;
  std::uint64_t max_splat = default_max_splat_bytes;
  bool per_tensor = false;
  bool force = false;

  [[nodiscard]] HashAlgorithm chosen() const {
    return hash_algorithm_named(algorithm).value_or(HashAlgorithm::crc64nvme);
  }
};

void add_algorithm(CLI::App& verb, std::string& algorithm) {
  std::vector<std::string> names;
  names.reserve(all_hash_algorithms.size());
  for (const auto each : all_hash_algorithms) names.emplace_back(to_string(each));
  add_choice(verb, "--algorithm", algorithm, names, "Digest algorithm; default: crc64nvme, the fastest");
}

// The files were compared with the seal that they have, and differ, or that seal is damaged.
bool is_answer(const Error& error) {
  return error.code() == ErrorCode::checksum_mismatch || error.code() == ErrorCode::bad_seal;
}

void add_max_splat(CLI::App& verb, std::uint64_t& bytes) {
  add_size(verb, "--max-splat", bytes, "Largest splat that xxh3-128 and sha256 hash; default: 1G");
}

Result<Exit> seal(const Options& options, const Common& common) {
  const auto model = HT_TRY(Model::open(options.path, {.max_header_bytes = options.max_header}));
  WorkWithBar work(common);
  const auto made = ht::seal(model, {.algorithm = options.chosen(),
                                     .work = work.options(),
                                     .max_splat_bytes = options.max_splat,
                                     .force = options.force});
  if (!made && is_answer(made.error())) return answer_no(made.error(), common);
  const auto sealed = HT_TRY(made);
  const auto hex = to_hex(sealed.digest);
  if (common.json || common.jsonl) {
    print(fmt::format(R"({{"seal":{},"bytes":{},"digest":"{}","base64":"{}","algorithm":"{}"}})"
                      "\n",
                      json_string(sealed.seal.string()), sealed.bytes, hex, to_base64(sealed.digest),
                      options.algorithm));
  } else if (!common.quiet) {
    print(fmt::format("{}: {} sealed, {} {}\n", printable(sealed.seal.string()), size_text(sealed.bytes),
                      options.algorithm, hex));
  }
  return Exit::good;
}

void append_json(std::string& out, std::string_view name, const Digest& digest) {
  out += R"({"name":)";
  append_json_string(out, name);
  append_text(out, R"(,"digest":"{}"}})", to_hex(digest));
}

// A list, or a line for each.
template <class List, class Add>
void append_each(std::string& out, const List& list, bool lines, const Add& add) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i != 0 && !lines) out += ',';
    add(i);
    if (lines) out += '\n';
  }
}

Result<Exit> hash(const Options& options, const Common& common) {
  const auto model = HT_TRY(Model::open(options.path, {.max_header_bytes = options.max_header}));
  WorkWithBar work(common);
  const auto found = HT_TRY(ht::hash(model, {.algorithm = options.chosen(),
                                             .per_tensor = options.per_tensor,
                                             .work = work.options(),
                                             .max_splat_bytes = options.max_splat}));
  std::string out;
  const auto add_file = [&](std::size_t i) {
    append_json(out, found.files[i].path.string(), found.files[i].digest);
  };
  const auto add_tensor = [&](std::size_t i) { append_json(out, model.catalog()[i].name, found.tensors[i]); };
  if (common.jsonl) {
    if (options.per_tensor) {
      append_each(out, found.tensors, true, add_tensor);
    } else {
      append_each(out, found.files, true, add_file);
    }
  } else if (common.json) {
    append_text(out, R"({{"digest":"{}","base64":"{}","algorithm":"{}","files":[)", to_hex(found.digest),
                to_base64(found.digest), options.algorithm);
    append_each(out, found.files, false, add_file);
    out += R"(],"tensors":[)";
    append_each(out, found.tensors, false, add_tensor);
    out += "]}\n";
  } else {
    // In the format of sha256sum.
    for (std::size_t i = 0; i < found.tensors.size(); ++i) {
      append_text(out, "{}  {}\n", to_hex(found.tensors[i]), printable(model.catalog()[i].name));
    }
    for (const auto& file : found.files) {
      if (!options.per_tensor)
        append_text(out, "{}  {}\n", to_hex(file.digest), printable(file.path.string()));
    }
    if (options.per_tensor || found.files.size() > 1) {
      append_text(out, "{}  {}\n", to_hex(found.digest), printable(options.path));
    }
  }
  print(out);
  return Exit::good;
}

}  // namespace

Action register_seal(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  add_algorithm(verb, options->algorithm);
  add_flag(verb, "--force", options->force, "Replace the seal even if the current bytes do not match it");
  add_max_splat(verb, options->max_splat);
  add_max_header(verb, options->max_header);
  return for_each_path(
      verb, options->path, [options](const Common& common) { return seal(*options, common); }, Heading::none);
}

Action register_hash(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  add_algorithm(verb, options->algorithm);
  add_flag(verb, "--per-tensor", options->per_tensor,
           "Also print the digest of each tensor, which is equal in every format");
  add_max_splat(verb, options->max_splat);
  add_max_header(verb, options->max_header);
  return for_each_path(
      verb, options->path, [options](const Common& common) { return hash(*options, common); }, Heading::none);
}

}  // namespace ht::cli
