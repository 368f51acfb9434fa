// Indices in a vector.
// error: arguments_are_not_taken
// error: gather: takes a tensor or a node of indices: gather<0>\(x, tensor<std::int32_t,
#include <vector>
#include <weft/ops/gather.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  std::vector<int> rows{0, 1};
  auto y = gather(t, rows);
#else
  auto y = gather(t, tensor<std::int32_t, dims<2>>{0, 1});
#endif
}
