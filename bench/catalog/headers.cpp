#include "bench/catalog/headers.hpp"

#include <array>
#include <cerrno>
#include <fstream>
#include <string>
#include <system_error>

namespace ht::bench {
namespace {

constexpr std::array<std::int64_t, 2> dims{1024, 512};

template <class T>
void append(std::vector<std::byte>& out, T value) {
  out.resize(out.size() + sizeof(T));
  store_le(MutableBytes(out).last(sizeof(T)), value);
}

std::vector<std::byte> array_of(MetaType type, std::uint64_t count) {
  std::vector<std::byte> out;
  append(out, static_cast<std::uint32_t>(type));
  append(out, count);
  return out;
}

void append_text(std::vector<std::byte>& out, std::string_view text) {
  append(out, static_cast<std::uint64_t>(text.size()));
  for (const char c : text) out.push_back(static_cast<std::byte>(c));
}

// Returns a token of 1 to 11 bytes, a typical length.
std::string token(std::uint64_t i) {
  return std::string(i % 8, static_cast<char>('a' + i % 26)) + std::to_string(i % 10'000);
}

}  // namespace

Result<Catalog> expert_catalog(std::size_t tensors) {
  constexpr std::array projections{".gate_proj.weight", ".up_proj.weight", ".down_proj.weight"};
  constexpr std::size_t experts_per_layer = 1024;
  CatalogBuilder builder("bench");
  for (std::size_t i = 0; i < tensors; ++i) {
    const auto expert = i / projections.size();
    const std::string name = "model.layers." + std::to_string(expert / experts_per_layer) + ".mlp.experts." +
                             std::to_string(expert % experts_per_layer) + projections[i % projections.size()];
    HT_TRY(builder.add({.name = name, .dtype = BF16::tag, .dims = dims, .bytes = 1 << 20}));
  }
  return std::move(builder).build();
}

Result<Catalog> vocabulary_catalog() {
  constexpr std::uint64_t entries = 150'000;
  CatalogBuilder builder("bench");
  HT_TRY(builder.metadata().add("general.architecture", "llama"));
  auto tokens = array_of(MetaType::string, entries);
  auto scores = array_of(MetaType::f32, entries);
  auto kinds = array_of(MetaType::i32, entries);
  for (std::uint64_t i = 0; i < entries; ++i) {
    append_text(tokens, token(i));
    append(scores, -static_cast<float>(i));
    append(kinds, std::int32_t{1});
  }
  HT_TRY(builder.metadata().add("tokenizer.ggml.tokens", MetaValue(MetaType::array, tokens)));
  HT_TRY(builder.metadata().add("tokenizer.ggml.scores", MetaValue(MetaType::array, scores)));
  HT_TRY(builder.metadata().add("tokenizer.ggml.token_type", MetaValue(MetaType::array, kinds)));
  for (int i = 0; i < 2'000; ++i) {
    const std::string name = "blk." + std::to_string(i / 9) + ".part_" + std::to_string(i % 9) + ".weight";
    HT_TRY(builder.add({.name = name, .dtype = BF16::tag, .dims = dims, .bytes = 1 << 20}));
  }
  return std::move(builder).build();
}

Result<Catalog> llama_catalog() {
  constexpr std::uint64_t token_count = 128'256;
  constexpr std::uint64_t merge_count = 280'147;
  CatalogBuilder builder("bench");
  HT_TRY(builder.metadata().add("general.architecture", "llama"));
  auto tokens = array_of(MetaType::string, token_count);
  auto kinds = array_of(MetaType::i32, token_count);
  for (std::uint64_t i = 0; i < token_count; ++i) {
    append_text(tokens, token(i));
    append(kinds, std::int32_t{1});
  }
  auto merges = array_of(MetaType::string, merge_count);
  for (std::uint64_t i = 0; i < merge_count; ++i)
    append_text(merges, token(i) + " " + std::to_string(i % 100));
  HT_TRY(builder.metadata().add("tokenizer.ggml.tokens", MetaValue(MetaType::array, tokens)));
  HT_TRY(builder.metadata().add("tokenizer.ggml.token_type", MetaValue(MetaType::array, kinds)));
  HT_TRY(builder.metadata().add("tokenizer.ggml.merges", MetaValue(MetaType::array, merges)));
  constexpr std::array parts{"attn_q",   "attn_k", "attn_v",   "attn_output", "attn_norm",
                             "ffn_gate", "ffn_up", "ffn_down", "ffn_norm"};
  constexpr std::size_t layers = 32;
  const auto add = [&](const std::string& name) {
    return builder.add({.name = name + ".weight", .dtype = BF16::tag, .dims = dims, .bytes = 1 << 20});
  };
  for (const auto* const name : {"token_embd", "output_norm", "output"}) HT_TRY(add(name));
  for (std::size_t i = 0; i < layers * parts.size(); ++i) {
    HT_TRY(add("blk." + std::to_string(i / parts.size()) + "." + parts[i % parts.size()]));
  }
  return std::move(builder).build();
}

Result<std::vector<std::byte>> make_file(const std::filesystem::path& path, std::string_view format,
                                         const Catalog& catalog) {
  auto encoded = HT_TRY(encode(format, catalog));
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(encoded.header.data()),
             static_cast<std::streamsize>(encoded.header.size()));
  file.close();
  std::error_code cause;
  if (!file) {
    cause.assign(errno, std::generic_category());
  } else {
    std::filesystem::resize_file(path, encoded.file_bytes, cause);
  }
  if (cause) {
    return fail(Error(ErrorCode::write_failed, "", "cannot write: " + cause.message())
                    .at_path(path.string())
                    .with_cause(cause));
  }
  return std::move(encoded.header);
}

}  // namespace ht::bench
