// Runs a Llama from a GGUF file, or from safetensors with a config.json: token ids in, token ids out.
//
//   llama MODEL ID… [--tokens N] [--int8] [--cold] [--one-by-one] [--logits FILE.npy]
#include <charconv>
#include <chrono>
#include <cstdio>
#include <map>
#include <string_view>

#include "example_device.hpp"
#include "llama.hpp"

namespace {

using D = example::DType;
using Dev = example::Device;

struct Options {
  std::string model;
  std::vector<std::int32_t> prompt;
  std::int32_t tokens = 16;
  bool int8 = false;        // rounds activations to int8: faster, see LinearOptions
  bool cold = false;        // drops the file from the page cache first
  bool one_by_one = false;  // processes the prompt token by token instead of in one batch
  std::string logits;       // file for the logits after each token
};

bool parse(std::span<char*> arguments, Options& options) {
  const std::map<std::string_view, bool*> flags{
      {"--int8", &options.int8}, {"--cold", &options.cold}, {"--one-by-one", &options.one_by_one}};
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string_view text = arguments[i];
    if (const auto flag = flags.find(text); flag != flags.end()) {
      *flag->second = true;
    } else if (text == "--logits" && i + 1 < arguments.size()) {
      options.logits = arguments[++i];
    } else if (options.model.empty() && !text.starts_with("--")) {
      options.model = text;
    } else {
      const std::string_view digits = text == "--tokens" && i + 1 < arguments.size() ? arguments[++i] : text;
      std::int32_t number = 0;
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
      if (error != std::errc() || end != digits.data() + digits.size()) return false;
      text == "--tokens" ? options.tokens = number : options.prompt.emplace_back(number);
    }
  }
  return !options.prompt.empty() && options.tokens > 0;
}

ht::Result<void> run(const Options& options) {
  using Seconds = std::chrono::duration<double>;
  if (options.cold) HT_TRY(ht::evict(HT_TRY(ht::Model::open(options.model))));
  const auto start = std::chrono::steady_clock::now();
  const auto model = HT_TRY(ht::Model::open(options.model));
  HT_TRY(ht::prefetch(model));  // sequential reads are faster than page faults
  const auto max_tokens = static_cast<std::int64_t>(options.prompt.size()) + options.tokens;
  auto llama = HT_TRY(llama::Llama<D, Dev>::open(model, max_tokens, {.int8_activations = options.int8}));

  std::vector<D::Element> all;
  std::vector<std::int32_t> ids;
  const auto step = [&](std::span<const std::int32_t> next) -> ht::Result<std::int32_t> {
    const auto logits = HT_TRY(llama.logits(next, !options.logits.empty()));
    if (!options.logits.empty()) all.insert(all.end(), logits.begin(), logits.end());
    const auto best = HT_TRY(ht::argmax(logits));
    return static_cast<std::int32_t>(best(best.extent(0) - 1));
  };
  const std::span prompt(options.prompt);
  const std::size_t batch = options.one_by_one ? 1 : prompt.size();
  for (std::size_t i = 0; i < prompt.size(); i += batch) ids = {HT_TRY(step(prompt.subspan(i, batch)))};
  const auto first = std::chrono::steady_clock::now();
  while (std::ssize(ids) < options.tokens) ids.push_back(HT_TRY(step(std::span(ids).last(1))));
  const double seconds = Seconds(std::chrono::steady_clock::now() - first).count();

  for (const auto token : ids) std::printf("%d ", token);
  std::printf("\nfirst token: %.3f s after opening %s, with a prompt of %zu\n",
              Seconds(first - start).count(), options.cold ? "a cold file" : "the file", prompt.size());
  if (ids.size() > 1) {
    const double rate = static_cast<double>(ids.size() - 1) / seconds;
    const auto bytes = static_cast<double>(llama.weight_bytes);
    std::printf("then: %.1f tokens/s, %.1f GB/s of weights (%.3f GB for each token)\n", rate,
                rate * bytes / 1e9, bytes / 1e9);
  }
  if (options.logits.empty()) return {};
  const auto vocabulary = llama.table.dims().front();
  const ht::Rank<2> shape(std::ssize(all) / vocabulary, vocabulary);
  const auto saved = HT_TRY(ht::to_save("logits", HT_TRY(ht::Tensor<D, ht::Rank<2>>::of(shape, all))));
  HT_TRY(ht::save(options.logits, std::span(&saved, 1), {.apply = {.if_exists = ht::IfExists::replace}}));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(std::span(argv, static_cast<std::size_t>(argc)), options)) {
    std::fputs("usage: llama MODEL ID… [--tokens N] [--int8] [--cold] [--one-by-one] [--logits FILE]\n",
               stderr);
    return 2;
  }
  const auto done = run(options);
  if (done) return 0;
  std::fprintf(stderr, "llama: %s\n", to_string(done.error()).c_str());
  const std::string hint(done.error().hint());
  if (!hint.empty()) std::fprintf(stderr, "hint: %s\n", hint.c_str());
  return 1;
}
