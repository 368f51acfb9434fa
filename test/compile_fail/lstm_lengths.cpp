// The lengths of sequences are floats.
// error: lengths_do_not_fit
#include <weft/nn/recurrent.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 5, 3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto n = placeholder<float, dims<dyn<"batch">>>(g, "n");
#else
  auto n = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "n");
#endif
  const nn::lstm<8> layer;
  auto [states, h, c] = layer(x, nn::lengths(n));
}
