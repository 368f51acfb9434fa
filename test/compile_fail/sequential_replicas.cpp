// A sequential is called with the values of several replicas.
// error: of one node, and a mode if a part needs one: net\(x, nn::mode::training\)
#include <tuple>

#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto first = placeholder<float, dims<8, 4>>(g);
  auto second = placeholder<float, dims<6, 4>>(g);
  const nn::sequential hidden(nn::dense<8>{}, nn::relu, nn::dense<3>{});
  const nn::batch_norm<> norm;
#ifdef WEFT_SHOULD_FAIL
  auto y = nn::sequential(hidden, norm)(std::tuple(first, second), nn::mode::training);
#else
  auto y = norm(std::tuple(hidden(first), hidden(second)), nn::mode::training);
#endif
}
