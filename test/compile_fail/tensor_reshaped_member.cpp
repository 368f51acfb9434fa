// reshape as a member, as in NumPy.
// error(clang++): no member named 'reshape' in 'weft::tensor<float, weft::dims<2, 3>>'
// error(g++): 'class weft::tensor<float, weft::dims<2, 3> >' has no member named 'reshape'
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = t.reshape(3, 2);
#else
  auto y = reshape<dims<3, 2>>(t);
#endif
}
