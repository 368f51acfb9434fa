// A tensor as a std::vector.
// error(clang++): no member named 'push_back' in 'weft::tensor<float, weft::dims<3>(, weft::cpu)?>'
// error(g++): 'class weft::tensor<float, weft::dims<3>(, weft::cpu)? ?>' has no member named 'push_back'
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3>> t;
#ifdef WEFT_SHOULD_FAIL
  t.push_back(1.0f);
#else
  t(0) = 1.0f;
#endif
}
