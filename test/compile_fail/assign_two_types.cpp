// assign as a member of a variable.
// error(clang++): no member named 'assign' in 'weft::variable_node<float>'
// error(g++): 'class weft::variable_node<float>' has no member named 'assign'
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto a = variable<float>(g, "a");
#ifdef WEFT_SHOULD_FAIL
  auto b = a.assign(1.0f);
#else
  auto b = assign(a, 1.0f);
#endif
}
