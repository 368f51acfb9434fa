// get by a name.
// error: value_is_not_of_a_variable
// error: get: it reads a variable: get\(w\); find_variable<float, dims<\.\.\.>>\(graph, \\?"w\\?"\) is that of
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float, dims<3, 2>>(g, "w");
  session s(g);
#ifdef WEFT_SHOULD_FAIL
  auto v = s.get("w");
#else
  auto v = s.get(w);
#endif
}
