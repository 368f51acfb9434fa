// The initial state has another number of units than the layer.
// error: initial_state_does_not_fit
// error: 16>
#include <weft/nn/recurrent.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 5, 3>>(g, "x");
  auto wide = placeholder<float, dims<dyn<"batch">, 16>>(g, "wide");
  auto fits = placeholder<float, dims<dyn<"batch">, 8>>(g, "fits");
  const nn::gru<8> layer;
#ifdef WEFT_SHOULD_FAIL
  auto [states, h] = layer(x, nn::initial_state(wide));
#else
  auto [states, h] = layer(x, nn::initial_state(fits));
#endif
}
