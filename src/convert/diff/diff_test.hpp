// The fixture of the tests of `diff`.
#pragma once

#include "convert/test_models_fixture.hpp"

namespace ht::testing {

class Diff : public TestModels {
 protected:
  /// The difference without its statistics.
  static Differences::Tensor brief(Differences::Tensor difference) {
    difference.rms.reset();
    difference.cosine.reset();
    return difference;
  }

  /// The one tensor in which the models differ.
  static Differences::Tensor difference(const Model& a, const Model& b,
                                        std::optional<double> tolerance = {}) {
    const auto found = compared(a, b, tolerance);
    EXPECT_EQ(found.differ.size(), 1U);
    EXPECT_TRUE(found.only_a.empty() && found.only_b.empty() && found.metadata.is_same());
    return found.differ.empty() ? Differences::Tensor{} : found.differ[0];
  }
};

}  // namespace ht::testing
