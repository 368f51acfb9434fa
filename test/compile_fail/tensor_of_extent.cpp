// A tensor is made of its extent.
// error: tensor_is_not_made_of
// error: <int>
// error: tensor: write values in braces, shape\(\.\.\.\) for zeros, or tensor_view<T
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<dyn<"n">>> x(10);
#else
  tensor<float, dims<dyn<"n">>> x(shape(10));
#endif
}
