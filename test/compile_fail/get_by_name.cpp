// A variable is read by its name.
// error: get: it reads a variable: get\(w\); find_variable<float, dims<\.\.\.>>\(graph, \\?"w\\?"\) is that of a
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  session s(g);
#ifdef WEFT_SHOULD_FAIL
  float y = s.get("w");
#else
  float y = s.get(w);
#endif
}
