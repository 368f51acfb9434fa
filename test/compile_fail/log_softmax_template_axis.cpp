// log_softmax with an axis in brackets.
// error: arguments_are_not_taken
// error: log_softmax: it is along the last axis: log_softmax\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = log_softmax<-1>(x);
#else
  auto y = log_softmax(x);
#endif
}
