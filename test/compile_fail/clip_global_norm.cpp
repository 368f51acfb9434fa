// A loss is clipped in place of its gradients.
// error: changed_value_is_not_a_gradient
// error: clip_by_global_norm: it takes what compute_gradients\(\) returns
#include <weft/train/clipping.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float, dims<3>>(g, "w");
  auto loss = sum(square(w));
#ifdef WEFT_SHOULD_FAIL
  auto clipped = clip_by_global_norm(loss, 1.0);
#else
  auto clipped = clip_by_global_norm(compute_gradients(loss, w), 1.0);
#endif
}
