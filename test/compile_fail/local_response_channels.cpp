// A number of channels that only a step knows.
// error: extent_is_not_an_int
// error: local_response_normalization: needs float or double
#include <weft/ops/local_response_normalization.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto x = placeholder<float, dims<8, 7, 7, dyn<"channels">>>(g, "x");
#else
  auto x = placeholder<float, dims<dyn<"batch">, 7, 7, 96>>(g, "x");
#endif
  auto y = local_response_normalization(x, {.depth_radius = 2});
}
