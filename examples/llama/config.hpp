// The dimensions of a Llama: from GGUF metadata, or from the config.json next to safetensors.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <htensor/htensor.hpp>
#include <numbers>
#include <string>
#include <vector>

namespace llama {

struct Config {
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;  // groups of heads share keys and values
  std::int64_t head_size = 0;
  double epsilon = 1e-5;
  ht::RopeOptions rope{};
  std::vector<double> rope_factors{};  // divisors of the rotary frequencies; empty: all 1
  bool is_gguf = false;                // selects the tensor names
};

/// Finds values of config.json by key, at any nesting level; the keys of a Llama are unique.
struct Json {
  std::string all;

  /// Returns the text starting at a value; empty if the key is missing.
  [[nodiscard]] std::string_view text(std::string_view key) const {
    const auto quoted = '"' + std::string(key) + '"';
    const auto at = all.find(quoted);
    if (at == std::string::npos) return {};
    const auto value = all.find_first_not_of(": \t\n", at + quoted.size());
    return value == std::string::npos ? std::string_view() : std::string_view(all).substr(value);
  }
  [[nodiscard]] std::optional<double> number(std::string_view key) const {
    double value = 0;
    const auto found = text(key);
    const auto end = std::from_chars(found.data(), found.data() + found.size(), value).ptr;
    return end == found.data() ? std::nullopt : std::optional(value);
  }
};

/// Llama 3.1 and later lower the frequencies of pairs that rotate less than `high` times in the original
/// training context.
inline std::vector<double> llama3_factors(const Json& json, const Config& config) {
  const double trained = json.number("original_max_position_embeddings").value_or(8192);
  const double low = json.number("low_freq_factor").value_or(1);
  const double high = json.number("high_freq_factor").value_or(4);
  const double factor = json.number("factor").value_or(8);
  std::vector<double> factors;
  for (std::int64_t i = 0; i < config.head_size / 2; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(config.head_size);
    const double rotations = trained * std::pow(config.rope.base, exponent) / (2 * std::numbers::pi);
    const double smooth = std::clamp((rotations - low) / (high - low), 0.0, 1.0);
    factors.push_back(1 / ((1 - smooth) / factor + smooth));
  }
  return factors;
}

inline ht::Result<Config> config_of(const ht::Model& model) {
  Config config{.is_gguf = model.find("token_embd.weight").has_value()};
  const auto& metadata = model.catalog().metadata();
  std::ifstream file(model.files().front().parent_path() / "config.json");
  const Json json{config.is_gguf ? "" : std::string(std::istreambuf_iterator<char>(file), {})};
  const auto real = [&](std::string_view gguf, std::string_view transformers) -> std::optional<double> {
    if (!config.is_gguf) return json.number(transformers);
    const auto value = metadata.find("llama." + std::string(gguf));
    if (!value) return std::nullopt;
    if (const auto whole = value->integer()) return static_cast<double>(*whole);
    return value->real();
  };
  // Dimensions of real models fit 32 bits; others are rejected below.
  const auto size = [&](std::string_view gguf, std::string_view transformers, std::int64_t fallback) {
    const double number = real(gguf, transformers).value_or(static_cast<double>(fallback));
    return number >= 0 && number < 0x1p31 ? static_cast<std::int64_t>(number) : std::int64_t{-1};
  };
  config.layers = size("block_count", "num_hidden_layers", 0);
  config.heads = size("attention.head_count", "num_attention_heads", 0);
  const std::int64_t hidden = size("embedding_length", "hidden_size", 0);
  config.key_heads = size("attention.head_count_kv", "num_key_value_heads", config.heads);
  const auto scaling = metadata.find("llama.rope.scaling.type");
  const auto is_llama3 = json.text("rope_type").starts_with("\"llama3\"");
  const bool has_other_scaling = config.is_gguf ? scaling && scaling->text() != "none"
                                                : !is_llama3 && json.text("rope_scaling").starts_with("{");
  if (config.heads <= 0 || config.key_heads <= 0 || config.heads % config.key_heads != 0 || hidden <= 0 ||
      config.layers <= 0 || has_other_scaling ||
      (!config.is_gguf && !json.text("model_type").starts_with("\"llama\""))) {
    return ht::fail(
        ht::Error(ht::ErrorCode::bad_header, "config_describes_a_llama",
                  has_other_scaling ? "this scaling of rotary frequencies is not supported"
                                    : "metadata or config.json does not have the sizes of a Llama")
            .at_path(model.files().front().string())
            .with_hint(has_other_scaling
                           ? "use a Llama without this scaling, or with the rope type llama3"
                           : "use a GGUF file of a Llama, or put its config.json beside the safetensors"));
  }
  config.head_size = size("attention.key_length", "head_dim", hidden / config.heads);
  config.epsilon = real("attention.layer_norm_rms_epsilon", "rms_norm_eps").value_or(1e-5);
  // The two elements of a rotated pair are half a head apart in Transformers and adjacent in llama.cpp.
  config.rope = {
      .pairs = config.is_gguf ? ht::RopeOptions::Pairs::interleaved : ht::RopeOptions::Pairs::halves,
      .base = real("rope.freq_base", "rope_theta").value_or(10000),
      .rotated_elements = size("rope.dimension_count", "", 0)};
  if (is_llama3) config.rope_factors = llama3_factors(json, config);
  if (!model.find("rope_freqs.weight")) return config;
  const auto factors = HT_TRY(HT_TRY(model["rope_freqs.weight"]).cast<ht::F64>());
  config.rope_factors.assign(factors.begin(), factors.end());
  return config;
}

}  // namespace llama
