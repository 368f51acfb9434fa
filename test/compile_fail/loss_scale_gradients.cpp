// Gradients before the optimizer.
// error: optimizer_does_not_come_first
// error: loss_scale: the optimizer comes first: scale.apply_gradients\(adam\{\}, gradients\)
#include <weft/train/loss_scale.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  loss_scale scale(g, dynamic_loss_scale{});
  auto gradients = scale.compute_gradients(w * w);
#ifdef WEFT_SHOULD_FAIL
  auto train = scale.apply_gradients(gradients, adam{});
#else
  auto train = scale.apply_gradients(adam{}, gradients);
#endif
}
