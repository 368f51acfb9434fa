// A tensor of a checkpoint is read as a node.
// error: read: it reads a tensor<T, dims<...>>: checkpoint.read<tensor<...>>\(name\)
// error: file_is_not_read_as
#include <weft/checkpoint/tensorflow_checkpoint.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  const tensorflow_checkpoint checkpoint("model.ckpt");
#ifdef WEFT_SHOULD_FAIL
  checkpoint.read<node<float, dims<3>>>("weights");
#else
  checkpoint.read<tensor<float, dims<3>>>("weights");
#endif
}
