// A filter that looks at the second feature alone.
// error: function_takes_other_features
// error: filter: the function takes all features
// max-lines: 10
#include <weft/data/dataset.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  auto rows = data::from_tensors(tensor<float, dims<3, 2>>(), tensor<std::int32_t, dims<3>>());
#ifdef WEFT_SHOULD_FAIL
  auto kept = rows.filter([](std::int32_t label) { return label > 0; });
#else
  auto kept = rows.filter([](const tensor<float, dims<2>>&, std::int32_t label) { return label > 0; });
#endif
}
