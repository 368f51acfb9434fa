// A layer derived from another has a variable that the inherited visit() does not list.
// error: model_has_no_named_members<.*scaled_dense
// error: lists its members
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

struct scaled_dense : nn::dense<4> {
  variable_node<float, dims<4>> scale;
#ifndef WEFT_SHOULD_FAIL
  void visit(const std::string& path, nn::layer_visitor& v) const {
    nn::dense<4>::visit(path, v);
    v(path, "scale", scale);
  }
#endif
};
struct model {
  scaled_dense hidden;
  nn::dense<10> head;
};

int main() { auto net = nn::named(model(), "net"); }
