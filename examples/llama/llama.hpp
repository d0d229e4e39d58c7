// A complete Llama: RMS norm, rotary embedding, grouped-query attention with a cache, SwiGLU. D is the dtype
// of activations, Dev the device. On the host, weights of any dtype or encoding are read where the file is
// mapped; on another device they are cast to D and copied there once.
#pragma once

#include <array>
#include <cmath>
#include <concepts>
#include <htensor/htensor.hpp>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config.hpp"

namespace llama {

template <class Dev>
inline constexpr bool is_host = std::same_as<Dev, ht::Host>;

template <class D, class Dev>
struct Llama {
  using Vector = ht::Tensor<D, ht::Rank<1>, Dev>;
  using Vectors = ht::Tensor<D, ht::Rank<2>, Dev>;
  using Heads = ht::Tensor<D, ht::Rank<3>, Dev>;
  using Mask = ht::Tensor<D, ht::Rank<4>, Dev>;
  /// Weights [out, in] of a linear layer.
  using Matrix = std::conditional_t<is_host<Dev>, ht::AnyTensor, Vectors>;

  struct Layer {
    Vector attention_norm;
    Matrix q, k, v, out;
    Vector ffn_norm;
    Matrix gate, up, down;
    Heads keys, values;  // [key heads, tokens, head size]
  };

  Config config;
  ht::LinearOptions options;
  ht::AnyTensor table;  // the embedding; its rows are read on the host
  Vector output_norm;
  Matrix output;
  std::vector<Layer> layers{};
  std::int64_t past = 0;           // tokens in the cache
  std::uint64_t weight_bytes = 0;  // of the matrices, all of which are read for each token

  /// Opens a model with a cache for `max_tokens` tokens.
  static ht::Result<Llama> open(const ht::Model& model, std::int64_t max_tokens,
                                const ht::LinearOptions& options = {}) {
    const auto config = HT_TRY(config_of(model));
    const auto named = [&](std::string_view gguf, std::string_view transformers) {
      return model[config.is_gguf ? gguf : transformers];
    };
    const auto table = HT_TRY(named("token_embd.weight", "model.embed_tokens.weight"));
    // Small models share one matrix for embedding and output.
    const std::string_view last_name = config.is_gguf ? "output.weight" : "lm_head.weight";
    const auto output = model.find(last_name) ? HT_TRY(model[last_name]) : table;
    const auto norm = HT_TRY(vector_of(HT_TRY(named("output_norm.weight", "model.norm.weight"))));
    const auto last = HT_TRY(matrix_of(output));
    Llama llama{config, options, table, norm, last};
    llama.weight_bytes = output.byte_size();
    for (std::int64_t i = 0; i < llama.config.layers; ++i) HT_TRY(llama.add_layer(model, i, max_tokens));
    return llama;
  }

  /// Processes the next tokens of the text. Returns the logits [1, vocabulary] of the token after the last
  /// id; with `all_ids`, the logits [ids, vocabulary] of the token after each id.
  ht::Result<ht::Tensor<D, ht::Rank<2>>> logits(std::span<const std::int32_t> ids, bool all_ids = false) {
    const auto count = static_cast<std::int64_t>(ids.size());
    auto x = HT_TRY(ht::to_device<Dev>(HT_TRY(ht::embedding<D>(table, ids))));
    const auto mask = HT_TRY(causal_mask(count));
    for (auto& layer : layers) {
      const auto a = HT_TRY(ht::rms_norm(x, layer.attention_norm, config.epsilon));
      HT_TRY(ht::add_into(x, HT_TRY(attention(layer, a, mask))));
      const auto f = HT_TRY(ht::rms_norm(x, layer.ffn_norm, config.epsilon));
      const auto [gate, up] = HT_TRY(ht::linear(f, std::array{layer.gate, layer.up}, options));
      HT_TRY(ht::add_into(x, HT_TRY(ht::linear(HT_TRY(ht::swiglu(gate, up)), layer.down, options))));
    }
    past += count;
    if (!all_ids) x = HT_TRY(x.template slice<0>(count - 1, count));
    const auto last = HT_TRY(ht::rms_norm(x, output_norm, config.epsilon));
    return ht::to_host(HT_TRY(ht::linear(last, output, options)));
  }

  static ht::Result<Vector> vector_of(const ht::AnyTensor& stored) {
    return ht::to_device<Dev>(HT_TRY(stored.cast<D>()));
  }

  static ht::Result<Matrix> matrix_of(const ht::AnyTensor& stored) {
    if constexpr (is_host<Dev>) {
      return stored;
    } else {
      const auto shape = HT_TRY(ht::Rank<2>::from(stored.dims()));
      return ht::to_device<Dev>(HT_TRY(HT_TRY(stored.cast<D>()).reshape(shape)));
    }
  }

