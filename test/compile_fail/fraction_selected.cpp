// A fraction is to stand among integers.
// error: fraction_meets_integers
// error: select: integers
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<int, dims<3>> a;
#ifdef WEFT_SHOULD_FAIL
  auto b = select(a > 1, a, 0.9);
#else
  auto b = select(a > 1, a, 9);
#endif
}
