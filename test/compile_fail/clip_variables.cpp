// Variables in place of gradients, as torch.nn.utils.clip_grad_norm_ takes them.
// error: changed_value_is_not_a_gradient
// error: global_norm: it takes what compute_gradients\(\) returns
#include <weft/train/clipping.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float, dims<3>>(g, "w");
  auto b = variable<float>(g, "b");
  auto [of_w, of_b] = compute_gradients(sum(square(w)) * b, w, b);
#ifdef WEFT_SHOULD_FAIL
  auto norm = global_norm(std::tuple{w, b});
#else
  auto norm = global_norm(std::tuple{of_w, of_b});
#endif
}
