// A pointer leads to a model that does not list its layers.
// error: model_has_no_named_members<.*pointed
// error: lists its members
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

class pointed {
 public:
  pointed() {}
  template <class X>
  auto operator()(const X& x) const {
    return inner_(x);
  }
#ifndef WEFT_SHOULD_FAIL
  void visit(const std::string& path, nn::layer_visitor& v) const { v(path, "inner", inner_); }
#endif

 private:
  nn::dense<4> inner_;
};
struct model_with_pointer {
  pointed* shared = nullptr;
  nn::dense<10> head;
};

int main() {
  const model_with_pointer made;
  auto net = nn::named(made, "net");
}
