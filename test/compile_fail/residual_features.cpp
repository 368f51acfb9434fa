// A part of a residual names other features than the part before it has.
// error: features_differ<.*8>, 784>
// error: residual: each part must be a function of the result of the part before it
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 4>>(g);
#ifdef WEFT_SHOULD_FAIL
  auto y = nn::residual(nn::dense<8>(), nn::dense<4, 784>())(x, nn::mode::training);
#else
  auto y = nn::residual(nn::dense<8>(), nn::dense<4, 8>())(x, nn::mode::training);
#endif
}
