// The inverse of a matrix that is not square.
// error: matrices_are_not_square
// error: dims<5, 3, 4>
#include <weft/ops/linear_algebra.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<5, 3, 4>> x;
#else
  tensor<float, dims<5, 4, 4>> x;
#endif
  auto y = inverse(x);
}
