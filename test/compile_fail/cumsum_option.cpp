// Options as bool.
// error: arguments_are_not_taken
// error: cumsum: the axis is a template argument, options are named: cumsum<1>\(x, \{\.exclusive =
#include <weft/ops/scan.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = cumsum<1>(t, true);
#else
  auto y = cumsum<1>(t, {.exclusive = true});
#endif
}
