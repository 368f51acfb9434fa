// A branch of a bounded value.
// error: operands_are_not_expressions
// error: bounded
#include <weft/control_flow.hpp>
#include <weft/ops/unique.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<8, 3>>(g, "x");
  auto kept = boolean_mask(x, sum<1>(x) > 0.0f);
#ifdef WEFT_SHOULD_FAIL
  auto y = cond(sum(x) > 0.0f, [](auto x) { return x; }, [](auto x) { return -x; }, kept);
#else
  auto y = cond(sum(x) > 0.0f, [](auto x) { return x; }, [](auto x) { return -x; }, kept.values);
#endif
}
