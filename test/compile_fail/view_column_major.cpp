// A view of a matrix that stores its columns one after another.
// error: matrix_is_column_major
// error: or of a named tensor, vector, span or row-major matrix
#include <weft/weft.hpp>
using namespace weft;

template <bool RowMajor>
struct other_matrix {
  static constexpr bool IsRowMajor = RowMajor;
  float values[6]{};
  float* data() { return values; }
  int size() const { return 6; }
  int rows() const { return 2; }
  int cols() const { return 3; }
};

int main() {
#ifdef WEFT_SHOULD_FAIL
  other_matrix<false> m;
#else
  other_matrix<true> m;
#endif
  tensor_view<float, dims<2, 3>> x(m);
}
