// Classifies the test set of a small model, with weights read in place from the file: `mlp MODEL`.
//
// The type of the weights comes from the file. Dtype and device of the computation come from the build
// (HT_EXAMPLE_DTYPE, HT_EXAMPLE_DEVICE). `train.py` creates the model, and `htensor convert` its other types.
#include <cstdio>
#include <string>

#include "example_device.hpp"
#include "layers/layers.hpp"

namespace {

using D = example::DType;
using Dev = example::Device;

template <class W>
ht::Result<double> measure_accuracy(const ht::Model& model) {
  const auto hidden = HT_TRY(example::Linear<D, Dev, W>::load(model, "hidden"));
  const auto output = HT_TRY(example::Linear<D, Dev, W>::load(model, "output"));

  const auto inputs = HT_TRY(model.tensor<ht::F32, ht::Rank<2>>("test.inputs"));
  const auto x = HT_TRY(ht::to_device<Dev>(HT_TRY(ht::cast<D>(inputs))));
  const auto h = HT_TRY(ht::gelu(HT_TRY(hidden(x))));
  const auto guesses = HT_TRY(ht::to_host(HT_TRY(ht::argmax(HT_TRY(output(h))))));

  const auto labels = HT_TRY(model.tensor<ht::I64, ht::Rank<1>>("test.labels"));
  HT_TRY(ht::layout::check_equal(guesses.shape().extents(), labels.shape().extents()));
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < guesses.extent(0); ++i) right += guesses(i) == labels(i) ? 1 : 0;
  return static_cast<double>(right) / static_cast<double>(guesses.extent(0));
}

ht::Result<void> run(const char* path) {
  const auto model = HT_TRY(ht::Model::open(path));
  const auto type = HT_TRY(model["hidden.weight"]).type().name;
  const double accuracy = HT_TRY(type == "BF16"   ? measure_accuracy<ht::BF16>(model)
                                 : type == "Q8_0" ? measure_accuracy<ht::Q8_0>(model)
                                                  : measure_accuracy<ht::F32>(model));
  std::printf("%s: %.*s weights, %s on %s, accuracy %.4f\n", path, static_cast<int>(type.size()), type.data(),
              D::name.data(), std::string(Dev::name).c_str(), accuracy);
  return {};
}

}  // namespace

int main(int count, char** arguments) {
  const auto done = count == 2 ? run(arguments[1]) : ht::Result<void>();
  if (!done) std::fprintf(stderr, "%s\n", to_string(done.error()).c_str());
  if (count != 2) std::fprintf(stderr, "usage: mlp MODEL\n");
  return done && count == 2 ? 0 : 1;
}
