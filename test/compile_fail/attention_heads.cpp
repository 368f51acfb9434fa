// The features of a query are not the same number for each head.
// error: heads_do_not_divide_the_features
// error: 20>, 8
#include <weft/nn/attention.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 5, 20>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  const nn::multi_head_attention<8> attention;
#else
  const nn::multi_head_attention<4> attention;
#endif
  auto y = attention(x);
}
