// Indices that are fractions.
// error: row_indices_not_integers
// error: batch_gather<batch_dims, axis>: needs x .* cast<std::int32_t>\(indices\)
#include <weft/ops/gather.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> x;
  tensor<float, dims<4>> n;
#ifdef WEFT_SHOULD_FAIL
  auto y = batch_gather(x, n);
#else
  auto y = batch_gather(x, cast<std::int32_t>(n));
#endif
}
