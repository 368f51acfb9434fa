// The whole batch of a dataset is fed.
// error: fed_value_is_not_a_tensor
// error: a step takes a tensor, tensor_view\(pointer
#include <weft/data/dataset.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 4>>(g, "x");
  session s{g};
  auto step = s.prepare(fetch(sum(x)), feed(x));
  auto examples = data::from_tensors(tensor<float, dims<4, 4>>(), tensor<std::int32_t, dims<4>>());
#ifdef WEFT_SHOULD_FAIL
  for (auto batch : examples.batches(2)) step(batch);
#else
  for (auto [values, labels] : examples.batches(2)) step(values);
#endif
}