  ht::Result<void> add_layer(const ht::Model& model, std::int64_t i, std::int64_t max_tokens) {
    const auto stored = [&](std::string_view gguf, std::string_view transformers) {
      const std::string prefix = (config.is_gguf ? "blk." : "model.layers.") + std::to_string(i) + '.';
      return model[prefix + std::string(config.is_gguf ? gguf : transformers) + ".weight"];
    };
    const auto matrix = [&](std::string_view gguf, std::string_view transformers) -> ht::Result<Matrix> {
      const auto found = HT_TRY(stored(gguf, transformers));
      weight_bytes += found.byte_size();
      return matrix_of(found);
    };
    const ht::Rank<3> shape(config.key_heads, max_tokens, config.head_size);
    const auto attention_norm = HT_TRY(vector_of(HT_TRY(stored("attn_norm", "input_layernorm"))));
    const auto q = HT_TRY(matrix("attn_q", "self_attn.q_proj"));
    const auto k = HT_TRY(matrix("attn_k", "self_attn.k_proj"));
    const auto v = HT_TRY(matrix("attn_v", "self_attn.v_proj"));
    const auto out = HT_TRY(matrix("attn_output", "self_attn.o_proj"));
    const auto ffn_norm = HT_TRY(vector_of(HT_TRY(stored("ffn_norm", "post_attention_layernorm"))));
    const auto gate = HT_TRY(matrix("ffn_gate", "mlp.gate_proj"));
    const auto up = HT_TRY(matrix("ffn_up", "mlp.up_proj"));
    const auto down = HT_TRY(matrix("ffn_down", "mlp.down_proj"));
    const auto keys = HT_TRY(Heads::zeros(shape));
    const auto values = HT_TRY(Heads::zeros(shape));
    layers.push_back({attention_norm, q, k, v, out, ffn_norm, gate, up, down, keys, values});
    return {};
  }

  /// -∞ where a token would attend to a later one: [1, count, 1, past + count].
  ht::Result<Mask> causal_mask(std::int64_t count) const {
    using Element = typename D::Element;
    auto mask = HT_TRY(ht::Tensor<D, ht::Rank<4>>::zeros(ht::Rank<4>(1, count, 1, past + count)));
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t j = i + 1; j < count; ++j)
        mask(0, i, 0, past + j) = -std::numeric_limits<Element>::infinity();
    }
    return ht::to_device<Dev>(mask);
  }

  ht::Result<Vectors> attention(Layer& layer, const Vectors& x, const Mask& mask) {
    const std::int64_t count = x.extent(0);
    const std::int64_t seen = past + count;
    const std::int64_t group = config.heads / config.key_heads;
    const auto [all_q, all_k, all_v] = HT_TRY(ht::linear(x, std::array{layer.q, layer.k, layer.v}, options));
    const auto heads_of = [&](const Vectors& all, std::int64_t heads) {
      return all.reshape(ht::Rank<3>(count, heads, config.head_size));
    };
    auto rotation = config.rope;
    rotation.first_position = past;
    rotation.frequency_factors = config.rope_factors;
    const auto rotated = HT_TRY(ht::rope(HT_TRY(heads_of(all_q, config.heads)), rotation));
    const auto size = static_cast<typename D::Element>(config.head_size);
    const auto q = HT_TRY(ht::scale(rotated, 1 / std::sqrt(size)));
    const auto k = HT_TRY(ht::rope(HT_TRY(heads_of(all_k, config.key_heads)), rotation));
    const auto v = HT_TRY(heads_of(all_v, config.key_heads));
    HT_TRY(ht::copy_into(HT_TRY(layer.keys.template slice<1>(past, seen)), k.template transpose<0, 1>()));
    HT_TRY(ht::copy_into(HT_TRY(layer.values.template slice<1>(past, seen)), v.template transpose<0, 1>()));
    const auto keys = HT_TRY(layer.keys.template slice<1>(0, seen));
    const auto values = HT_TRY(layer.values.template slice<1>(0, seen));
    // The queries of all heads that share keys form one matrix: [key heads, count · group, head size].
    const auto grouped = HT_TRY(q.reshape(ht::Rank<4>(count, config.key_heads, group, config.head_size)));
    const auto by_key = HT_TRY(grouped.template transpose<0, 1>().contiguous());
    const auto queries =
        HT_TRY(by_key.reshape(ht::Rank<3>(config.key_heads, count * group, config.head_size)));
    const auto scores = HT_TRY(ht::matmul(queries, keys.template transpose<1, 2>()));
    if (count > 1) {
      const auto each = HT_TRY(scores.reshape(ht::Rank<4>(config.key_heads, count, group, seen)));
      HT_TRY(ht::add_into(each, HT_TRY(mask.broadcast(each.shape()))));
    }
    const auto mixed = HT_TRY(ht::matmul(HT_TRY(ht::softmax(scores)), values));
    const auto by_token = HT_TRY(mixed.reshape(by_key.shape())).template transpose<0, 1>();
    const auto flat =
        HT_TRY(HT_TRY(by_token.contiguous()).reshape(ht::Rank<2>(count, config.heads * config.head_size)));
    return ht::linear(flat, layer.out, options);
  }
};

}  // namespace llama
