// Extents without dims, as Eigen has them.
// error(clang++): template argument for template type parameter must be a type
// error(g++): type/value mismatch at argument 2 in template parameter list for 'template<class T, class
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  tensor<float, 2, 3> t;
#else
  tensor<float, dims<2, 3> > t;
#endif
}
