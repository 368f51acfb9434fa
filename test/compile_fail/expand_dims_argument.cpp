// The new axis as an argument.
// error: the axis is a template argument: expand_dims<0>\(x\), expand_dims<-1>\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = expand_dims(x, 1);
#else
  auto y = expand_dims<1>(x);
#endif
}
