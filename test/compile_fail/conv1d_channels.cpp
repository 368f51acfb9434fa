// Filters of other channels than the sequences.
// error: conv2d_channels_differ
// error: conv1d: needs sequences
#include <weft/ops/conv1d.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, dyn<"length">, 8>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  static_cast<void>(conv1d(x, variable<float, dims<3, 4, 8>>(g, "w")));
#else
  static_cast<void>(conv1d(x, variable<float, dims<3, 8, 4>>(g, "w")));
#endif
}
