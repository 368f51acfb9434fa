// A loss scale that is a number.
// error: scale_is_not_fixed_or_dynamic
// error: loss_scale: says how it scales: loss_scale scale\(g, dynamic_loss_scale\{\}\)
#include <weft/train/loss_scale.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  loss_scale scale(g, 1024);
#else
  loss_scale scale(g, fixed_loss_scale{1024});
#endif
}
