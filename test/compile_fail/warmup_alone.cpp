// A warmup without its step.
// error: \(schedule, steps, first\), or \(learning_rate, global_step\(g\), steps, first\)
#include <weft/train/schedules.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto n = global_step(g);
#ifdef WEFT_SHOULD_FAIL
  auto rate = linear_warmup(0.1, 500);
#else
  auto rate = linear_warmup(0.1, n, 500);
#endif
}
