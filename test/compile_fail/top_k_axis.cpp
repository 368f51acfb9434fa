// An axis in the brackets.
// error: arguments_are_not_taken
// error: top_k: it is along the last axis, and takes the number alone: top_k<5>\(x\)
#include <weft/ops/sort.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto [v, k] = top_k<2, 1>(t);
#else
  auto [v, k] = top_k<2>(t);
#endif
}
