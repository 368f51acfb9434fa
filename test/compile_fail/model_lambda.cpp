// A lambda captures a layer: it would be neither trained nor saved.
// error: model_has_no_named_members
// error: lambdas that capture
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 4>>(g);
  const nn::dense<4> inner;
#ifdef WEFT_SHOULD_FAIL
  const nn::sequential net(nn::dense<4>(), [&inner](const auto& h) { return inner(h); });
#else
  const nn::sequential net(nn::dense<4>(), &inner, [](const auto& h) { return h * 0.5f; });
#endif
  auto parameters = nn::parameters(net);
}
