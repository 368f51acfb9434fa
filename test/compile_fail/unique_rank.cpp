// Different values of a matrix.
// error: elements_not_along_one_axis
// error: dims<4, 3>
#include <weft/ops/unique.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<int, dims<4, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto [values, indices] = unique(x);
#else
  auto [values, indices] = unique(reshape<dims<12>>(x));
#endif
}
