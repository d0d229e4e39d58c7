#include "cli/synth_llama.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "cli/synth_llama_metadata.hpp"

namespace ht::cli {
namespace {

// Rows of K encodings are cut into blocks of 256 elements.
constexpr std::int64_t block = 256;

// llama.cpp's `use_more_bits`: the first and last eighth of the layers and every third between them.
bool has_more_bits(std::int64_t layer, std::int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

StoredAs blocks_of(std::string_view name) { return stored_as(find_encoding(name).value_or(Encoding{})); }

class Tensors {
 public:
  explicit Tensors(const LlamaSizes& model) : model_(model) {}

  std::vector<PlannedTensor> all() && {
    add("rope_freqs", {model_.head() / 2}, f32_);
    // The output layer is this one, too, which is why it has more bits.
    add("token_embd", {model_.vocabulary, model_.hidden}, q6_k_);
    for (std::int64_t i = 0; i < model_.layers; ++i)
      add_layer(fmt::format("blk.{}.", i), has_more_bits(i, model_.layers) ? q6_k_ : q4_k_);
    add("output_norm", {model_.hidden}, f32_);
    return std::move(tensors_);
  }

 private:
  void add(std::string_view name, std::vector<std::int64_t> dims, const StoredAs& type) {
    tensors_.push_back({fmt::format("{}.weight", name), std::move(dims), type});
  }

  void add_layer(const std::string& prefix, const StoredAs& finer) {
    add(prefix + "attn_norm", {model_.hidden}, f32_);
    add(prefix + "ffn_down", {model_.hidden, model_.intermediate}, finer);
    add(prefix + "ffn_gate", {model_.intermediate, model_.hidden}, q4_k_);
    add(prefix + "ffn_up", {model_.intermediate, model_.hidden}, q4_k_);
    add(prefix + "ffn_norm", {model_.hidden}, f32_);
    add(prefix + "attn_k", {model_.keys(), model_.hidden}, q4_k_);
    add(prefix + "attn_output", {model_.hidden, model_.hidden}, q4_k_);
    add(prefix + "attn_q", {model_.hidden, model_.hidden}, q4_k_);
    add(prefix + "attn_v", {model_.keys(), model_.hidden}, finer);
  }

  LlamaSizes model_;
  StoredAs f32_ = stored_as(dtype_info<F32>());
  StoredAs q4_k_ = blocks_of("Q4_K");
  StoredAs q6_k_ = blocks_of("Q6_K");
  std::vector<PlannedTensor> tensors_;
};

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
  const auto fits = [&](const LlamaSizes& model) { return about_bytes(Tensors(model).all()) <= bytes; };
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

}  // namespace

Result<Plan> quantized_llama(std::optional<std::uint64_t> bytes) {
  // A byte has less than two elements, so 62 bits can count them.
  if (bytes > std::uint64_t{1} << 61) return too_large(*bytes);
  const LlamaSizes model = bytes ? fitted(static_cast<double>(*bytes)) : LlamaSizes{};
  auto metadata = HT_TRY(llama_metadata(model));
  return Plan{Tensors(model).all(), std::move(metadata)};
}

}  // namespace ht::cli
