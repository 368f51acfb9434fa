// A body that returns an array.
// error: result_is_not_an_expression
// error: while_loop: takes a condition that returns a scalar of bool, and a body that returns the
#include <array>
#include <weft/graph/while_loop.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto [a, b] =
      while_loop([](auto v, auto w) { return sum(v) < 1; }, [](auto v, auto w) { return std::array{v, w}; }, x, x);
#else
  auto [a, b] =
      while_loop([](auto v, auto w) { return sum(v) < 1; }, [](auto v, auto w) { return std::tuple{v + 1, w}; }, x, x);
#endif
}
