// Piecewise constants without their step.
// error: \(global_step\(g\), \{100, 200\}, \{0\.1, 0\.01, 0\.001\}\)
#include <weft/train/schedules.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto n = global_step(g);
#ifdef WEFT_SHOULD_FAIL
  auto rate = piecewise_constant({100, 200}, {0.1, 0.01, 0.001});
#else
  auto rate = piecewise_constant(n, {100, 200}, {0.1, 0.01, 0.001});
#endif
}
