// Batch normalization gets the whole result of a recurrent layer, which has several members.
// error: part_cannot_be_called<.*batch_norm
// error: sequential: each part must be a function of the result
#include <weft/nn.hpp>
#include <weft/nn/recurrent.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, dyn<"time">, 4>>(g);
#ifdef WEFT_SHOULD_FAIL
  auto y = nn::sequential(nn::lstm<4>(), nn::batch_norm<>())(x, nn::mode::training);
#else
  auto y =
      nn::sequential(nn::lstm<4>(), [](const auto& h) { return h.states; }, nn::batch_norm<>())(x, nn::mode::training);
#endif
}
