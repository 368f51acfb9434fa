// placeholder as a member of a graph.
// error(clang++): no member named 'placeholder' in 'weft::graph'
// error(g++): 'class weft::graph' has no member named 'placeholder'
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto x = g.placeholder<float>("x");
#else
  auto x = placeholder<float>(g, "x");
#endif
}
