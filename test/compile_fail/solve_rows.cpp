// A right side that has other rows than the matrix, because it is a vector.
// error: right_sides_differ
// error: dims<4, 4>
// error: dims<4>
#include <weft/ops/linear_algebra.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 4>> a;
  tensor<float, dims<4>> b;
#ifdef WEFT_SHOULD_FAIL
  auto x = solve(a, b);
#else
  auto x = solve(a, reshape<dims<4, 1>>(b));
#endif
}
