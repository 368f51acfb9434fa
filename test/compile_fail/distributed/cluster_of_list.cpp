// Addresses without a job.
// error: \{\{"ps", "a:1"\}, \{"worker", \{"b:1", "c:1"\}\}\}
#include <weft/distributed.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  cluster_spec cluster{"127.0.0.1:2222", "127.0.0.1:2223"};
#else
  cluster_spec cluster{{"ps", "127.0.0.1:2222"}, {"worker", "127.0.0.1:2223"}};
#endif
}
