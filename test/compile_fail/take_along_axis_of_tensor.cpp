// A tensor that is broadcast to extents of a step.
// error: tensor_meets_named_extents
// error: take_along_axis: a tensor is broadcast to extents that a step knows: constant\(graph, tensor\)
#include <weft/ops/gather.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto n = placeholder<std::int32_t, dims<dyn<"batch">, 2>>(g, "n");
  tensor<float, dims<1, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = take_along_axis<1>(x, n);
#else
  auto y = take_along_axis<1>(constant(g, x), n);
#endif
}
