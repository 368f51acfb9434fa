// transpose_b in brackets.
// error: takes two matrices, either may be transposed: matmul<transpose_of::b>\(a, b\) \+ c
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = matmul<true>(x, x);
#else
  auto y = matmul<transpose_of::b>(x, x);
#endif
}
