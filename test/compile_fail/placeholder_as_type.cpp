// placeholder as a type.
// error(clang++): expected ';' after expression
// error(g++): expected ';' before 'x'
// max-lines: 10
// To clang this is a syntax error, an unknown name and an unused value.
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  placeholder<float, dims<3>> x(g, "x");
#else
  auto x = placeholder<float, dims<3>>(g, "x");
#endif
}
