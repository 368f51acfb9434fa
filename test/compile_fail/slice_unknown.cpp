// A slice of a tensor whose size its extents do not tell.
// error: sliced_extents_are_unknown
// error: slice: over tensors a named extent is one of the operand's
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<dyn<"n">, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = slice<0, 0, dyn<"m">>(x);
#else
  auto y = slice<0, 0, dyn<"n">>(x);
#endif
}
