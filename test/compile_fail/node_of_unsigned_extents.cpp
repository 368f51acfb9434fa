// Extents that are not those of an int, and differ.
// error: assigned_to_a_node<weft::node<float, (weft::)?dims<9>
// error: a node is a handle of its type
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  node<float, dims<std::size_t{8}>> x;
#ifdef WEFT_SHOULD_FAIL
  x = placeholder<float, dims<std::size_t{9}>>(g, "x");
#else
  x = placeholder<float, dims<8>>(g, "x");
#endif
}
