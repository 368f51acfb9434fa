// A slice ends behind its axis.
// error: slice_is_out_of_range<.*dims<3, 4>, 1, 2, 3, 1>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 4>> x;
#ifdef WEFT_SHOULD_FAIL
  auto z = slice<1, 2, 3>(x);
#else
  auto z = slice<1, 2, 2>(x);
#endif
}
