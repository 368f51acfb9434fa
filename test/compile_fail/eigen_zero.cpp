// A static member that makes zeros, as Eigen has it.
// error(clang++): no member named 'zeros' in 'weft::tensor<float, weft::dims<3>(, weft::cpu)?>'
// error(g++): 'zeros' is not a member of 'weft::tensor<float, weft::dims<3>(, weft::cpu)? ?>'
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  auto t = tensor<float, dims<3>>::zeros();
#else
  auto t = tensor<float, dims<3>>();
#endif
}
