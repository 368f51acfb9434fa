// Different values of bools.
// error: elements_not_numeric
// error: bool
#include <weft/ops/unique.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<bool, dims<4>> x;
#ifdef WEFT_SHOULD_FAIL
  auto [values, indices, counts] = unique_with_counts(x);
#else
  auto [values, indices, counts] = unique_with_counts(cast<int>(x));
#endif
}
