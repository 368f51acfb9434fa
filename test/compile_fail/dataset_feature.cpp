// An element of a dataset is no tensor, number or text.
// error: dataset_features_are_not_valid
// error: map: a function returns a tensor, a number, a std::string, or a tuple of them
// max-lines: 12
#include <vector>
#include <weft/data/dataset.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  auto numbers = data::from_tensors(std::vector<int>{1, 2, 3});
#ifdef WEFT_SHOULD_FAIL
  auto vectors = numbers.map([](int i) { return std::vector<double>(static_cast<std::size_t>(i)); });
#else
  auto tensors = numbers.map([](int i) { return tensor<double, dims<dyn<"n"> > >(shape(i)); });
#endif
}
