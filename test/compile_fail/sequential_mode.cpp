// A sequential with batch normalization is called without a mode.
// error: mode_is_missing
// error: sequential: a part needs a mode
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 4>>(g);
  const nn::sequential net(nn::dense<8>{}, nn::batch_norm<>(), nn::dense<1>());
#ifdef WEFT_SHOULD_FAIL
  auto y = net(x);
#else
  auto y = net(x, nn::mode::training);
#endif
}
