// A matrix product of a bounded value.
// error: some_rows_are_not_real
// error: b.values
#include <weft/ops/unique.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<8, 3>>(g, "x");
  auto kept = boolean_mask(x, sum<1>(x) > 0.0f);
  auto w = variable<float, dims<3, 2>>(g, "w", init::zeros{});
#ifdef WEFT_SHOULD_FAIL
  auto y = matmul(kept, w);
#else
  auto y = with_count(matmul(kept.values, w), kept);
#endif
}
