// SPDX-License-Identifier: BSL-1.0
// Linear regression by least squares: the normal equations, and batch, mini-batch and stochastic gradient descent,
// reach the same coefficients, or the program ends with an error. `--help` lists the flags.
#include "../regression.hpp"

int main(int argc, char** argv) {
  return regression::main(
      argc, argv, "Linear regression by the normal equations and by gradient descent", 0, false,
      [](const regression::problem& p, double, std::uint64_t seed) { regression::compare(p, 0, seed); });
}
