// Layer normalization without its parameters.
// error: layer_normalization
// error: of x, scale and offset: layer_normalization\(x, scale, offset\)
#include <weft/ops/normalization.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 4>>(g);
#ifdef WEFT_SHOULD_FAIL
  auto y = layer_normalization(x);
#else
  auto y = layer_normalization(x, variable<float, dims<4>>(g, "scale"), variable<float, dims<4>>(g, "offset"));
#endif
}
