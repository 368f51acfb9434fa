// A strategy's type in place of its value.
// error(clang++): 'collective' does not refer to a value
// error(g++): expected primary-expression before '\)' token
#include <weft/distributed.hpp>
using namespace weft;

int main() {
  cluster_spec cluster{{"ps", "127.0.0.1:2222"}};
  server here(cluster, "ps", 0);
  graph g;
#ifdef WEFT_SHOULD_FAIL
  replicated_session s(g, here, collective);
#else
  replicated_session s(g, here, collective{});
#endif
}
