// Llama-3.2-1B as llama.cpp quantizes it to Q4_K_M: its tensors under GGUF's names, and its metadata.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "cli/synth_presets.hpp"

namespace ht::cli {
namespace {

struct LlamaSizes {
  static constexpr std::int64_t heads = 32;
  static constexpr std::int64_t key_heads = 8;

  std::int64_t layers = 16;
  std::int64_t hidden = 2048;
  std::int64_t intermediate = 8192;
  std::int64_t vocabulary = 128256;

  [[nodiscard]] std::int64_t head() const noexcept { return hidden / heads; }
  [[nodiscard]] std::int64_t keys() const noexcept { return key_heads * head(); }
};

// Rows of K encodings are cut into blocks of 256 elements.
constexpr std::int64_t block = 256;

// llama.cpp's `use_more_bits`: the first and last eighth of the layers and every third between them.
bool has_more_bits(std::int64_t layer, std::int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

StoredAs blocks_of(std::string_view name) { return stored_as(find_encoding(name).value_or(Encoding{})); }

std::vector<PlannedTensor> tensors_of(const LlamaSizes& model) {
  const StoredAs f32 = stored_as(dtype_info<F32>());
  const StoredAs q4_k = blocks_of("Q4_K");
  const StoredAs q6_k = blocks_of("Q6_K");
  std::vector<PlannedTensor> tensors;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> dims, const StoredAs& type) {
    tensors.push_back({name + ".weight", std::move(dims), type});
  };
  add("rope_freqs", {model.head() / 2}, f32);
  // The output layer is this one, too, which is why it has more bits.
  add("token_embd", {model.vocabulary, model.hidden}, q6_k);
  for (std::int64_t i = 0; i < model.layers; ++i) {
    const auto prefix = fmt::format("blk.{}.", i);
    const StoredAs& finer = has_more_bits(i, model.layers) ? q6_k : q4_k;
    add(prefix + "attn_norm", {model.hidden}, f32);
    add(prefix + "ffn_down", {model.hidden, model.intermediate}, finer);
    add(prefix + "ffn_gate", {model.intermediate, model.hidden}, q4_k);
    add(prefix + "ffn_up", {model.intermediate, model.hidden}, q4_k);
    add(prefix + "ffn_norm", {model.hidden}, f32);
    add(prefix + "attn_k", {model.keys(), model.hidden}, q4_k);
    add(prefix + "attn_output", {model.hidden, model.hidden}, q4_k);
    add(prefix + "attn_q", {model.hidden, model.hidden}, q4_k);
    add(prefix + "attn_v", {model.keys(), model.hidden}, finer);
  }
  add("output_norm", {model.hidden}, f32);
  return tensors;
}

// The bytes of all tensors, which may be more than can be counted.
double about_bytes(const std::vector<PlannedTensor>& tensors) {
  double sum = 0;
  for (const auto& tensor : tensors) {
    double bytes = static_cast<double>(tensor.type.group_bytes);
    for (const auto dim : tensor.dims) bytes *= static_cast<double>(dim);
    sum += bytes / static_cast<double>(tensor.type.group_elements);
  }
  return sum;
}

LlamaSizes scaled(double scale) {
  constexpr LlamaSizes full;
  LlamaSizes model;
  model.hidden = scaled_size(full.hidden, scale, block);
  model.intermediate = scaled_size(full.intermediate, scale, block);
  // Larger models of a family have the vocabulary of the smaller ones; it would else fill the metadata.
  model.vocabulary = scaled_size(full.vocabulary, std::min(scale, 1.0), 8);
  return model;
}

LlamaSizes fitted(double bytes) {
  const auto fits = [&](const LlamaSizes& model) { return about_bytes(tensors_of(model)) <= bytes; };
  LlamaSizes model = scaled(largest_scale([&](double scale) { return fits(scaled(scale)); }));
  // A layer of whole blocks has 200 KB at least.
  while (model.layers > 1 && !fits(model)) --model.layers;
  // As rows grow by whole blocks, much may be left, which the other sizes take.
  const auto with_same_rows = [&](double scale) {
    LlamaSizes other = scaled(scale);
    other.layers = model.layers;
    other.hidden = model.hidden;
    return other;
  };
  return with_same_rows(largest_scale([&](double scale) { return fits(with_same_rows(scale)); }));
}

// The bytes of an array as GGUF has them: type, count, elements.
class ArrayBytes {
 public:
  explicit ArrayBytes(MetaType type) {
    put(static_cast<std::uint32_t>(type));
    put(std::uint64_t{0});
  }

  void add(std::string_view text) {
    put(static_cast<std::uint64_t>(text.size()));
    bytes_.insert(bytes_.end(), bytes_of(text).begin(), bytes_of(text).end());
    ++count_;
  }
  void add(std::int32_t number) {
    put(number);
    ++count_;
  }

  [[nodiscard]] MetaValue value() {
    store_le(MutableBytes(bytes_).subspan(sizeof(std::uint32_t)), count_);
    return {MetaType::array, bytes_};
  }

 private:
  template <WireNumber T>
  void put(T number) {
    bytes_.resize(bytes_.size() + sizeof(T));
    store_le(MutableBytes(bytes_).last(sizeof(T)), number);
  }

