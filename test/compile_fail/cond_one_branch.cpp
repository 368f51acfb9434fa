// One branch.
// error: branch_is_missing
// error: cond: takes two functions: cond\(p, \[\]\(auto x\) \{ return -x; \}, \[\]\(auto x\) \{ return x; \},
#include <weft/graph/cond.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = cond(sum(x) > 0, [](auto v) { return v; });
#else
  auto y = cond(sum(x) > 0, [](auto v) { return v; }, [](auto v) { return -v; }, x);
#endif
}
