// Targets that would broadcast.
// error: loss_operands_differ
// error: huber_loss: float or double predictions, and targets of the same type and extents
#include <weft/ops/losses.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> x;
  tensor<float, dims<4, 1>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = huber_loss(x, t);
#else
  auto y = huber_loss(x, broadcast_to<dims<4, 3>>(t));
#endif
}
