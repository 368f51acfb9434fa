// A sort of rows of which some are not real.
// error: some_rows_are_not_real
// error: b.values
#include <weft/ops/unique.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<8, 3>>(g, "x");
  auto kept = boolean_mask(x, sum<1>(x) > 0.0f);
#ifdef WEFT_SHOULD_FAIL
  auto y = sort<0>(kept);
#else
  auto y = sort<0>(kept.values);
#endif
}
