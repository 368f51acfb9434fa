// A part of a parallel names other features than the operand has.
// error: features_differ<.*4>, 784>
// error: parallel: each part must be a function of the operand
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 4>>(g);
#ifdef WEFT_SHOULD_FAIL
  auto y = nn::parallel(nn::dense<8>(), nn::dense<2, 784>())(x);
#else
  auto y = nn::parallel(nn::dense<8>(), nn::dense<2, 4>())(x);
#endif
}
