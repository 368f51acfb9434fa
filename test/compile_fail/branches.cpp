// Branches of ?: have different types.
// error(g++): operands to '\?:' have different types
// error(clang++): incompatible operand types
// error: relu
// error: tanh
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
