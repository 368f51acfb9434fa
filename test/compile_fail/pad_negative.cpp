// A padding that takes away.
// error: padding_is_negative<0, -1>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 4>> x;
#ifdef WEFT_SHOULD_FAIL
  auto z = pad<1, 0, -1>(x);
#else
  auto z = slice<1, 0, 3>(x);
#endif
}
