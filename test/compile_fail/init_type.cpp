// An initializer's type in place of its value.
// error(clang++): expected '\(' for function-style cast or type construction
// error(g++): expected primary-expression before '\)' token
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto w = variable<float, dims<3>>(g, "w", init::zeros);
#else
  auto w = variable<float, dims<3>>(g, "w", init::zeros{});
#endif
}
