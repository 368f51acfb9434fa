// A std::pair in place of with().
// error: eval: values are given in pairs: eval\(loss, with\(images, x\), with\(labels, y\)\)
#include <utility>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float>(g, "x");
  session s(g);
#ifdef WEFT_SHOULD_FAIL
  float y = s.eval(x * x, std::pair(x, 2.0f));
#else
  float y = s.eval(x * x, with(x, 2.0f));
#endif
}
