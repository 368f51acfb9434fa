// As in Python: the number of parts is an argument.
// error: axis_is_not_a_template_argument
// error: split<1, 2>\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 4>> x;
#ifdef WEFT_SHOULD_FAIL
  auto [a, b] = split(x, 2);
#else
  auto [a, b] = split<1, 2>(x);
#endif
}
