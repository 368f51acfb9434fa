// An element of a matrix by one index.
// error: indices_do_not_fit
// error: dims<2, 3>
// error: tensor: an element has one integer for each axis
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  float y = x(0);
#else
  float y = x(0, 0);
#endif
}
