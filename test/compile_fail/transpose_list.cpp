// A permutation in braces.
// error: transpose: axes are template arguments: transpose<1, 0>\(x\), transpose\(x\) for all in reverse
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = transpose(x, {1, 0});
#else
  auto y = transpose<1, 0>(x);
#endif
}
