// A count's name as text.
// error: arguments_are_not_taken
// error: boolean_mask: an extent's name is written dyn<\.\.\.>: boolean_mask<dyn<\\?"kept\\?">>\(x, x > 0\)
#include <weft/ops/boolean_mask.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = boolean_mask<"kept">(t, t > 0);
#else
  auto y = boolean_mask<dyn<"kept">>(t, t > 0);
#endif
}
