// The smoothing without its name.
// error: softmax_cross_entropy: takes logits and labels
#include <weft/ops/losses.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = softmax_cross_entropy(x, argmax<1>(x), 0.1);
#else
  auto y = softmax_cross_entropy(x, argmax<1>(x), {.label_smoothing = 0.1});
#endif
}
