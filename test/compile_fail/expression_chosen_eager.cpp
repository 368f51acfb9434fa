#include <weft/weft.hpp>
using namespace weft;

int main(int argc, char**) {
  const tensor<float, dims<4>> x{1, 2, 3, 4};
#ifdef WEFT_SHOULD_FAIL
  auto y = argc > 1 ? relu(x) : tanh(x);
#else
  auto y = argc > 1 ? eval(relu(x)) : eval(tanh(x));
  const float number = argc > 1 ? sum(x) * 2.0f : sum(x) + 1.0f;  // scalars are numbers
  static_cast<void>(number);
#endif
  static_cast<void>(y);
}
// error: branches_are_two_expressions<
// error: or eval
