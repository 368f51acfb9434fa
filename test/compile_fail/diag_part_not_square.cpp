// The diagonal of a matrix that is not square.
// error: matrices_are_not_square
// error: diag_part: takes square matrices, \[\.\.\., n, n\]
#include <weft/ops/arrays.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = diag_part(x);
#else
  auto y = diag_part(matmul<transpose_of::b>(x, x));
#endif
}
