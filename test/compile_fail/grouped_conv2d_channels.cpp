// Filters with all channels of the images, not those of one group.
// error: conv2d_groups_do_not_fit
// error: grouped_conv2d: needs images \[batch, height, width, in\] and filters \[height, width, in / groups, out\]
#include <weft/ops/grouped_conv2d.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 7, 7, 8>> images;
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<3, 3, 8, 16>> filters;
#else
  tensor<float, dims<3, 3, 2, 16>> filters;
#endif
  auto y = grouped_conv2d<4>(images, filters);
}
