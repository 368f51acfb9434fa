// The sizes of a layer are arguments of its constructor.
// error: extents_are_template_arguments
// error: its sizes are template arguments: nn::
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  nn::embedding layer(1000, 64);
#else
  nn::embedding<1000, 64> layer;
#endif
  const auto copy(layer);
  static_cast<void>(copy);
}
