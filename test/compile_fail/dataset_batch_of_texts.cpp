// Batches of texts, which are vectors, are batched again.
// error: batches_of_texts_have_no_batches
// error: batches: of batches of texts there are none; make batches once
// max-lines: 10
#include <string>
#include <vector>
#include <weft/data/dataset.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  auto texts = data::from_tensors(std::vector<std::string>{"a", "b"});
#ifdef WEFT_SHOULD_FAIL
  auto batches = texts.batches(2).batches(3);
#else
  auto batches = texts.batches(6);
#endif
}
