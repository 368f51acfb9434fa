// The layers of a map cannot have its keys as names.
// error: map_key_is_not_a_name<float>
// error: keys of a map of layers are integers, enumerations or strings
#include <map>

#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

struct model_by_rate {
#ifdef WEFT_SHOULD_FAIL
  std::map<float, nn::dense<4>> heads;
#else
  std::map<int, nn::dense<4>> heads;
  std::map<float, std::string> titles;
#endif
};

int main() {
  const model_by_rate made;
  auto net = nn::named(made, "net");
}
