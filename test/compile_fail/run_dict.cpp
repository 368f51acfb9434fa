// A dictionary of feeds.
// error: arguments_are_not_fetch_and_with
// error: run: it takes a list and pairs: run\(fetch\(loss, train\), with\(images, x\), with\(labels, y\)\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
  auto w = variable<float, dims<3, 2>>(g, "w");
  auto loss = mean(square(matmul(x, w)));
  session s(g);
#ifdef WEFT_SHOULD_FAIL
  s.run(fetch(loss), {{x, tensor<float, dims<4, 3>>()}});
#else
  s.run(fetch(loss), with(x, tensor<float, dims<4, 3>>()));
#endif
}
