// An axis of the batch.
// error: batch_axes_not_there
// error: batch_gather<batch_dims, axis>: needs x
#include <weft/ops/gather.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> x;
  tensor<std::int64_t, dims<4>> n;
#ifdef WEFT_SHOULD_FAIL
  auto y = batch_gather<1, 0>(x, n);
#else
  auto y = batch_gather<1, -1>(x, n);
#endif
}
