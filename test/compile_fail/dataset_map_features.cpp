// A function of one feature, mapped over elements of two.
// error: function_takes_other_features
// error: map: the function takes all features
// max-lines: 10
#include <weft/data/dataset.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  auto rows = data::from_tensors(tensor<float, dims<3, 2>>(), tensor<std::int32_t, dims<3>>());
#ifdef WEFT_SHOULD_FAIL
  auto doubled = rows.map([](const tensor<float, dims<2>>& x) { return x * 2; });
#else
  auto doubled = rows.map([](const tensor<float, dims<2>>& x, std::int32_t) { return x * 2; });
#endif
}
