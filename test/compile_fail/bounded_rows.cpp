// Values of other rows than those that are counted.
// error: rows_are_not_those_of_the_bound
// error: dims<3>
// error: dims<8, 3>
#include <weft/ops/unique.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<8, 3>>(g, "x");
  auto kept = boolean_mask(x, sum<1>(x) > 0.0f);
#ifdef WEFT_SHOULD_FAIL
  auto y = with_count(sum<0>(kept.values), kept);
#else
  auto y = with_count(sum<1>(kept.values), kept);
#endif
}
