// The determinant of integers.
// error: not_floating
// error: determinant: needs square matrices \[..., n, n\] of float or double: cast<float>\(x\)
#include <weft/ops/linear_algebra.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<int, dims<2, 2>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = determinant(x);
#else
  auto y = determinant(cast<double>(x));
#endif
}
