// The transposition of a product as an argument.
// error: option_is_not_a_template_argument
// error: dims<3, 4>
// error: matmul: takes two matrices, either may be transposed:
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 4>> a;
  tensor<float, dims<3, 4>> b;
#ifdef WEFT_SHOULD_FAIL
  auto y = matmul(a, b, true);
#else
  auto y = matmul<transpose_of::b>(a, b);
#endif
}
