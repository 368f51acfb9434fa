// The number of top_k as an argument.
// error: number_is_not_a_template_argument
// error: dims<2, 3>
// error: top_k: the number is a template argument: top_k<5>\(x\)
#include <weft/ops/sort.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto [v, i] = top_k(x, 2);
#else
  auto [v, i] = top_k<2>(x);
#endif
}
