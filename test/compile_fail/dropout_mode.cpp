// Dropout is called without a mode.
// error: mode_is_missing
// error: dropout: needs a mode
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 4>>(g);
#ifdef WEFT_SHOULD_FAIL
  auto y = nn::dropout{.rate = 0.1}(x);
#else
  auto y = nn::dropout{.rate = 0.1}(x, nn::mode::training);
#endif
}
