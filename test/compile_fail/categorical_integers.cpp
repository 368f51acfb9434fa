// Logits that are integers.
// error: logits_not_floating
// error: categorical: takes logits of a graph
#include <weft/ops/categorical.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto logits = placeholder<std::int32_t, dims<dyn<"batch">, 3>>(g, "logits");
#ifdef WEFT_SHOULD_FAIL
  auto y = categorical(logits);
#else
  auto y = categorical(cast<float>(logits), {.seed = 7});
#endif
}
