// A part of a block in a sequential gets images without channels.
// error: images_are_not_of_rank_4
// error: sequential: each part must be a function of the result of the part before it
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 28, 28, 1>>(g);
#ifdef WEFT_SHOULD_FAIL
  auto y = nn::sequential(nn::parallel(nn::flatten(), nn::sequential(nn::flatten(), nn::max_pool2d<2>())))(x);
#else
  auto y = nn::sequential(nn::parallel(nn::flatten(), nn::sequential(nn::max_pool2d<2>(), nn::flatten())))(x);
#endif
}
