// The models of `synth` and their dimensions.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <htensor/base/bytes.hpp>
#include <utility>

#include "cli/synth/synth.hpp"

namespace ht::cli {
namespace {

// The dimensions of a transformer.
struct Transformer {
  std::string_view preset;
  std::int64_t layers;
  std::int64_t hidden;
  std::int64_t intermediate;
  std::int64_t keys;  // size of keys, and of values, in all heads together
  std::int64_t vocabulary;
  std::int64_t experts;  // 0 for one dense network
  bool tied;             // whether the embedding is also the output layer
  std::int64_t heads;
  std::int64_t key_heads;
  float rope_factor = 1;  // divisor of the low frequencies
  // `Values::scale` of the weights. Without `--size`, the standard deviation of the weights of a Llama preset
  // is about 1 / √hidden.
  float weight_scale = 1;
};

// moe-60k has small experts, so that its many tensors total 2 GB.
constexpr std::array transformers{
    Transformer{"llama-1b", 16, 2048, 8192, 512, 128256, 0, true, 32, 8, 32},
    Transformer{"llama-8b", 32, 4096, 14336, 1024, 128256, 0, false, 32, 8, 8},
    Transformer{"moe-60k", 52, 256, 64, 64, 32000, 384, false, 4, 1},
    Transformer{"llama-tiny", 2, 256, 512, 128, 512, 0, false, 4, 2, 32, 4},
};
constexpr std::string_view tiny_preset = "llama-tiny";

constexpr double rope_base = 500000.0;

// Whole groups of eight elements, which are whole bytes in every dtype.
constexpr std::int64_t dense_granule = 8;

StorageType storage_type_of(const DTypeInfo& dtype) {
  return {.name = dtype.name,
          .dtype = dtype.tag,
          .group_elements = 8,
          .group_bytes = static_cast<std::uint64_t>(dtype.bits)};
}

StorageType storage_type_of(std::string_view name) {
  const auto encoding = find_encoding(name).value_or(Encoding{});
  return {.name = encoding.name,
          .encoding = encoding.tag,
          .group_elements = encoding.block_elements,
          .group_bytes = encoding.block_bytes};
}

// The size times the scale, rounded to a multiple of the granule, and at least one granule.
std::int64_t scaled_size(std::int64_t size, double scale, std::int64_t granule) {
  const double granules = static_cast<double>(size) * scale / static_cast<double>(granule);
  return std::max<std::int64_t>(1, std::llround(granules)) * granule;
}

// The largest scale that fits, or a tiny one if no scale fits. Found by search, because sizes are rounded.
template <class Fits>
double largest_scale(const Fits& fits) {
  double low = 0x1p-24;
  double high = 0x1p40;
  for (int i = 0; i < 100; ++i) {
    const double middle = std::sqrt(low * high);
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

tl::unexpected<Error> too_large(std::uint64_t bytes) {
  return fail(
      Error(ErrorCode::size_overflow, "size_fits_63_bits",
            fmt::format("a model of {} bytes has more bytes or elements than 63 bits can count", bytes))
          .with_hint("choose a smaller --size"));
}

Transformer scaled(Transformer model, double scale) {
  for (auto* size : {&model.hidden, &model.intermediate, &model.keys, &model.vocabulary})
    *size = scaled_size(*size, scale, dense_granule);
  return model;
}

double elements_of(const Transformer& model) {
  const auto as_double = [](std::int64_t n) { return static_cast<double>(n); };
  const double hidden = as_double(model.hidden);
  const double network = 3 * hidden * as_double(model.intermediate);
  const double networks = model.experts == 0 ? network : as_double(model.experts) * (network + hidden);
  const double layer = 2 * hidden * hidden + 2 * as_double(model.keys) * hidden + 2 * hidden + networks;
  return as_double(model.layers) * layer + (model.tied ? 1 : 2) * as_double(model.vocabulary) * hidden +
         hidden;
}

// The tensors of a model under the names that Hugging Face gives them, all of one dtype.
std::vector<PlannedTensor> tensors_of(const Transformer& model, const StorageType& type) {
  std::vector<PlannedTensor> tensors;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> dims) {
    const bool is_norm = dims.size() == 1;
    tensors.push_back({name + ".weight",
                       std::move(dims),
                       type,
                       {.scale = is_norm ? 1.0F : model.weight_scale, .has_mean_one = is_norm}});
  };
  const auto add_network = [&](const std::string& prefix) {
    add(prefix + ".gate_proj", {model.intermediate, model.hidden});
    add(prefix + ".up_proj", {model.intermediate, model.hidden});
    add(prefix + ".down_proj", {model.hidden, model.intermediate});
  };
  add("model.embed_tokens", {model.vocabulary, model.hidden});
  for (std::int64_t i = 0; i < model.layers; ++i) {
    const auto prefix = fmt::format("model.layers.{}", i);
    add(prefix + ".input_layernorm", {model.hidden});
    add(prefix + ".self_attn.q_proj", {model.hidden, model.hidden});
    add(prefix + ".self_attn.k_proj", {model.keys, model.hidden});
    add(prefix + ".self_attn.v_proj", {model.keys, model.hidden});
    add(prefix + ".self_attn.o_proj", {model.hidden, model.hidden});
    add(prefix + ".post_attention_layernorm", {model.hidden});
    if (model.experts == 0) {
      add_network(prefix + ".mlp");
    } else {
      add(prefix + ".mlp.gate", {model.experts, model.hidden});
    }
    for (std::int64_t expert = 0; expert < model.experts; ++expert)
      add_network(fmt::format("{}.mlp.experts.{}", prefix, expert));
  }
  add("model.norm", {model.hidden});
  if (!model.tied) add("lm_head", {model.vocabulary, model.hidden});
  return tensors;
}

// The config.json of Transformers, with the keys that a forward pass needs.
std::string config_of(const Transformer& model, const DTypeInfo& dtype) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> torch_names{
      {{"F32", "float32"}, {"BF16", "bfloat16"}, {"F16", "float16"}, {"F64", "float64"}}};
  const auto* const torch = std::ranges::find(torch_names, dtype.name, [](const auto& p) { return p.first; });
  return fmt::format(
      R"({{
  "architectures": ["LlamaForCausalLM"],
  "attention_bias": false,
  "head_dim": {},
  "hidden_act": "silu",
  "hidden_size": {},
  "intermediate_size": {},
  "max_position_embeddings": 131072,
  "model_type": "llama",
  "num_attention_heads": {},
  "num_hidden_layers": {},
  "num_key_value_heads": {},
  "rms_norm_eps": 1e-05,
  "rope_scaling": {{
    "factor": {:.1f},
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3"
  }},
  "rope_theta": {:.1f},
  "tie_word_embeddings": {},
  "torch_dtype": "{}",
  "vocab_size": {}
}}
)",
      model.hidden / model.heads, model.hidden, model.intermediate, model.heads, model.layers,
      model.key_heads, model.rope_factor, rope_base, model.tied,
      torch == torch_names.end() ? "float32" : torch->second, model.vocabulary);
}

