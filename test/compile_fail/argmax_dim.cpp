// keepdim in the brackets.
// error: arguments_are_not_taken
// error: argmax: takes one axis, which is gone from the result: argmax<1>\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = argmax<1, 0>(t);
#else
  auto y = argmax<1>(t);
#endif
}
