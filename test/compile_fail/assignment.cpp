// A tensor of other extents is assigned.
// error: assigned_extents_differ
// error: dims<2, 3>
// error: dims<3, 2>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> a;
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<3, 2>> b = a + 1;
#else
  tensor<float, dims<2, 3>> b = a + 1;
#endif
}
