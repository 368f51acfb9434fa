// A mean of integers of which some are not real.
// error: not_floating
// error: int
#include <weft/ops/unique.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto ids = placeholder<int, dims<8>>(g, "ids");
  auto words = unique(ids);
#ifdef WEFT_SHOULD_FAIL
  auto y = mean(words.values);
#else
  auto y = max(words.values);
#endif
}
