// A count that is a number.
// error: count_is_not_a_scalar
// error: int
#include <weft/ops/unique.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<8, 3>>(g, "x");
  auto kept = boolean_mask(x, sum<1>(x) > 0.0f);
#ifdef WEFT_SHOULD_FAIL
  auto y = with_count(x, 3);
#else
  auto y = with_count(x, kept.count);
#endif
}
