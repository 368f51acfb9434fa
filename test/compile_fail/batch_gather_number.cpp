// A number in place of the indices.
// error: arguments_are_not_taken
// error: batch_gather<1>\(x, indices\): takes a tensor or a node of indices
#include <weft/ops/gather.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = batch_gather<1>(x, 2);
#else
  auto y = slice<1, 2, 1>(x);
#endif
}
