// An inverse of a vector.
// error: matrices_are_not_square
// error: inverse: needs square matrices \[\.\.\., n, n\] of float or double: cast<float>\(x\)
#include <weft/ops/linear_algebra.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3>> u{1, 2, 3};
#ifdef WEFT_SHOULD_FAIL
  auto y = inverse(u);
#else
  auto y = inverse(tensor<float, dims<3, 3>>());
#endif
}
