// An lstm is given its hidden state and not its cell state.
// error: initial_states_differ_in_number<1, 2>
#include <weft/nn/recurrent.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 5, 3>>(g, "x");
  auto first = placeholder<float, dims<dyn<"batch">, 8>>(g, "first");
  const nn::lstm<8> layer;
#ifdef WEFT_SHOULD_FAIL
  auto [states, h, c] = layer(x, nn::initial_state(first));
#else
  auto [states, h, c] = layer(x, nn::initial_state(first, first));
#endif
}
