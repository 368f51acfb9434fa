// A loss of logits alone.
// error: arguments_are_not_taken
// error: softmax_cross_entropy: takes logits and labels, and yields a loss for each row:
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = softmax_cross_entropy(x);
#else
  auto y = softmax_cross_entropy(x, argmax<1>(x));
#endif
}
