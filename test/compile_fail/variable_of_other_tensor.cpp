// First values of other extents.
// error: assigned_extents_differ
// error: dims<3>
// error: dims<4>
// error: variable: the first value has other extents or elements than the variable
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  tensor<float, dims<3>> first{1, 2, 3};
#ifdef WEFT_SHOULD_FAIL
  auto w = variable<float, dims<4>>(g, "w", first);
#else
  auto w = variable<float, dims<3>>(g, "w", first);
#endif
}
