// More than eight extents.
// error: extents_are_not_valid
// error: dims<1, 2, 3, 4, 5, 6, 7, 8, 9>
// error: tensor<T, dims<\.\.\.>>: at most 8 integers, none negative
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<1, 2, 3, 4, 5, 6, 7, 8, 9>> x;
#else
  tensor<float, dims<1, 2, 3, 4, 5, 6, 7, 72>> x;
#endif
}
