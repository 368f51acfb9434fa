// A count's name as text.
// error: arguments_are_not_taken
// error: unique: an extent's name is written dyn<\.\.\.>: unique<dyn<\\?"words\\?">>\(x\)
#include <weft/ops/unique.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  auto y = unique<"kept">(tensor<int, dims<3>>{1, 2, 2});
#else
  auto y = unique<dyn<"kept">>(tensor<int, dims<3>>{1, 2, 2});
#endif
}