Result<Plan> transformer_of(const Transformer& model, const DTypeInfo& dtype,
                            std::optional<std::uint64_t> bytes) {
  if (!bytes)
    return Plan{.tensors = tensors_of(model, storage_type_of(dtype)), .config = config_of(model, dtype)};
  const double elements = static_cast<double>(*bytes) * 8 / dtype.bits;
  // Far enough below the limit that rounding a size up does not exceed it.
  if (*bytes > INT64_MAX || elements > 0x1p62) return too_large(*bytes);
  const auto fits = [&](double scale) { return elements_of(scaled(model, scale)) <= elements; };
  return Plan{tensors_of(scaled(model, largest_scale(fits)), storage_type_of(dtype))};
}

// A matrix of about that many bytes. The number of columns is a power of two; the number of rows is less than
// four times as large.
Result<Plan> matrix_of(std::uint64_t bytes, const DTypeInfo& dtype, const std::string& name) {
  const auto width = static_cast<std::uint64_t>(dtype.bits);
  const auto whole = checked::multiply(bytes / width, 8);
  const auto requested = whole ? checked::add(*whole, bytes % width * 8 / width) : std::nullopt;
  if (!requested || *requested > INT64_MAX || bytes > INT64_MAX) return too_large(bytes);
  const std::uint64_t elements = std::max<std::uint64_t>(*requested, 1);
  std::uint64_t columns = std::uint64_t{1} << ((63 - std::countl_zero(elements)) / 2);
  // Most formats require whole bytes.
  if (dtype.bits % 8 != 0) columns = std::max<std::uint64_t>(columns, 8);
  const std::uint64_t rows = std::max<std::uint64_t>(elements / columns, 1);
  return Plan{{{name,
                {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)},
                storage_type_of(dtype)}}};
}