  std::vector<std::byte> bytes_;
  std::uint64_t count_ = 0;
};

// Words of made-up syllables. All words of fewer syllables come before, so that each but the shortest is a
// word and one more syllable, as the tokens of byte pair encoding are.
struct Word {
  std::string begin;
  std::string last;
};

Word word_of(std::uint64_t number) {
  constexpr std::string_view consonants = "bcdfghjklmnpqrstvwxz";
  constexpr std::string_view vowels = "aeiou";
  constexpr std::uint64_t syllables = consonants.size() * vowels.size();
  Word word;
  for (++number; number > 0; number = (number - 1) / syllables) {
    const std::uint64_t syllable = (number - 1) % syllables;
    word.begin += word.last;
    word.last = {consonants[syllable / vowels.size()], vowels[syllable % vowels.size()]};
  }
  return word;
}

// Every other token begins a word, which is how a space before it is spelled.
constexpr std::string_view space = "\u0120";

// Token types of GGUF.
constexpr std::int32_t normal_token = 1;
constexpr std::int32_t control_token = 3;

// 256 of 128256 as in Llama 3, and at least the tokens for the begin and the end of a text.
std::uint64_t control_tokens(std::uint64_t vocabulary) {
  return std::max<std::uint64_t>(2, vocabulary / 501);
}

std::string control_text(std::uint64_t number) {
  constexpr std::array<std::string_view, 2> named{"<|begin_of_text|>", "<|end_of_text|>"};
  if (number < named.size()) return std::string(named[number]);
  return fmt::format("<|reserved_special_token_{}|>", number - named.size());
}

Result<void> add_vocabulary(Metadata& metadata, std::uint64_t vocabulary) {
  ArrayBytes tokens(MetaType::string);
  ArrayBytes types(MetaType::i32);
  ArrayBytes merges(MetaType::string);
  const std::uint64_t first_control = vocabulary - control_tokens(vocabulary);
  for (std::uint64_t i = 0; i < first_control; ++i) {
    const Word word = word_of(i / 2);
    const std::string begin = std::string(i % 2 == 0 ? "" : space) + word.begin;
    tokens.add(begin + word.last);
    types.add(normal_token);
    if (!begin.empty()) merges.add(fmt::format("{} {}", begin, word.last));
  }
  for (std::uint64_t i = first_control; i < vocabulary; ++i) {
    tokens.add(control_text(i - first_control));
    types.add(control_token);
  }
  HT_TRY(metadata.add("tokenizer.ggml.model", "gpt2"));
  HT_TRY(metadata.add("tokenizer.ggml.pre", "llama-bpe"));
  HT_TRY(metadata.add("tokenizer.ggml.tokens", tokens.value()));
  HT_TRY(metadata.add("tokenizer.ggml.token_type", types.value()));
  HT_TRY(metadata.add("tokenizer.ggml.merges", merges.value()));
  HT_TRY(metadata.add("tokenizer.ggml.bos_token_id", static_cast<std::uint32_t>(first_control)));
  HT_TRY(metadata.add("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(first_control + 1)));
  return {};
}

// What the file says of itself, with the keys and types that llama.cpp writes: the sizes of the model, and a
// vocabulary that is made up.
Result<Metadata> llama_metadata(const LlamaSizes& model) {
  constexpr std::uint32_t mostly_q4_k_m = 15;
  const auto u32 = [](std::int64_t size) { return static_cast<std::uint32_t>(size); };
  Metadata metadata;
  HT_TRY(metadata.add("general.architecture", "llama"));
  HT_TRY(metadata.add("general.type", "model"));
  HT_TRY(metadata.add("general.name", "Llama 3.2 1B, made up"));
  HT_TRY(metadata.add("general.basename", "Llama-3.2"));
  HT_TRY(metadata.add("general.size_label", "1B"));
  HT_TRY(metadata.add("llama.block_count", u32(model.layers)));
  HT_TRY(metadata.add("llama.context_length", std::uint32_t{131072}));
  HT_TRY(metadata.add("llama.embedding_length", u32(model.hidden)));
  HT_TRY(metadata.add("llama.feed_forward_length", u32(model.intermediate)));
  HT_TRY(metadata.add("llama.attention.head_count", u32(LlamaSizes::heads)));
  HT_TRY(metadata.add("llama.attention.head_count_kv", u32(LlamaSizes::key_heads)));
  HT_TRY(metadata.add("llama.rope.freq_base", 500000.0F));
  HT_TRY(metadata.add("llama.attention.layer_norm_rms_epsilon", 1e-5F));
  HT_TRY(metadata.add("llama.attention.key_length", u32(model.head())));
  HT_TRY(metadata.add("llama.attention.value_length", u32(model.head())));
  HT_TRY(metadata.add("general.file_type", mostly_q4_k_m));
  HT_TRY(metadata.add("llama.vocab_size", u32(model.vocabulary)));
  HT_TRY(metadata.add("llama.rope.dimension_count", u32(model.head())));
  HT_TRY(add_vocabulary(metadata, static_cast<std::uint64_t>(model.vocabulary)));
  HT_TRY(metadata.add("general.quantization_version", std::uint32_t{2}));
  return metadata;
}

}  // namespace

Result<Plan> quantized_llama(std::optional<std::uint64_t> bytes) {
  // A byte has less than two elements, so 62 bits can count them.
  if (bytes > std::uint64_t{1} << 61) return too_large(*bytes);
  const LlamaSizes model = bytes ? fitted(static_cast<double>(*bytes)) : LlamaSizes{};
  auto metadata = HT_TRY(llama_metadata(model));
  return Plan{tensors_of(model), std::move(metadata)};
}

}  // namespace ht::cli
