// k as a template argument.
// error: logits and labels, then k: in_top_k\(logits, labels, 5\)
#include <weft/ops/losses.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = in_top_k<2>(x, argmax<1>(x));
#else
  auto y = in_top_k(x, argmax<1>(x), 2);
#endif
}
