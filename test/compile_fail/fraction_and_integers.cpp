// A fraction meets integers.
// error: fraction_meets_integers
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<int, dims<3>> a;
#ifdef WEFT_SHOULD_FAIL
  auto c = a * 0.5;
#else
  auto c = a * 5;
#endif
}
