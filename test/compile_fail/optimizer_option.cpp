// An option of an optimizer under another name.
// error: 'lr'
// error: gradient_descent
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  auto train = gradient_descent{.lr = 0.1}.minimize(w * w);
#else
  auto train = gradient_descent{.learning_rate = 0.1}.minimize(w * w);
#endif
}
