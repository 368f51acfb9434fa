// A file is read as a vector, which has no extents.
// error: read_npy: it reads a tensor<T, dims<...>>: read_npy<tensor<...>>\(path\)
// error: file_is_not_read_as
#include <vector>
#include <weft/checkpoint/npy.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  read_npy<std::vector<float>>("a.npy");
#else
  read_npy<tensor<float, dims<3>>>("a.npy");
#endif
}
