// An activation is a lambda.
// error: activation_is_not_known<
// error: nn::activation<my_formula>\{\}
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  nn::dense<10> d{.activation = [](const auto& x) { return x * 2.0f; }};
#else
  nn::dense<10> d{.activation = nn::silu};
#endif
  static_cast<void>(d);
}
