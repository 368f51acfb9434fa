// Labels before logits.
// error: not_floating
// error: <int>
// error: softmax_cross_entropy: float or double logits in a graph
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto logits = placeholder<float, dims<dyn<"batch">, 10>>(g, "logits");
  auto labels = placeholder<int, dims<dyn<"batch">>>(g, "labels");
#ifdef WEFT_SHOULD_FAIL
  auto loss = softmax_cross_entropy(labels, logits);
#else
  auto loss = softmax_cross_entropy(logits, labels);
#endif
}
