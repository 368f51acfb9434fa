// The sizes of a layer are arguments of its constructor.
// error: extents_are_template_arguments
// error: its sizes are template arguments: nn::
#include <weft/nn.hpp>
#include <weft/nn/recurrent.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  nn::lstm layer(128);
#else
  nn::lstm<128> layer;
#endif
  const auto copy(layer);
  static_cast<void>(copy);
}
