// A model with a constructor does not list its layers.
// error: model_has_no_named_members
// error: a part of a model is a layer, a variable, or an aggregate
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  class model {
   public:
    model() {}

   private:
    nn::dense<10> head_;
  };
#else
  class model {
   public:
    model() {}
    void visit(const std::string& path, nn::layer_visitor& v) const { v(path, "head", head_); }

   private:
    nn::dense<10> head_;
  };
#endif
  auto net = nn::named(model(), "net");
}
