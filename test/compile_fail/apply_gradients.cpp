// A gradient is of other extents than its variable.
// error: applied_value_is_not_a_gradient
// error: apply_gradients: it takes what compute_gradients\(\) returns
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float, dims<3>>(g, "w");
  auto [of_w] = compute_gradients(sum(w * w), w);
#ifdef WEFT_SHOULD_FAIL
  auto train = apply_gradients(adam{}, variable_gradient{sum(of_w.gradient), w});
#else
  auto train = apply_gradients(adam{}, variable_gradient{2.0f * of_w.gradient, w});
#endif
}
