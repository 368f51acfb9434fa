// As in Python: the order is an argument.
// error: axes and the order are template arguments: norm<1>\(x\), norm<1, norm_order::one>\(x\)
#include <weft/ops/reductions.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = norm(x, 1);
#else
  auto y = norm<norm_order::one>(x);
#endif
}
