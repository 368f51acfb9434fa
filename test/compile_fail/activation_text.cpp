// An activation is named by a text, as in Keras.
// error: activation_is_not_known<char *\[5\]>
// error: activation: needs a value of namespace nn, such as nn::relu
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  nn::dense<10> d{.activation = "relu"};
#else
  nn::dense<10> d{.activation = nn::relu};
#endif
  static_cast<void>(d);
}
