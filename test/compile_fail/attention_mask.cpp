// A mask has the keys of another sequence.
// error: mask_does_not_fit
// error(g++): words
#include <weft/nn/attention.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, dyn<"words">, 8>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto m = placeholder<bool, dims<dyn<"batch">, dyn<"words">, 9>>(g, "m");
#else
  auto m = placeholder<bool, dims<dyn<"batch">, dyn<"words">, dyn<"words">>>(g, "m");
#endif
  const nn::multi_head_attention<2> attention;
  auto y = attention(x, nn::mask(m));
}
