// A cross-entropy of integers.
// error: not_floating<.*int
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<2, 3>>(g, "x");
  auto labels = placeholder<int, dims<2>>(g, "labels");
#ifdef WEFT_SHOULD_FAIL
  auto y = softmax_cross_entropy(labels, labels);
#else
  auto y = softmax_cross_entropy(x, labels);
#endif
}
