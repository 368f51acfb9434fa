// A softmax of a storage type.
// error: not_floating<.*half
// error: log_softmax: needs float or double logits
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  tensor<half, dims<2, 3>> x;
#else
  tensor<double, dims<2, 3>> x;
#endif
  auto y = log_softmax(x);
}
