// There is no such axis.
// error: axis_out_of_range<.*dims<3, 4>, 2>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 4>> x;
#ifdef WEFT_SHOULD_FAIL
  auto z = concat<2>(x, x);
#else
  auto z = concat<1>(x, x);
#endif
}
