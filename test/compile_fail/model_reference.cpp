// A reference to a layer has no name in its model.
// error: model_has_no_named_members<.*tied
// error: references
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

struct tied {
#ifdef WEFT_SHOULD_FAIL
  const nn::dense<4>& first;
#else
  const nn::dense<4>* first;
#endif
  nn::dense<4> second;
};

int main() {
  nn::dense<4> first;
#ifdef WEFT_SHOULD_FAIL
  const tied net{first, {}};
#else
  const tied net{&first, {}};
#endif
  auto parameters = nn::parameters(net);
}
