// Indices of float.
// error: row_indices_not_integers
// error: gather: needs an axis that x has, and integer indices: cast<std::int32_t>\(indices\)
#include <weft/ops/gather.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = gather(t, tensor<float, dims<2>>{0, 1});
#else
  auto y = gather(t, tensor<std::int32_t, dims<2>>{0, 1});
#endif
}
