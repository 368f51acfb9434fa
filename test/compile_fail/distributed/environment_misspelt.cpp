// A misspelt option of from_environment().
// error: of environment_options in distributed/cluster/environment\.hpp
#include <weft/distributed/cluster/environment.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  auto here = cluster_spec::from_environment({.servers = 1});
#else
  auto here = cluster_spec::from_environment({});
#endif
}
