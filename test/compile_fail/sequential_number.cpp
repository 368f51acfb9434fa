// A part of a sequential is a number.
// error: part_cannot_be_called<int,
// error: sequential: each part must be a function
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 4>>(g);
#ifdef WEFT_SHOULD_FAIL
  auto y = nn::sequential(nn::dense<8>(), 10)(x);
#else
  auto y = nn::sequential(nn::dense<8>(), nn::dense<10>())(x);
#endif
}
