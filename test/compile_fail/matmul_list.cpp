// A matrix in braces.
// error: takes two matrices, either may be transposed: matmul<transpose_of::b>\(a, b\) \+ c
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = matmul(t, {1, 2, 3});
#else
  auto y = matmul(t, tensor<float, dims<3, 1>>{1, 2, 3});
#endif
}
