// Two stacked layers are given the initial state of one.
// error: initial_states_differ_in_number<1, 2>
#include <weft/nn/recurrent.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 5, 3>>(g, "x");
  auto first = placeholder<float, dims<dyn<"batch">, 8>>(g, "first");
  const nn::stacked<nn::gru<8>, 2> layers;
#ifdef WEFT_SHOULD_FAIL
  auto states = layers(x, nn::initial_state(first)).states;
#else
  auto states = layers(x, nn::initial_state(first, first)).states;
#endif
}
