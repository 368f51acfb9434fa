// A row of a tensor as a number.
// error: value_is_not_one_number
// error: dims<3>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  float y = x[0];
#else
  float y = x[0][0];
#endif
}
