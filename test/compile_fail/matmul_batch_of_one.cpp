// One matrix is the right factor of many, not the left one.
// error: matmul_shapes_differ
// error: dims<3, 4>
// error: dims<8, 4, 5>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 4>> one;
  tensor<float, dims<8, 4, 5>> many;
#ifdef WEFT_SHOULD_FAIL
  auto c = matmul(one, many);
#else
  auto c = matmul<transpose_of::b>(transpose<0, 2, 1>(many), one);
#endif
}
