// A row of a const tensor is written.
// error: elements_are_read_only
// error: tensor_view: assigned what has its extents and elements, where these are not const
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
  const tensor<float, dims<2, 3>> y;
#ifdef WEFT_SHOULD_FAIL
  y[0] = x[1];
#else
  x[0] = y[1];
#endif
}
