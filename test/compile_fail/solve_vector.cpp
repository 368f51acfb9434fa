// A right-hand side that is a vector.
// error: right_sides_differ
// error: solve: needs \[\.\.\., n, n\] and \[\.\.\., n, m\] of float or double: cast<float>\(x\)
#include <weft/ops/linear_algebra.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3>> u{1, 2, 3};
#ifdef WEFT_SHOULD_FAIL
  auto y = solve(tensor<float, dims<3, 3>>(), u);
#else
  auto y = solve(tensor<float, dims<3, 3>>(), tensor<float, dims<3, 1>>());
#endif
}
