// Arithmetic as if all rows of a bounded value were real.
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
  auto y = kept + 1.0f;
#else
  auto y = with_count(kept.values + 1.0f, kept);
#endif
}
