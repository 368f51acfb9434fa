// Extents of a tensor without dims.
// error(g++): expected a type, got '3'
// error(clang++): must be a type
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  tensor<float, 3, 4> x;
#else
  tensor<float, dims<3, 4> > x;
#endif
}
