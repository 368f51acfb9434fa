// The rate of dropout as a template argument.
// error(clang++): no matching function
// error(g++): of a value, a rate and options: dropout\(x, 0\.1, \{\.seed = 7\}\)
// max-lines: 9
// clang 14 has no template arguments of type double, so that no overload fits.
// alone
#include <weft/ops/dropout.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = dropout<0.5>(x);
#else
  auto y = dropout(x, 0.5);
#endif
}
