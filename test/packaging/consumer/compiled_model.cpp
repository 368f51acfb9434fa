// SPDX-License-Identifier: BSL-1.0
#include <weft/weft.hpp>

using namespace weft;

// Where (x - 3)^2 is least: of double, whose kernels weft::compiled has not.
double least(double start) {
  graph g;
  auto x = variable<double>(g, "x", init::constant{start});
  auto train = gradient_descent{.learning_rate = 0.25}.minimize(square(x - 3.0));
  session s{g};
  auto step = s.prepare(fetch(train));
  for (int i = 0; i < 100; ++i) step();
  return s.eval(x);
}
