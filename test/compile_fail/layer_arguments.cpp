// The number of features is an argument of a layer's constructor, as in Keras.
// error: extents_are_template_arguments
// error: nn::dense<10> layer\{\.activation = nn::relu\}
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  nn::dense layer(10, nn::relu);
#else
  nn::dense<10> layer{.activation = nn::relu};
#endif
  static_cast<void>(layer);
}
