// The operand of a recurrent layer has no axis of steps.
// error: operand_is_not_a_sequence
// error: 784
#include <weft/nn/recurrent.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto images = placeholder<float, dims<dyn<"batch">, 784>>(g, "images");
  const nn::lstm<8> layer;
#ifdef WEFT_SHOULD_FAIL
  auto [states, h, c] = layer(images);
#else
  auto [states, h, c] = layer(reshape<dims<dyn<"batch">, 28, 28>>(images));
#endif
}
