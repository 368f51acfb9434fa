// A padding that crops the whole result.
// error: conv2d_transpose_result_is_empty
// error: conv2d_transpose: needs images
#include <weft/ops/conv2d_transpose.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 1, 1, 64>> images;
  tensor<float, dims<3, 3, 32, 64>> filters;
#ifdef WEFT_SHOULD_FAIL
  auto y = conv2d_transpose<conv2d_transpose_options{.pad = padding::of(2)}>(images, filters);
#else
  auto y = conv2d_transpose<conv2d_transpose_options{.pad = padding::of(1)}>(images, filters);
#endif
}
