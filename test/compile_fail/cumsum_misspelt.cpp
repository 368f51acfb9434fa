// A misspelt option of cumsum.
// error: the axis is a template argument, options are named: cumsum<1>\(x, \{\.exclusive = true\}\)
#include <weft/ops/scan.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = cumsum<0>(x, {.exclusiv = true});
#else
  auto y = cumsum<0>(x, {.exclusive = true});
#endif
}
