// A placeholder is read.
// error: value_is_not_of_a_variable
// error: get: it reads a variable: get\(w\); find_variable<float, dims<\.\.\.>>\(graph, \\?"w\\?"\) is that of
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
  session s(g);
#ifdef WEFT_SHOULD_FAIL
  auto y = s.get(x);
#else
  auto y = s.eval(x, with(x, tensor<float, dims<4, 3>>()));
#endif
}
