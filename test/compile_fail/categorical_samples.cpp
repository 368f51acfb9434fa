// A number of samples, as in TensorFlow.
// error: of logits along the last axis; random_options: categorical\(x, \{.seed = 7\}\)
#include <weft/ops/categorical.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto logits = placeholder<float, dims<dyn<"batch">, 3>>(g, "logits");
#ifdef WEFT_SHOULD_FAIL
  auto y = categorical(logits, 5, {.seed = 7});
#else
  auto y = categorical(broadcast_to<dims<5, dyn<"batch">, 3>>(logits), {.seed = 7});
#endif
}
