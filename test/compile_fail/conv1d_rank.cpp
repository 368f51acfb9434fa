// Images where sequences are expected.
// error: sequences_are_not_of_rank_3
// error: conv1d: needs sequences \[batch, length, in\] and filters \[window, in, out\]
#include <weft/ops/conv1d.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<2, 1, 16, 8>> x;
#else
  tensor<float, dims<2, 16, 8>> x;
#endif
  auto y = conv1d(x, tensor<float, dims<3, 8, 4>>());
}
