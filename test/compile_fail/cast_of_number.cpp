// A number is converted as tensors are.
// error: converted_value_is_a_number
// error: <int>
// error: cast: it converts a tensor or a node; static_cast<T>\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = cast<double>(7);
#else
  auto y = cast<double>(x) * 7;
#endif
}
