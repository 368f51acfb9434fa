// Branches of ?: have different types.
// error: branches_are_two_expressions<weft::expression<weft::formula::relu
// error: tanh
// error: c \? let\(relu\(x\)\) : let\(tanh\(x\)\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  const bool deep = true;
#ifdef WEFT_SHOULD_FAIL
  auto y = deep ? relu(x) : tanh(x);
#else
  auto y = deep ? let(relu(x)) : let(tanh(x));
#endif
}
