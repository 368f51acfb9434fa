// A misspelt option of one_cycle.
// error: one_cycle_options: rising, div_factor, final_div_factor, linear, three_phase
#include <weft/train/schedules.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto n = global_step(g);
#ifdef WEFT_SHOULD_FAIL
  auto rate = one_cycle(0.1, n, 500, {.div_facter = 10});
#else
  auto rate = one_cycle(0.1, n, 500, {.div_factor = 10});
#endif
}
