// Several values in braces.
// error: one value: eval\(loss, with\(images, x\), with\(labels, y\)\); run\(fetch\(a, b\)\) of several
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto a = variable<float>(g, "a");
  auto b = variable<float>(g, "b");
  session s(g);
#ifdef WEFT_SHOULD_FAIL
  auto y = s.eval({a, b});
#else
  auto y = s.run(fetch(a, b));
#endif
}
