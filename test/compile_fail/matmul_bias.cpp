// A bias as the third argument of matmul.
// error: matmul: takes two matrices, either may be transposed: matmul<transpose_of::b>\(a,
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
  auto w = variable<float, dims<3, 2>>(g, "w");
  auto b = variable<float, dims<2>>(g, "b");
#ifdef WEFT_SHOULD_FAIL
  auto y = matmul(x, w, b);
#else
  auto y = matmul(x, w) + b;
#endif
}
