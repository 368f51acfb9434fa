// A row in braces is missing.
// error: rows_do_not_fit
// error: dims<3, 2>, ?2, ?2
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<3, 2>> x{{1, 2}, {3, 4}};
#else
  tensor<float, dims<3, 2>> x{{1, 2}, {3, 4}, {5, 6}};
#endif
}
