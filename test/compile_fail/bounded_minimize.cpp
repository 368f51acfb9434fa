// A loss of which some rows are not real.
// error: bounded
#include <weft/ops/unique.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<8, 3>>(g, "x");
  auto kept = boolean_mask(x, sum<1>(x) > 0.0f);
  auto w = variable<float, dims<8>>(g, "w", init::zeros{});
  auto losses = with_count(sum<1>(kept.values) * w, kept);
#ifdef WEFT_SHOULD_FAIL
  auto train = gradient_descent{.learning_rate = 0.1}.minimize(losses);
#else
  auto train = gradient_descent{.learning_rate = 0.1}.minimize(mean(losses));
#endif
}
