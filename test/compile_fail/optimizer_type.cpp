// minimize is called on a type.
// error(g++): without object
// error(clang++): without an object
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  auto train = gradient_descent::minimize(w * w);
#else
  auto train = gradient_descent{.learning_rate = 0.1}.minimize(w * w);
#endif
}
