// keep_dims as an argument.
// error: axis_is_not_a_template_argument
// error: mean: axes are template arguments: mean<1>\(x\), mean<1, keep_dims>\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = mean<1>(x, true);
#else
  auto y = mean<1, keep_dims>(x);
#endif
}
