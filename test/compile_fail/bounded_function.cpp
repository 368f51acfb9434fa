// A function of a bounded value.
// error: some_rows_are_not_real
// error: b.values
// max-lines: 9
#include <weft/ops/unique.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<8, 3>>(g, "x");
  auto kept = boolean_mask(x, sum<1>(x) > 0.0f);
#ifdef WEFT_SHOULD_FAIL
  auto y = exp(kept);
#else
  auto y = exp(kept.values);
#endif
}
