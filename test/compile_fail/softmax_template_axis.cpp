// softmax with an axis in brackets.
// error: arguments_are_not_taken
// error: softmax: it is along the last axis: softmax\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = softmax<1>(t);
#else
  auto y = softmax(t);
#endif
}
