// A scalar in brackets.
// error: scalar_has_no_rows
// error: operator\[\]: a scalar's element is x\(\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float> x;
#ifdef WEFT_SHOULD_FAIL
  x[0];
#else
  x();
#endif
}
