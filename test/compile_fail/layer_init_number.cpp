// The weights of a layer begin with a number.
// error: value_is_not_an_initializer<float>
// error: need an initializer, such as init::constant\{0\.5\}
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  nn::dense<10> d{.weights_init = 0.5f};
#else
  nn::dense<10> d{.weights_init = init::constant{0.5}};
#endif
  static_cast<void>(d);
}
