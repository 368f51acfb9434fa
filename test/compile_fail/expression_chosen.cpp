#include <weft/weft.hpp>
using namespace weft;

int main(int argc, char**) {
  graph g;
  auto x = placeholder<float, dims<4>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = argc > 1 ? relu(x) : tanh(x);
#else
  auto y = argc > 1 ? let(relu(x)) : let(tanh(x));
#endif
  static_cast<void>(y);
}
// error: branches_are_two_expressions<weft::expression<weft::formula::relu
// error: c \? let\(relu\(x\)\) : let\(tanh\(x\)\)
