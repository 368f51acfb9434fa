// cast to a type's name.
// error: arguments_are_not_taken
// error: cast: the element type is a template argument: cast<double>\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = cast<"double">(t);
#else
  auto y = cast<double>(t);
#endif
}
