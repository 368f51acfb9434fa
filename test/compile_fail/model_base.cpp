// A model with a base class does not list its layers.
// error: model_has_no_named_members
// error: without bases
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

struct encoder {
  nn::dense<4> first;
};
#ifdef WEFT_SHOULD_FAIL
struct classifier : encoder {
  nn::dense<10> head;
};
#else
struct classifier : encoder {
  nn::dense<10> head;
  void visit(const std::string& path, nn::layer_visitor& v) const {
    v(path, "first", first);
    v(path, "head", head);
  }
};
#endif

int main() {
  const classifier made;
  auto net = nn::named(made, "net");
}
