// A range of bools.
// error: range_elements_not_numbers
// error: range<T, extent>\(g\): is of integers, float or double, and its extent a number or a name
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto y = range<bool, 3>(g);
#else
  auto y = range<int, 3>(g);
#endif
}
