// Options among the arguments.
// error: conv2d_transpose<conv2d_transpose_options
#include <weft/ops/conv2d_transpose.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 7, 7, 64>> images;
  tensor<float, dims<3, 3, 32, 64>> filters;
#ifdef WEFT_SHOULD_FAIL
  auto y = conv2d_transpose(images, filters, 2);
#else
  auto y = conv2d_transpose<conv2d_transpose_options{.stride = 2}>(images, filters);
#endif
}
