#include "cli/synth_presets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <htensor/base/checked.hpp>

#include "cli/text.hpp"

namespace ht::cli {
namespace {

// A transformer by its sizes.
struct Transformer {
  std::string_view preset;
  std::int64_t layers;
  std::int64_t hidden;
  std::int64_t intermediate;
  std::int64_t keys;  // what keys and values have in all heads
  std::int64_t vocabulary;
  std::int64_t experts;  // 0 where there is one dense network
  bool tied;             // whether the embedding is the output layer, too
};

// Experts of the last are small, so that the many tensors are 2 GB in all.
constexpr std::array transformers{
    Transformer{"llama-1b", 16, 2048, 8192, 512, 128256, 0, true},
    Transformer{"llama-8b", 32, 4096, 14336, 1024, 128256, 0, false},
    Transformer{"moe-60k", 52, 256, 64, 64, 32000, 384, false},
};

tl::unexpected<Error> too_large(std::uint64_t bytes) {
  return fail(
      Error(ErrorCode::size_overflow, "size_fits_63_bits",
            fmt::format("a model of {} bytes has more bytes or elements than 63 bits can count", bytes))
          .with_hint("ask for less"));
}

// Whole groups of eight elements, which are whole bytes in every dtype.
std::int64_t scaled(std::int64_t size, double scale) {
  return std::max<std::int64_t>(8, std::llround(static_cast<double>(size) * scale / 8) * 8);
}

Transformer scaled(Transformer model, double scale) {
  for (auto* size : {&model.hidden, &model.intermediate, &model.keys, &model.vocabulary})
    *size = scaled(*size, scale);
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

// All sizes grow by one factor, which is looked for: rounding makes it another than the square root.
double scale_for(const Transformer& model, double elements) {
  double low = 0x1p-24;
  double high = 0x1p40;
  for (int i = 0; i < 100; ++i) {
    const double middle = std::sqrt(low * high);
    (elements_of(scaled(model, middle)) <= elements ? low : high) = middle;
  }
  return low;
}

void add_network(std::vector<PlannedTensor>& plan, const std::string& prefix, const Transformer& model) {
  plan.push_back({prefix + ".gate_proj.weight", {model.intermediate, model.hidden}});
  plan.push_back({prefix + ".up_proj.weight", {model.intermediate, model.hidden}});
  plan.push_back({prefix + ".down_proj.weight", {model.hidden, model.intermediate}});
}

void add_layer(std::vector<PlannedTensor>& plan, std::int64_t number, const Transformer& model) {
  const std::string prefix = fmt::format("model.layers.{}", number);
  plan.push_back({prefix + ".input_layernorm.weight", {model.hidden}});
  plan.push_back({prefix + ".self_attn.q_proj.weight", {model.hidden, model.hidden}});
  plan.push_back({prefix + ".self_attn.k_proj.weight", {model.keys, model.hidden}});
  plan.push_back({prefix + ".self_attn.v_proj.weight", {model.keys, model.hidden}});
  plan.push_back({prefix + ".self_attn.o_proj.weight", {model.hidden, model.hidden}});
  plan.push_back({prefix + ".post_attention_layernorm.weight", {model.hidden}});
  if (model.experts == 0) return add_network(plan, prefix + ".mlp", model);
  plan.push_back({prefix + ".mlp.gate.weight", {model.experts, model.hidden}});
  for (std::int64_t expert = 0; expert < model.experts; ++expert)
    add_network(plan, fmt::format("{}.mlp.experts.{}", prefix, expert), model);
}

std::vector<PlannedTensor> tensors_of(const Transformer& model) {
  std::vector<PlannedTensor> plan;
  plan.push_back({"model.embed_tokens.weight", {model.vocabulary, model.hidden}});
  for (std::int64_t i = 0; i < model.layers; ++i) add_layer(plan, i, model);
  plan.push_back({"model.norm.weight", {model.hidden}});
  if (!model.tied) plan.push_back({"lm_head.weight", {model.vocabulary, model.hidden}});
  return plan;
}

/// A matrix of about that many bytes, its sides within a factor of two of each other.
Result<std::vector<PlannedTensor>> matrix_of(std::uint64_t bytes, int bits, const std::string& name) {
  const auto width = static_cast<std::uint64_t>(bits);
  const auto whole = checked::multiply(bytes / width, 8);
  const auto wanted = whole ? checked::add(*whole, bytes % width * 8 / width) : std::nullopt;
  if (!wanted || *wanted > INT64_MAX || bytes > INT64_MAX) return too_large(bytes);
  const std::uint64_t elements = std::max<std::uint64_t>(*wanted, 1);
  std::uint64_t columns = std::uint64_t{1} << ((63 - std::countl_zero(elements)) / 2);
  // Most formats want whole bytes.
  if (bits % 8 != 0) columns = std::max<std::uint64_t>(columns, 8);
  const std::uint64_t rows = std::max<std::uint64_t>(elements / columns, 1);
  return std::vector{
      PlannedTensor{name, {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)}}};
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names{"matrix"};
  for (const auto& model : transformers) names.emplace_back(model.preset);
  return names;
}

std::string_view usual_dtype(std::string_view preset) { return preset == "matrix" ? "F32" : "BF16"; }

Result<std::vector<PlannedTensor>> plan_of(std::string_view preset, const DTypeInfo& dtype,
                                           std::optional<std::uint64_t> bytes, const std::string& stem) {
  constexpr std::uint64_t usual_matrix = std::uint64_t{1} << 20;
  const auto* model = std::ranges::find(transformers, preset, &Transformer::preset);
  if (model == transformers.end()) return matrix_of(bytes.value_or(usual_matrix), dtype.bits, stem);
  if (!bytes) return tensors_of(*model);
  const double elements = static_cast<double>(*bytes) * 8 / dtype.bits;
  // Far enough from the border that rounding a size up does not cross it.
  if (*bytes > INT64_MAX || elements > 0x1p62) return too_large(*bytes);
  return tensors_of(scaled(*model, scale_for(*model, elements)));
}

}  // namespace ht::cli
