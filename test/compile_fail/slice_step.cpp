// A slice that goes backwards ends before its axis begins.
// error: slice_is_out_of_range<.*dims<3, 4>, 1, 3, 3, -2>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 4>> x;
#ifdef WEFT_SHOULD_FAIL
  auto z = slice<1, 3, 3, -2>(x);
#else
  auto z = slice<1, 3, 2, -2>(x);
#endif
}
