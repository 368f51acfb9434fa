// The variance of integers.
// error: not_floating
// error: variance: needs axes of the operand and elements of float or double: variance<0,
#include <weft/ops/reductions.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<std::int32_t, dims<4, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = variance<0>(x);
#else
  auto y = variance<0>(cast<float>(x));
#endif
}
