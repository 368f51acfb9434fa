// A part of a sequential names other features than the part before it has.
// error: features_differ<.*8>, 784>
// error: sequential: each part must be a function of the result of the part before it
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 4>>(g);
#ifdef WEFT_SHOULD_FAIL
  auto y = nn::sequential(nn::dense<8>(), nn::relu, nn::dense<10, 784>())(x);
#else
  auto y = nn::sequential(nn::dense<8>(), nn::relu, nn::dense<10, 8>())(x);
#endif
}
