#include <weft/weft.hpp>
using namespace weft;

int main() {
  const tensor<float, dims<4>> x{1, 2, 3, 4};
#ifdef WEFT_SHOULD_FAIL
  auto h = x + x;
#else
  auto h = eval(x + x);
#endif
  h = h * x;
}
// error: expression_is_assigned<weft::expression<weft::formula::multiply
// error: over tensors auto h = eval
