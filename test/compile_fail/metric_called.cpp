// A metric as a function, as in PyTorch.
// error(clang++): type 'metrics::mean' does not provide a call operator
// error(g++): no match for call to '\(weft::metrics::mean\) \(float\)'
#include <weft/train/metrics.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  metrics::mean m;
#ifdef WEFT_SHOULD_FAIL
  m(1.0f);
#else
  m.update(tensor<float>(1.0f));
#endif
}
