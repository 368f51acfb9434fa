// Batches without a size.
// error: of so many elements: batches\(100\), or batches<100>\(\) of whole ones alone
#include <weft/data/dataset.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  data::dataset<float> values = data::from_tensors(std::vector<float>(8));
#ifdef WEFT_SHOULD_FAIL
  auto batches = values.batches();
#else
  auto batches = values.batches(4);
#endif
}
