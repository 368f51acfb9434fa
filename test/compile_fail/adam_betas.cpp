// An optimizer's hyperparameters under PyTorch's name.
// error(clang++): field designator 'betas' does not refer to any field in type 'weft::adam'
// error(g++): 'weft::adam' has no non-static data member named 'betas'
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  auto train = adam{.betas = {0.9, 0.99}}.minimize(w * w);
#else
  auto train = adam{.beta1 = 0.9, .beta2 = 0.99}.minimize(w * w);
#endif
}
