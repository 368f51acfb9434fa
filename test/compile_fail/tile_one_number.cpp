// One number for two axes.
// error: repeats_do_not_fit
// error: tile: takes a number, 1 or more, for each axis: tile<2, 1>\(x\)
#include <weft/ops/arrays.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = tile<2>(x);
#else
  auto y = tile<2, 1>(x);
#endif
}
