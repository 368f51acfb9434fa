// An axis that is not there.
// error: axis_out_of_range
// error: gather: needs an axis that x has, and integer indices: cast<std::int32_t>\(indices\)
#include <weft/ops/gather.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = gather<2>(t, tensor<std::int32_t, dims<2>>{0, 1});
#else
  auto y = gather<1>(t, tensor<std::int32_t, dims<2>>{0, 1});
#endif
}
