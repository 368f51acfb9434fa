// No rate.
// error: of a value, a rate and options: dropout\(x, 0\.1, \{\.seed = 7\}\); 0 turns it off
#include <weft/ops/dropout.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = dropout(x);
#else
  auto y = dropout(x, 0.5f);
#endif
}
