// An axis behind the value.
// error: arguments_are_not_taken
// error: cumsum: the axis is a template argument, options are named: cumsum<1>\(x, \{\.exclusive =
#include <weft/ops/scan.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = cumsum(t, 1);
#else
  auto y = cumsum<1>(t);
#endif
}
