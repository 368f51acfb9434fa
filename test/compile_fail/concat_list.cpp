// A list of tensors, as tf.concat([..], 1).
// error: arguments_are_not_taken
// error: concat: takes values one by one, the axis is a template argument: concat<1>\(x, y\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = concat({t, t}, 1);
#else
  auto y = concat<1>(t, t);
#endif
}
