// T as a member, as in PyTorch.
// error(clang++): no member named 'T' in 'weft::tensor<float, weft::dims<2, 3>>'
// error(g++): 'class weft::tensor<float, weft::dims<2, 3> >' has no member named 'T'
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = t.T();
#else
  auto y = transpose(t);
#endif
}
