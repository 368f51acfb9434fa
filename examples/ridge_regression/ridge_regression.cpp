// SPDX-License-Identifier: BSL-1.0
// Ridge regression: least squares with a penalty on the squares of the coefficients, by the normal equations and by
// batch, mini-batch and stochastic gradient descent, which must agree; and a penalty must make the coefficients
// smaller.
// `--help` lists the flags.
#include "../regression.hpp"

using namespace regression;

namespace {

double squares(const coefficients& w) {
  double all = 0;
  for (std::int64_t k = 0; k < features - 1; ++k) all += w(k, 0) * w(k, 0);
  return all;
}

void run(const problem& p, double penalty, std::uint64_t seed) {
  compare(p, penalty, seed);
  const double without = squares(by_normal_equations(p, 0)), with = squares(by_normal_equations(p, penalty));
  std::printf("sum of squares %.4f, %.4f without the penalty of %g\n", with, without, penalty);
  check_output();
  if (!(with < without)) refuse("the penalty must make the coefficients smaller, but did not");
}

}  // namespace

int main(int argc, char** argv) {
  return regression::main(argc, argv, "Ridge regression by the normal equations and by gradient descent", 0.1, true,
                          run);
}
