// A softmax of one number.
// error: no_last_axis
// error: dims<>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  tensor<float> x;
#else
  tensor<float, dims<1> > x;
#endif
  auto y = softmax(x);
}
