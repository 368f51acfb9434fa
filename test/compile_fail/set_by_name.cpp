// A variable is set by its name.
// error: set: it writes a variable: set\(w, value\); a placeholder is fed: with\(x, value\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  session s(g);
#ifdef WEFT_SHOULD_FAIL
  s.set("w", 1.0f);
#else
  s.set(w, 1.0f);
#endif
}
