#include "cli/synth_presets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <htensor/base/checked.hpp>
#include <utility>

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

// Whole groups of eight elements, which are whole bytes in every dtype.
constexpr std::int64_t dense_granule = 8;

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
std::vector<PlannedTensor> tensors_of(const Transformer& model, const StoredAs& type) {
  std::vector<PlannedTensor> tensors;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> dims) {
    tensors.push_back({name + ".weight", std::move(dims), type});
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

Result<Plan> transformer_of(const Transformer& model, const DTypeInfo& dtype,
                            std::optional<std::uint64_t> bytes) {
  if (!bytes) return Plan{tensors_of(model, stored_as(dtype))};
  const double elements = static_cast<double>(*bytes) * 8 / dtype.bits;
  // Far enough from the border that rounding a size up does not cross it.
  if (*bytes > INT64_MAX || elements > 0x1p62) return too_large(*bytes);
  const auto fits = [&](double scale) { return elements_of(scaled(model, scale)) <= elements; };
  return Plan{tensors_of(scaled(model, largest_scale(fits)), stored_as(dtype))};
}

// A matrix of about that many bytes, its sides within a factor of two of each other.
Result<Plan> matrix_of(std::uint64_t bytes, const DTypeInfo& dtype, const std::string& name) {
  const auto width = static_cast<std::uint64_t>(dtype.bits);
  const auto whole = checked::multiply(bytes / width, 8);
  const auto wanted = whole ? checked::add(*whole, bytes % width * 8 / width) : std::nullopt;
  if (!wanted || *wanted > INT64_MAX || bytes > INT64_MAX) return too_large(bytes);
  const std::uint64_t elements = std::max<std::uint64_t>(*wanted, 1);
  std::uint64_t columns = std::uint64_t{1} << ((63 - std::countl_zero(elements)) / 2);
  // Most formats want whole bytes.
  if (dtype.bits % 8 != 0) columns = std::max<std::uint64_t>(columns, 8);
  const std::uint64_t rows = std::max<std::uint64_t>(elements / columns, 1);
  return Plan{
      {{name, {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)}, stored_as(dtype)}}};
}

constexpr std::string_view quantized_preset = "llama-1b-q4_k_m";

Result<DTypeInfo> dtype_of(std::string_view name) {
  if (const auto dtype = find_dtype(name)) return *dtype;
  return fail(
      Error(ErrorCode::bad_dtype, "dtype_name_is_known", fmt::format("dtype '{}' does not exist", name))
          .with_hint("use a dtype of safetensors: F32, BF16, F8_E4M3, I8, BOOL, …"));
}

}  // namespace

StoredAs stored_as(const DTypeInfo& dtype) {
  return {.name = dtype.name,
          .dtype = dtype.tag,
          .group_elements = 8,
          .group_bytes = static_cast<std::uint64_t>(dtype.bits)};
}

StoredAs stored_as(const Encoding& encoding) {
  return {.name = encoding.name,
          .encoding = encoding.tag,
          .group_elements = encoding.block_elements,
          .group_bytes = encoding.block_bytes};
}

std::uint64_t StoredAs::bytes_for(std::uint64_t elements) const noexcept {
  const std::uint64_t rest = elements % group_elements * group_bytes;
  return elements / group_elements * group_bytes + (rest + group_elements - 1) / group_elements;
}

std::uint64_t StoredAs::next_group(std::uint64_t element) const noexcept {
  return (element + group_elements - 1) / group_elements * group_elements;
}

std::int64_t scaled_size(std::int64_t size, double scale, std::int64_t granule) {
  const double granules = static_cast<double>(size) * scale / static_cast<double>(granule);
  return std::max<std::int64_t>(1, std::llround(granules)) * granule;
}

double largest_scale(const std::function<bool(double)>& fits) {
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

std::vector<std::string> preset_names() {
  std::vector<std::string> names{"matrix"};
  for (const auto& model : transformers) names.emplace_back(model.preset);
  names.emplace_back(quantized_preset);
  return names;
}

bool has_own_types(std::string_view preset) { return preset == quantized_preset; }

Result<Plan> plan_of(const Wanted& wanted) {
  if (has_own_types(wanted.preset)) return quantized_llama(wanted.bytes);
  constexpr std::uint64_t usual_matrix = std::uint64_t{1} << 20;
  const auto* model = std::ranges::find(transformers, wanted.preset, &Transformer::preset);
  const bool is_matrix = model == transformers.end();
  const std::string_view usual_dtype = is_matrix ? "F32" : "BF16";
  const auto dtype = HT_TRY(dtype_of(wanted.dtype.empty() ? usual_dtype : wanted.dtype));
  if (is_matrix) return matrix_of(wanted.bytes.value_or(usual_matrix), dtype, wanted.stem);
  return transformer_of(*model, dtype, wanted.bytes);
}

}  // namespace ht::cli
