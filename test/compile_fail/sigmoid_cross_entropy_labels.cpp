// Labels of bool.
// error: element_types_differ
// error: sigmoid_cross_entropy: float or double logits, and labels of the same type and extents
#include <weft/ops/losses.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = sigmoid_cross_entropy(x, x > 0);
#else
  auto y = sigmoid_cross_entropy(x, cast<float>(x > 0));
#endif
}
