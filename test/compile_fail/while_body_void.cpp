// A body that returns nothing.
// error: result_is_not_an_expression
// error: while_loop: takes a condition that returns a scalar of bool, and a body that returns the
#include <weft/graph/while_loop.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = while_loop([](auto v) { return sum(v) < 1; }, [](auto v) { v = v + 1; }, x);
#else
  auto y = while_loop([](auto v) { return sum(v) < 1; }, [](auto v) { return v + 1; }, x);
#endif
}
