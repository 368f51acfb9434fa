// Indices of another batch.
// error: batch_extents_differ
// error: batch_gather<batch_dims, axis>: needs x \[batch, n, \.\.\.\] and integer indices \[batch, \.\.\.\]
#include <weft/ops/gather.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = batch_gather<1>(x, tensor<std::int32_t, dims<2>>{0, 1});
#else
  auto y = batch_gather<1>(x, tensor<std::int32_t, dims<4>>{0, 1, 2, 0});
#endif
}
