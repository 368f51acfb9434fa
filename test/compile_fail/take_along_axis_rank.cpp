// Indices of fewer axes than x.
// error: extents_along_axis_differ
// error: take_along_axis<axis>: needs integer indices, cast<std::int32_t>\(indices\), of as many axes as x
#include <weft/ops/gather.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> x;
  tensor<std::int32_t, dims<4>> n;
#ifdef WEFT_SHOULD_FAIL
  auto y = take_along_axis<1>(x, n);
#else
  auto y = take_along_axis<1>(x, expand_dims<1>(n));
#endif
}
