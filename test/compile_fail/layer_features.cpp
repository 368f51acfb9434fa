// A layer that names its input features gets others.
// error: features_differ
// error: dense: needs a node
// error: 784
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto x = placeholder<float, dims<dyn<"batch">, 100>>(g);
#else
  auto x = placeholder<float, dims<dyn<"batch">, 784>>(g);
#endif
  auto y = nn::dense<10, 784>()(x);
}
