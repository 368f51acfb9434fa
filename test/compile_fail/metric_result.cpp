// result() as in Keras.
// error(clang++): no member named 'result' in 'weft::metrics::mean'
// error(g++): 'class weft::metrics::mean' has no member named 'result'; did you mean 'reset'\?
#include <weft/train/metrics.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  metrics::mean m;
#ifdef WEFT_SHOULD_FAIL
  double x = m.result();
#else
  double x = m.value();
#endif
}
