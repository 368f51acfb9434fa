// The mean of truth values.
// error: not_floating
// error: <bool>
// error: mean: needs axes of the operand and elements of float or double:
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<int, dims<3>> x, y;
#ifdef WEFT_SHOULD_FAIL
  auto accuracy = mean(x == y);
#else
  auto accuracy = mean(cast<float>(x == y));
#endif
}
