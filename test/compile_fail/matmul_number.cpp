// A matrix is multiplied by a number with matmul.
// error: factor_is_a_number
// error: dims<2, 3>
// error: matmul: it multiplies two matrices; x \* 3 is elementwise
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = matmul(x, 3);
#else
  auto y = x * 3;
#endif
}
