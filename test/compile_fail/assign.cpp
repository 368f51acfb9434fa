// A value of other extents is assigned to a variable.
// error: assigned_extents_differ
// error: dims<3>
// error: dims<4>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto v = variable<float, dims<3>>(g, "v");
#ifdef WEFT_SHOULD_FAIL
  auto x = placeholder<float, dims<4>>(g, "x");
#else
  auto x = placeholder<float, dims<3>>(g, "x");
#endif
  auto a = assign(v, x * 2);
}
