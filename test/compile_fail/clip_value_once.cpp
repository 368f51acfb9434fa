// One bound in place of two.
// error: \(compute_gradients\(loss, w\), -1\.0, 1\.0\), or \(x, -1\.0f, 1\.0f\)
#include <weft/train/clipping.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  auto grads = clip_by_value(compute_gradients(w * w), 1.0);
#else
  auto grads = clip_by_value(compute_gradients(w * w), -1.0, 1.0);
#endif
}
