// Two variables are given to assign_all.
// error: of two lists: variables_in\(g, "target"\), variables_in\(g, "online"\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "online/w");
  auto v = variable<float>(g, "target/w");
#ifdef WEFT_SHOULD_FAIL
  auto copy = assign_all(v, w);
#else
  auto copy = assign_all(variables_in(g, "target"), variables_in(g, "online"));
#endif
}
