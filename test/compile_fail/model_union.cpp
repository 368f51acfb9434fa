// A model has an anonymous union.
// error: model_has_no_named_members<model_with_union>
// error: unnamed unions
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

union count_or_rate {
  int count;
  float rate;
};
struct model_with_union {
  nn::dense<4> hidden;
#ifdef WEFT_SHOULD_FAIL
  union {
    int count;
    float rate;
  };
#else
  count_or_rate size;
#endif
  nn::dense<4> last;
};

int main() {
  const model_with_union made{};
  auto net = nn::named(made, "net");
}
