// The sum in place has other extents than the tensor.
// error: assigned_extents_differ
// error: dims<2, 3>
// error: operator\+=: the elements that it writes keep their extents and type
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
  tensor<float, dims<3>> y;
#ifdef WEFT_SHOULD_FAIL
  y += x;
#else
  x += y;
#endif
}
