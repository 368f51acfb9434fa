// A tensor is filled by an assignment.
// error: tensor_is_not_assigned
// error: <float>
// error: tensor: assign a tensor or an expression; x\.fill\(v\) writes one number
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  x = 1.0f;
#else
  x.fill(1.0f);
#endif
}
