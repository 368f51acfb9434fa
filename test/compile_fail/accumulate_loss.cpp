// A loss is accumulated in place of its gradients.
// error: changed_value_is_not_a_gradient
// error: accumulate_gradients: it takes what compute_gradients\(\) returns
#include <weft/train/accumulation.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float, dims<3>>(g, "w");
  auto loss = sum(square(w));
#ifdef WEFT_SHOULD_FAIL
  auto sums = accumulate_gradients(loss);
#else
  auto sums = accumulate_gradients(compute_gradients(loss));
#endif
}
