// A placeholder made by the type of its handle.
// error: auto x = placeholder<float, dims<784, 10>>\(graph, "x"\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  node<float, dims<3>> w(g, "w");
#else
  auto w = placeholder<float, dims<3>>(g, "w");
#endif
}
