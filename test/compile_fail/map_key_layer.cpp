// The keys of a map are pointers to layers.
// error: map_key_is_not_a_name<.*dense
// error: keys of a map of layers are integers, enumerations or strings
#include <map>

#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

struct model_of_rates {
  nn::dense<4> hidden;
#ifdef WEFT_SHOULD_FAIL
  std::map<nn::dense<4>*, float> rates;
#else
  std::map<const char*, float> rates;
#endif
};

int main() {
  const model_of_rates made;
  auto net = nn::named(made, "net");
}
