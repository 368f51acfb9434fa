// A tensor on a GPU.
// error: tensor_is_not_on_the_host
// error: tensor: a session places a graph's values on devices
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3>> x;
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<3>, cuda> y = x;
#else
  tensor<float, dims<3>> y = x;
#endif
}
