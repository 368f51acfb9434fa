// An output padding that is not less than the stride.
// error: conv2d_transpose_options_out_of_range
// error: conv2d_transpose: needs images
#include <weft/ops/conv2d_transpose.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 7, 7, 64>> images;
  tensor<float, dims<3, 3, 32, 64>> filters;
#ifdef WEFT_SHOULD_FAIL
  auto y = conv2d_transpose<conv2d_transpose_options{.stride = 2, .pad = padding::of(1), .output_padding = 2}>(images,
                                                                                                               filters);
#else
  auto y = conv2d_transpose<conv2d_transpose_options{.stride = 2, .pad = padding::of(1), .output_padding = 1}>(images,
                                                                                                               filters);
#endif
}
