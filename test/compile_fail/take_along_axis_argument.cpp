// The axis as an argument.
// error: arguments_are_not_taken
// error: take_along_axis<1>\(x, indices\): takes a tensor or a node of indices, and the axis in brackets
#include <weft/ops/gather.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> x;
  tensor<std::int32_t, dims<4, 1>> n;
#ifdef WEFT_SHOULD_FAIL
  auto y = take_along_axis(x, n, 1);
#else
  auto y = take_along_axis<1>(x, n);
#endif
}
