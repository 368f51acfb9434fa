// A part of a sequential is a model that takes a mode, and the call has none.
// error: mode_is_missing<.*block
// error: residual: a part needs a mode
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

struct block {
  nn::dense<4> hidden;
  nn::dropout drop;
  auto operator()(const auto& x, nn::mode how) const { return drop(hidden(x), how); }
};

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 4>>(g);
  const nn::residual net(nn::dense<4>(), nn::relu, block());
#ifdef WEFT_SHOULD_FAIL
  auto y = net(x);
#else
  auto y = net(x, nn::mode::inference);
#endif
}
