// A misspelt option of dropout.
// error: of a value, a rate and options: dropout\(x, 0\.1, \{\.seed = 7\}\); 0 turns it off
#include <weft/ops/dropout.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = dropout(x, 0.5, {.sed = 7});
#else
  auto y = dropout(x, 0.5, {.seed = 7});
#endif
}
