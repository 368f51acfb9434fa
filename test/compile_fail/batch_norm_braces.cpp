// Replicas of batch normalization are in braces.
// error: norm\(x, how\), norm\(x, residual, how\), or norm\(std::tuple\(x0, x1\), how\)
#include <tuple>

#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto first = placeholder<float, dims<8, 4>>(g), second = placeholder<float, dims<8, 4>>(g);
#ifdef WEFT_SHOULD_FAIL
  auto [y0, y1] = nn::batch_norm<>()({first, second}, nn::mode::training);
#else
  auto [y0, y1] = nn::batch_norm<>()(std::tuple(first, second), nn::mode::training);
#endif
}
