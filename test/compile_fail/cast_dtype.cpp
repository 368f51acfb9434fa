// cast to a dtype.
// error: arguments_are_not_taken
// error: cast: the element type is a template argument: cast<std::int32_t>\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = cast(t, dtype::int32);
#else
  auto y = cast<std::int32_t>(t);
#endif
}
