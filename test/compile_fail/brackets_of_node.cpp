// An element of a node in brackets.
// error: node<float, (weft::)?dims<1>
// error(g++): no match for 'operator\[\]'
// error(clang++): does not provide a subscript operator
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<1>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = x[0];
#else
  auto y = reshape<dims<>>(x);
#endif
}
