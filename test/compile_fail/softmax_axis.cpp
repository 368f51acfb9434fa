// softmax along an axis that is an argument.
// error: axis_is_not_a_template_argument
// error: dims<2, 3>
// error: softmax: it is along the last axis: softmax\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = softmax(x, 1);
#else
  auto y = softmax(x);
#endif
}
