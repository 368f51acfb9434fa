// A layer whose groups do not divide the channels.
// error: groups_do_not_divide_channels
// error: groups that divide the channels
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  const auto x = placeholder<float, dims<4, 8, 8, 6>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  const nn::group_norm<4> norm;
#else
  const nn::group_norm<3> norm;
#endif
  const auto y = norm(x);
}
