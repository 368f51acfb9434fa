// A member that other libraries have.
// error: no member named 'shape'
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto s = x.shape();
#else
  auto s = x.extents();
#endif
}
