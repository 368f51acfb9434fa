// A misspelt member of an initializer.
// error(clang++): field designator 'std' does not refer to any field in type 'init::normal'
// error(g++): 'weft::init::normal' has no non-static data member named 'std'
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto w = variable<float, dims<3>>(g, "w", init::normal{.std = 0.1});
#else
  auto w = variable<float, dims<3>>(g, "w", init::normal{.stddev = 0.1});
#endif
}