constexpr std::string_view quantized_preset = "llama-1b-q4_k_m";

Result<DTypeInfo> dtype_of(std::string_view name) {
  if (const auto dtype = find_dtype(name)) return *dtype;
  return fail(
      Error(ErrorCode::bad_dtype, "dtype_name_is_known", fmt::format("'{}' is not a dtype", name))
          .with_hint("use a dtype of safetensors: F32, BF16, F8_E4M3, I8, BOOL, …; Q8_0 and Q4_K_M need "
                     "--preset llama-tiny and a .gguf or .irpa file"));
}

// A Llama for llama.cpp: tensors under GGUF's names, and metadata.

// llama.cpp's types for weights: the type of most matrices, the type of matrices that need more bits, and the
// value of general.file_type for both.
struct FileType {
  std::string_view name;
  StorageType usual;
  StorageType finer;
  std::optional<std::uint32_t> number;
};

FileType q4_k_m() { return {"Q4_K_M", storage_type_of("Q4_K"), storage_type_of("Q6_K"), 15}; }

// Divisors of the rotary frequencies in Llama 3.1 and later: the factor for low ones, 1 for high ones.
std::vector<float> rope_factors(const Transformer& model) {
  constexpr double trained = 8192;
  constexpr double low = 1;
  constexpr double high = 4;
  const std::int64_t pairs = model.hidden / model.heads / 2;
  std::vector<float> factors;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const double turns = trained / (2 * 3.141592653589793) *
                         std::pow(rope_base, -static_cast<double>(i) / static_cast<double>(pairs));
    const double smooth = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    factors.push_back(
        static_cast<float>(1 / ((1 - smooth) / static_cast<double>(model.rope_factor) + smooth)));
  }
  return factors;
}

// Rows of K encodings consist of blocks of 256 elements.
constexpr std::int64_t block = 256;

// llama.cpp's `use_more_bits`: the first and last eighth of the layers and every third between them.
bool has_more_bits(std::int64_t layer, std::int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

std::vector<PlannedTensor> tensors_of_gguf(const Transformer& model, const FileType& types) {
  const StorageType f32 = storage_type_of(dtype_info<F32>());
  std::vector<PlannedTensor> tensors;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> dims, const StorageType& type) {
    tensors.push_back({name + ".weight", std::move(dims), type, {.scale = model.weight_scale}});
  };
  const auto add_norm = [&](const std::string& name) {
    tensors.push_back({name + ".weight", {model.hidden}, f32, {.has_mean_one = true}});
  };
  tensors.push_back(
      {"rope_freqs.weight", {model.hidden / model.heads / 2}, f32, {.exact = rope_factors(model)}});
  // If the embedding is also the output layer, it has more bits.
  add("token_embd", {model.vocabulary, model.hidden}, model.tied ? types.finer : types.usual);
  for (std::int64_t i = 0; i < model.layers; ++i) {
    const auto prefix = fmt::format("blk.{}.", i);
    const StorageType& finer = has_more_bits(i, model.layers) ? types.finer : types.usual;
    add_norm(prefix + "attn_norm");
    add(prefix + "ffn_down", {model.hidden, model.intermediate}, finer);
    add(prefix + "ffn_gate", {model.intermediate, model.hidden}, types.usual);
    add(prefix + "ffn_up", {model.intermediate, model.hidden}, types.usual);
    add_norm(prefix + "ffn_norm");
    add(prefix + "attn_k", {model.keys, model.hidden}, types.usual);
    add(prefix + "attn_output", {model.hidden, model.hidden}, types.usual);
    add(prefix + "attn_q", {model.hidden, model.hidden}, types.usual);
    add(prefix + "attn_v", {model.keys, model.hidden}, finer);
  }
  add_norm("output_norm");
  if (!model.tied) add("output", {model.vocabulary, model.hidden}, types.finer);
  return tensors;
}

