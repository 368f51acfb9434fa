// The residual of a batch normalization has other extents.
// error: residual_differs
// error: batch_norm: the residual must have the extents
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 8, 8, 64>>(g);
#ifdef WEFT_SHOULD_FAIL
  auto shortcut = placeholder<float, dims<dyn<"batch">, 8, 8, 32>>(g);
#else
  auto shortcut = placeholder<float, dims<dyn<"batch">, 8, 8, 64>>(g);
#endif
  auto y = nn::batch_norm<>()(x, shortcut, nn::mode::training);
}
