// An axis that is reversed twice.
// error: axis_out_of_range<.*dims<3, 4>, 0, 0>
#include <weft/ops/reverse.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 4>> x;
#ifdef WEFT_SHOULD_FAIL
  auto z = reverse<0, 0>(x);
#else
  auto z = reverse<0, 1>(x);
#endif
}
