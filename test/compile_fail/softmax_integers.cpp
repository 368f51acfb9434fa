// A softmax of integers.
// error: not_floating<.*int
// error: softmax: needs float or double logits
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto x = placeholder<int, dims<2, 3>>(g, "x");
#else
  auto x = placeholder<float, dims<2, 3>>(g, "x");
#endif
  auto y = softmax(x);
}
