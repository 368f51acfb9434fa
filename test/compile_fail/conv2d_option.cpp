// A misspelt option of a convolution.
// error(clang++): field designator 'strides' does not refer to any field in type 'weft::conv2d_options'; did you
// error(g++): 'weft::conv2d_options' has no non-static data member named 'strides'
// max-lines: 21
// alone
// After an error in a template argument g++ still tries each overload; one alone would take 14 lines.
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 28, 28, 1>>(g, "x");
  auto w = variable<float, dims<5, 5, 1, 8>>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  auto y = conv2d<conv2d_options{.strides = 2}>(x, w);
#else
  auto y = conv2d<conv2d_options{.stride = 2}>(x, w);
#endif
}
