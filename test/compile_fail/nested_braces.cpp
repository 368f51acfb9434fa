// A row in braces is too short.
// error: rows_do_not_fit
// error: dims<2, 3>, ?3, ?2
// error: tensor: the rows in braces are not those of its extents
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<2, 3>> x{{1, 2, 3}, {4, 5}};
#else
  tensor<float, dims<2, 3>> x{{1, 2, 3}, {4, 5, 6}};
#endif
}