// The bytes of all tensors; a double, because the sum may exceed 64 bits.
double approximate_bytes(const std::vector<PlannedTensor>& tensors) {
  double sum = 0;
  for (const auto& tensor : tensors) {
    double bytes = static_cast<double>(tensor.type.group_bytes);
    for (const auto dim : tensor.dims) bytes *= static_cast<double>(dim);
    sum += bytes / static_cast<double>(tensor.type.group_elements);
  }
  return sum;
}

Transformer scaled_blocks(double scale) {
  constexpr Transformer full = transformers[0];
  Transformer model = full;
  model.hidden = scaled_size(full.hidden, scale, block);
  model.intermediate = scaled_size(full.intermediate, scale, block);
  model.keys = model.hidden / model.heads * model.key_heads;
  // Larger models of a family have the same vocabulary. Scaling it up would fill the metadata.
  model.vocabulary = scaled_size(full.vocabulary, std::min(scale, 1.0), 8);
  return model;
}

Transformer fitted(double bytes) {
  const auto fits = [&](const Transformer& model) {
    return approximate_bytes(tensors_of_gguf(model, q4_k_m())) <= bytes;
  };
  Transformer model = scaled_blocks(largest_scale([&](double scale) { return fits(scaled_blocks(scale)); }));
  // A layer of whole blocks has at least 200 KB, so a small model has fewer layers.
  while (model.layers > 1 && !fits(model)) --model.layers;
  // Rows are whole blocks, so the model may be much smaller than `bytes`. Enlarges the other dimensions to
  // use the rest.
  const auto with_same_rows = [&](double scale) {
    Transformer other = scaled_blocks(scale);
    other.layers = model.layers;
    other.hidden = model.hidden;
    other.keys = model.keys;
    return other;
  };
  return with_same_rows(largest_scale([&](double scale) { return fits(with_same_rows(scale)); }));
}

// The bytes of an array in GGUF's encoding: type, count, elements.
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

// A word of synthetic syllables. Shorter words have smaller numbers, so each word is an earlier word plus one
// syllable, like the tokens of byte pair encoding.
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

// Every second token is the beginning of a word and starts with this character, which stands for the space
// before the word (byte pair encoding).
constexpr std::string_view space = "\u0120";

// Token types of GGUF.
constexpr std::int32_t normal_token = 1;
constexpr std::int32_t control_token = 3;

// 256 of 128256 as in Llama 3, and at least the tokens for the start and the end of a text.
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

// The metadata with the keys and types that llama.cpp writes: the dimensions of the model, and a synthetic
// vocabulary.
Result<Metadata> llama_metadata(const Transformer& model, const FileType& types) {
  const bool is_tiny = model.preset == tiny_preset;
  const auto u32 = [](std::int64_t size) { return static_cast<std::uint32_t>(size); };
  Metadata metadata;
  HT_TRY(metadata.add("general.architecture", "llama"));
  HT_TRY(metadata.add("general.type", "model"));
  HT_TRY(metadata.add("general.name", is_tiny ? "Llama tiny, made up" : "Llama 3.2 1B, made up"));
  HT_TRY(metadata.add("general.basename", is_tiny ? "Llama-tiny" : "Llama-3.2"));
  HT_TRY(metadata.add("general.size_label", is_tiny ? "1.4M" : "1B"));
  HT_TRY(metadata.add("llama.block_count", u32(model.layers)));
  HT_TRY(metadata.add("llama.context_length", std::uint32_t{131072}));
  HT_TRY(metadata.add("llama.embedding_length", u32(model.hidden)));
  HT_TRY(metadata.add("llama.feed_forward_length", u32(model.intermediate)));
  HT_TRY(metadata.add("llama.attention.head_count", u32(model.heads)));
  HT_TRY(metadata.add("llama.attention.head_count_kv", u32(model.key_heads)));
  HT_TRY(metadata.add("llama.rope.freq_base", static_cast<float>(rope_base)));
  HT_TRY(metadata.add("llama.attention.layer_norm_rms_epsilon", 1e-5F));
  HT_TRY(metadata.add("llama.attention.key_length", u32(model.hidden / model.heads)));
  HT_TRY(metadata.add("llama.attention.value_length", u32(model.hidden / model.heads)));
  if (types.number) HT_TRY(metadata.add("general.file_type", *types.number));
  HT_TRY(metadata.add("llama.vocab_size", u32(model.vocabulary)));
  HT_TRY(metadata.add("llama.rope.dimension_count", u32(model.hidden / model.heads)));
  HT_TRY(add_vocabulary(metadata, static_cast<std::uint64_t>(model.vocabulary)));
  HT_TRY(metadata.add("general.quantization_version", std::uint32_t{2}));
  return metadata;
}

