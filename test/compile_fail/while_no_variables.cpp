// No loop variables.
// error: operands_are_not_expressions
// error: while_loop: the loop variables follow the body, one by one: while_loop\(condition, body,
#include <weft/graph/while_loop.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = while_loop([](auto v) { return sum(v) < 1; }, [](auto v) { return v + 1; });
#else
  auto y = while_loop([](auto v) { return sum(v) < 1; }, [](auto v) { return v + 1; }, x);
#endif
}
