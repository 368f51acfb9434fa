// A cosine decay without its step.
// error: \(learning_rate, global_step\(g\), decay_steps, alpha\)
#include <weft/train/schedules.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto n = global_step(g);
#ifdef WEFT_SHOULD_FAIL
  auto rate = cosine_decay(0.1, 100);
#else
  auto rate = cosine_decay(0.1, n, 100);
#endif
}
