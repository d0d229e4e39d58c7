// The headers of all cases, which are precompiled once per compiler.
#include <htensor/compute/conv.hpp>
#include <htensor/compute/elementwise.hpp>
#include <htensor/compute/matmul.hpp>
#include <htensor/compute/nn.hpp>
#include <htensor/htensor.hpp>
#include <htensor/values/cast.hpp>
