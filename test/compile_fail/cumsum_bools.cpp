// Running sums of truth values.
// error: elements_not_numeric
// error: bool
// error: cast<float>
#include <weft/ops/scan.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<bool, dims<3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = cumsum<0>(x);
#else
  auto y = cumsum<0>(cast<float>(x));
#endif
}
