// Layers compute in float and double.
// error: not_floating
// error: dense: needs a node .* float or double
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto x = placeholder<bfloat16, dims<dyn<"batch">, 4>>(g);
  auto y = nn::dense<10, 4, bfloat16>{.activation = nn::relu}(x);
#else
  auto x = placeholder<float, dims<dyn<"batch">, 4>>(g);
  auto y = nn::dense<10, 4>{.activation = nn::relu}(x);
#endif
}
