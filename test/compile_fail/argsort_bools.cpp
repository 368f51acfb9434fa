// The order of truth values.
// error: elements_not_numeric
// error: bool
#include <weft/ops/sort.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<bool, dims<dyn<"batch">>>(g);
#ifdef WEFT_SHOULD_FAIL
  auto order = argsort(x);
#else
  auto order = argsort(cast<std::int32_t>(x));
#endif
}
