// A schedule goes by a count that is no integer.
// error: step_is_not_an_integer
// error: a schedule goes by an integer scalar of the graph: global_step\(g\)
#include <weft/train/schedules.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto steps = variable<float>(g, "steps", 0.0f, variable_kind::counter);
#else
  auto steps = variable<std::int32_t>(g, "steps", 0, variable_kind::counter);
#endif
  auto rate = exponential_decay(0.1, steps, 1000, 0.96);
}
