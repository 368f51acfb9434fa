// A depth and an axis.
// error: arguments_are_not_taken
// error: one_hot: takes the depth, and adds the last axis: one_hot<10>\(labels\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto i = placeholder<std::int32_t, dims<5>>(g, "i");
#ifdef WEFT_SHOULD_FAIL
  auto y = one_hot<10, 1>(i);
#else
  auto y = one_hot<10>(i);
#endif
}
