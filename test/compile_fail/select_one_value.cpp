// numpy's where with a condition alone.
// error: arguments_are_not_taken
// error: select: takes a condition and two values: select\(x > 0, x, 0\.0f\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = select(x > 0, x);
#else
  auto y = select(x > 0, x, 0.0f);
#endif
}
