// batch() as in TensorFlow.
// error(clang++): no member named 'batch' in 'weft::data::dataset<float>'
// error(g++): 'class weft::data::dataset<float>' has no member named 'batch'; did you mean 'batches'\?
#include <weft/data/dataset.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  data::dataset<float> values = data::from_tensors(std::vector<float>(8));
#ifdef WEFT_SHOULD_FAIL
  auto batches = values.batch(4);
#else
  auto batches = values.batches(4);
#endif
}
