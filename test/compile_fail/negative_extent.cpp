// A negative extent.
// error: an extent is at least 0
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<3, -4>> x;
#else
  tensor<float, dims<3, 4>> x;
#endif
}
