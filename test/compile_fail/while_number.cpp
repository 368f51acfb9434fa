// A loop variable that is a number.
// error: operands_are_not_expressions
// error: while_loop: takes a condition that returns a scalar of bool, and a body that returns the
#include <weft/graph/while_loop.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = while_loop([](auto i, auto v) { return i < 4; }, [](auto i, auto v) { return std::tuple{i + 1, v}; }, 0, x);
#else
  auto y = while_loop([](auto i, auto v) { return i < 4; }, [](auto i, auto v) { return std::tuple{i + 1, v}; },
                      constant(g, 0), x);
#endif
}
