// A tensor of columns has a named extent: how many columns it takes is not known.
// error: csv_features_are_not_valid
// error: csv: columns are read as numbers, std::string, or tensors whose extents are numbers
// max-lines: 10
#include <weft/data/csv.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  auto rows = data::csv<tensor<float, dims<dyn<"columns">>>>("table.csv");
#else
  auto rows = data::csv<tensor<float, dims<4>>>("table.csv");
#endif
}
