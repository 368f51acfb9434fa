// Groups that do not divide the channels.
// error: groups_do_not_divide_channels
// error: dims<4, 8, 8, 16>
// error: groups that divide the channels
#include <weft/ops/normalization.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 8, 8, 16>> x;
  tensor<float, dims<16>> scale, offset;
#ifdef WEFT_SHOULD_FAIL
  constexpr int groups = 3;
#else
  constexpr int groups = 4;
#endif
  tensor<float, dims<4, 8, 8, 16>> y = group_normalization<groups>(x, scale, offset);
}
