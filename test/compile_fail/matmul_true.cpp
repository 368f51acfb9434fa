// Transposition by bool template arguments.
// error: takes two matrices, either may be transposed: matmul<transpose_of::b>\(a, b\) \+ c
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> a;
  tensor<float, dims<4, 3>> b;
#ifdef WEFT_SHOULD_FAIL
  auto y = matmul<false, true>(a, b);
#else
  auto y = matmul<transpose_of::b>(a, b);
#endif
}
