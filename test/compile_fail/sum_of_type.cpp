// A reduction in another element type.
// error: arguments_are_not_taken
// error: axes are template arguments: sum<0>\(cast<double>\(x\)\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = sum<double>(t);
#else
  auto y = sum(cast<double>(t));
#endif
}
