// A misspelt option of while_loop.
// error: \(condition, body, \{\.max_iterations = 10\}, i, x\), the loop variables one by one
#include <weft/control_flow.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = while_loop([](auto x) { return x < 8.0f; }, [](auto x) { return x * 2.0f; }, {.max_iteration = 8}, x);
#else
  auto y = while_loop([](auto x) { return x < 8.0f; }, [](auto x) { return x * 2.0f; }, {.max_iterations = 8}, x);
#endif
}
