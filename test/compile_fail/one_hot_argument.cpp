// The depth of one_hot as an argument.
// error: option_is_not_a_template_argument
// error: dims<3>
// error: one_hot: the depth is a template argument: one_hot<10>\(labels\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<int, dims<3>> labels;
#ifdef WEFT_SHOULD_FAIL
  auto y = one_hot(labels, 10);
#else
  auto y = one_hot<10>(labels);
#endif
}
