// As in Python: begin and size are arguments.
// error: axis_is_not_a_template_argument
// error: slice<1, 0, 3>\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 4>> x;
#ifdef WEFT_SHOULD_FAIL
  auto z = slice(x, 0, 2);
#else
  auto z = slice<0, 0, 2>(x);
#endif
}
