// A cross-entropy of tensors alone.
// error: cross_entropy_of_tensors
// error: dims<2, 3>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<2, 3>>(g, "x");
  tensor<float, dims<2, 3>> t;
  tensor<int, dims<2>> labels;
#ifdef WEFT_SHOULD_FAIL
  auto y = softmax_cross_entropy(t, labels);
#else
  auto y = softmax_cross_entropy(x, labels);
#endif
}
