// Clipping without a norm.
// error: \(compute_gradients\(loss, w, b\), 1\.0\)
#include <weft/train/clipping.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  auto grads = clip_by_global_norm(compute_gradients(w * w));
#else
  auto grads = clip_by_global_norm(compute_gradients(w * w), 1.0);
#endif
}
