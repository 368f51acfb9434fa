// A matrix in braces.
// error: arguments_are_not_taken
// error: matmul: values in braces are a tensor: matmul\(x, tensor<float, dims<3, 1>>\{1, 2, 3\}\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = matmul(t, {1, 2, 3});
#else
  auto y = matmul(t, tensor<float, dims<3, 1>>{1, 2, 3});
#endif
}
