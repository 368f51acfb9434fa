// An element of a tensor in brackets.
// error: tensor<float, (weft::)?dims<2, 3>
// error(g++): no match for 'operator\[\]'
// error(clang++): does not provide a subscript operator
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  float y = x[0];
#else
  float y = x(0, 0);
#endif
}
