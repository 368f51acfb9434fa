// The slope as a template argument.
// error: alpha is an argument: leaky_relu\(x, 0.1f\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 4>> x;
#ifdef WEFT_SHOULD_FAIL
  auto z = leaky_relu<2>(x);
#else
  auto z = leaky_relu(x, 2);
#endif
}
