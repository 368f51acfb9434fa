// top_k_accuracy without its k.
// error: top_k_accuracy\(5\): a label among the five largest scores counts as right
#include <weft/train/metrics.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  metrics::top_k_accuracy top;
#else
  metrics::top_k_accuracy top(3);
#endif
}
