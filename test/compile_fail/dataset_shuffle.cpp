// Three numbers for shuffled().
// error: shuffled\(seed\), shuffled\(seed, data::shuffle_buffer\{1000\}\)
#include <weft/data/dataset.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  data::dataset<float> values = data::from_tensors(std::vector<float>(8));
#ifdef WEFT_SHOULD_FAIL
  auto batches = values.shuffled(1, 1000, 4);
#else
  auto batches = values.shuffled(1, data::shuffle_buffer{1000});
#endif
}
