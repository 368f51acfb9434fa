// A tensor of other extents is assigned to a variable.
// error: assigned_extents_differ
// error: dims<4, 4>
// error: dims<4, 3>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float, dims<4, 3>>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<4, 4>> value;
#else
  tensor<float, dims<4, 3>> value;
#endif
  auto a = assign(w, value);
}
