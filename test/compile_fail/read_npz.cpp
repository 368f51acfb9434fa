// An array of an archive is read as its elements' type.
// error: read: it reads a tensor<T, dims<...>>: npz.read<tensor<...>>\(name\)
// error: file_is_not_read_as
#include <weft/checkpoint/npz.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  const npz_reader archive("a.npz");
#ifdef WEFT_SHOULD_FAIL
  archive.read<float>("a");
#else
  archive.read<tensor<float> >("a");
#endif
}
