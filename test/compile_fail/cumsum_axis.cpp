// Running sums along an axis that is not there.
// error: axis_out_of_range
// error: dims<3, 784>
// error: 2
#include <weft/ops/scan.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 784>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = cumsum<2>(x);
#else
  auto y = cumsum<1>(x);
#endif
}
