// A product of a matrix and a vector.
// error: factor_is_not_a_matrix
// error: dims<4>
// error: matmul: needs matrices \[m, k\] and \[k, n\] of one floating-point type:
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 4>> a;
  tensor<float, dims<4>> b;
#ifdef WEFT_SHOULD_FAIL
  auto y = matmul(a, b);
#else
  auto y = matmul(a, reshape<dims<4, 1>>(b));
#endif
}
