// Labels of other extents than the logits.
// error: labels_do_not_fit_logits
// error: 10
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto logits = placeholder<float, dims<dyn<"batch">, 10>>(g, "logits");
#ifdef WEFT_SHOULD_FAIL
  auto labels = placeholder<int, dims<dyn<"batch">, 10>>(g, "labels");
#else
  auto labels = placeholder<int, dims<dyn<"batch">>>(g, "labels");
#endif
  auto loss = softmax_cross_entropy(logits, labels);
}
