// A number of updates that is no value of the graph.
// error: count_is_not_a_scalar_node
// error: num_updates: a scalar of the graph that counts updates: global_step\(g\)
#include <weft/train/moving_average.hpp>
#include <weft/train/schedules.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto train = adam{}.minimize(w * w, global_step(g));
#ifdef WEFT_SHOULD_FAIL
  auto averages = exponential_moving_average{.num_updates = 100}.apply(train);
#else
  auto averages = exponential_moving_average{.num_updates = global_step(g)}.apply(train);
#endif
}
