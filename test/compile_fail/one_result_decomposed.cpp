// One result, decomposed.
// error(clang++): cannot decompose non-class, non-array type 'typename __invoke_result<\(lambda at
// error(g++): cannot decompose non-array non-class type 'float'
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto a = variable<float>(g, "a");
  session s(g);
#ifdef WEFT_SHOULD_FAIL
  auto [y] = s.run(fetch(a));
#else
  auto y = s.run(fetch(a));
#endif
}
