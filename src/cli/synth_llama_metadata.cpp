#include "cli/synth_llama_metadata.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace ht::cli {
namespace {

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

}  // namespace

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

}  // namespace ht::cli