Result<Plan> quantized_llama(std::optional<std::uint64_t> bytes) {
  // A byte holds fewer than two elements, so their number fits in 62 bits.
  if (bytes > std::uint64_t{1} << 61) return too_large(*bytes);
  const Transformer model = bytes ? fitted(static_cast<double>(*bytes)) : transformers[0];
  auto metadata = HT_TRY(llama_metadata(model, q4_k_m()));
  return Plan{tensors_of_gguf(model, q4_k_m()), std::move(metadata)};
}

Result<FileType> file_type_of(std::string_view name) {
  if (name == "Q4_K_M") return q4_k_m();
  if (name == "Q8_0") return FileType{"Q8_0", storage_type_of(name), storage_type_of(name), 7};
  const auto dtype = HT_TRY(dtype_of(name));
  const auto stored = storage_type_of(dtype);
  const bool is_f32 = dtype.tag == F32::tag;
  const bool is_f16 = dtype.tag == F16::tag;
  const bool is_bf16 = dtype.tag == BF16::tag;
  const auto number = is_f32 ? std::optional(0U) : is_f16 ? std::optional(1U) : std::nullopt;
  return FileType{dtype.name, stored, stored, is_bf16 ? std::optional(32U) : number};
}

// The tensors and metadata that llama.cpp expects.
Result<Plan> tiny_llama(std::string_view dtype) {
  const auto types = HT_TRY(file_type_of(dtype.empty() ? "F32" : dtype));
  const auto& model = *std::ranges::find(transformers, tiny_preset, &Transformer::preset);
  auto metadata = HT_TRY(llama_metadata(model, types));
  return Plan{.tensors = tensors_of_gguf(model, types),
              .metadata = std::move(metadata),
              .config = config_of(model, dtype_info<F32>())};
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names{"matrix"};
  for (const auto& model : transformers) names.emplace_back(model.preset);
  names.emplace_back(quantized_preset);
  return names;
}

bool has_config(std::string_view preset) {
  const auto* const model = std::ranges::find(transformers, preset, &Transformer::preset);
  return model != transformers.end() && model->experts == 0;
}

bool has_fixed_size(std::string_view preset) { return preset == tiny_preset; }

bool has_fixed_types(std::string_view preset) { return preset == quantized_preset; }

Result<Plan> plan_of(std::string_view preset, std::string_view dtype_name, std::optional<std::uint64_t> bytes,
                     const std::string& stem, bool has_metadata) {
  if (has_fixed_types(preset)) return quantized_llama(bytes);
  if (preset == tiny_preset && has_metadata) return tiny_llama(dtype_name);
  constexpr std::uint64_t default_matrix_bytes = std::uint64_t{1} << 20;
  const auto* model = std::ranges::find(transformers, preset, &Transformer::preset);
  const bool is_matrix = model == transformers.end();
  const std::string_view default_dtype = is_matrix || preset == tiny_preset ? "F32" : "BF16";
  const auto dtype = HT_TRY(dtype_of(dtype_name.empty() ? default_dtype : dtype_name));
  if (is_matrix) return matrix_of(bytes.value_or(default_matrix_bytes), dtype, stem);
  return transformer_of(*model, dtype, bytes);
}

}  // namespace ht::cli
