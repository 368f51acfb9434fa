// any asks conditions, not numbers.
// error: elements_are_not_bool
// error: any: needs axes of the operand and elements of bool: any<1>\(x > 0\)
#include <weft/ops/reductions.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = any<1>(x);
#else
  auto y = any<1>(x != 0);
#endif
}
