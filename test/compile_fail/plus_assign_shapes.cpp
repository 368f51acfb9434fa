// Extents that do not broadcast, in place.
// error: elementwise_shapes_differ
// error: dims<2, 3>
// error: operator-=: the elements that it writes keep their extents and type
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
  tensor<float, dims<2>> y;
#ifdef WEFT_SHOULD_FAIL
  x -= y;
#else
  x -= expand_dims<1>(y);
#endif
}
