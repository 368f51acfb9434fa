// Axes that are not a permutation.
// error: axes_not_a_permutation
// error: dims<2, 6>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 6>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = transpose<1, 1>(x);
#else
  auto y = transpose<1, 0>(x);
#endif
}
