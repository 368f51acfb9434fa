// As in Python: the padding is an argument.
// error: axis_is_not_a_template_argument
// error: pad<1, 0, 3>\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 4>> x;
#ifdef WEFT_SHOULD_FAIL
  auto z = pad(x, 2);
#else
  auto z = pad<1, 2, 2>(x);
#endif
}
