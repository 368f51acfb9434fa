// A tensor is made of its extent.
// error: tensor_is_not_made_of
// error: <int>
// error: tensor: made of values in braces, shape\(\.\.\.\) for zeros, a range
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<dyn<"n">>> x(10);
#else
  tensor<float, dims<dyn<"n">>> x(shape(10));
#endif
}
