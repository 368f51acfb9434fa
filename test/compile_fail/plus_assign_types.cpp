// A fraction is added to integers in place.
// error: fraction_meets_integers
// error: operator\+=: the elements that it writes keep their extents and type
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<int, dims<3>> x;
#ifdef WEFT_SHOULD_FAIL
  x += 0.5;
#else
  x += 1;
#endif
}
