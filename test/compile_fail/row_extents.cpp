// A row is assigned a row of other extents.
// error: assigned_extents_differ
// error: dims<2>, (weft::)?dims<3>
// error: tensor_view: assigned what has its extents and elements
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
  tensor<float, dims<3, 2>> y;
#ifdef WEFT_SHOULD_FAIL
  x[0] = y[0];
#else
  x[0] = x[1];
#endif
}
