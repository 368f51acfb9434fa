// one_hot of floats.
// error: element_types_differ
// error: <float, int>
// error: one_hot: labels are std::int32_t or std::int64_t
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3>> labels;
#ifdef WEFT_SHOULD_FAIL
  auto y = one_hot<10>(labels);
#else
  auto y = one_hot<10>(cast<int>(labels));
#endif
}
