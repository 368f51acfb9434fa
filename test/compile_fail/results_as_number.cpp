// Two results as one number.
// error(clang++): no viable conversion from 'typename __invoke_result<\(lambda at
// error(g++): cannot convert 'std::tuple<float, float>' to 'float' in initialization
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto a = variable<float>(g, "a");
  auto b = variable<float>(g, "b");
  session s(g);
#ifdef WEFT_SHOULD_FAIL
  float y = s.run(fetch(a, b));
#else
  auto [y, z] = s.run(fetch(a, b));
#endif
}
