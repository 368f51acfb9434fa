// A scaled loss without an optimizer.
// error: optimizer_does_not_come_first
// error: loss_scale: the optimizer comes first: scale.minimize\(adam\{\}, loss\)
#include <weft/train/loss_scale.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto loss = let(w * w);
  loss_scale scale(g, dynamic_loss_scale{});
#ifdef WEFT_SHOULD_FAIL
  auto train = scale.minimize(loss, adam{});
#else
  auto train = scale.minimize(adam{}, loss);
#endif
}
