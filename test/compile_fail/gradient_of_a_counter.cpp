// The counter of steps is given to what computes gradients.
// error: counter_has_no_gradient
// error: minimize: the loss must be a float or double scalar in a graph
#include <weft/train/schedules.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w", 1.0f);
  auto step = global_step(g);
#ifdef WEFT_SHOULD_FAIL
  auto pairs = compute_gradients(w * w, w, step);
#else
  auto train = gradient_descent{}.apply_gradients(compute_gradients(w * w, w), step);
#endif
}
