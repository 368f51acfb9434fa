// An axis has no such equal parts.
// error: axis_has_no_equal_parts<.*dims<3, 4>, 0, 2>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3, 4>>(g);
#ifdef WEFT_SHOULD_FAIL
  auto [a, b] = split<0, 2>(x);
#else
  auto [a, b] = split<1, 2>(x);
#endif
}
