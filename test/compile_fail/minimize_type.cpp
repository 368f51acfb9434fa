// An optimizer's type in place of its value.
// error(clang++): 'adam' does not refer to a value
// error(g++): expected primary-expression before ',' token
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  auto train = minimize(adam, w * w);
#else
  auto train = minimize(adam{}, w * w);
#endif
}
