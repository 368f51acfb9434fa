// SPDX-License-Identifier: BSL-1.0
#include <map>
#include <tuple>

#include <weft/nn.hpp>
#include <weft/nn/recurrent.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case map_key: The keys of a map of layers are floats.
// error: map_key_is_not_a_name<float>
// error: keys of a map of layers must be integers, enumerations or strings
struct model_by_rate {
  std::map<float, nn::dense<4>> heads;  // wrong
  std::map<int, nn::dense<4>> heads;    // right
  std::map<float, std::string> titles;  // right
};

int main() {
  const model_by_rate made;
  auto net = nn::named(made, "net");
}

// case map_key_layer: The keys of a map are pointers to layers.
// error: map_key_is_not_a_name<.*dense
// error: keys of a map of layers must be integers, enumerations or strings
struct model_of_rates {
  nn::dense<4> hidden;
  std::map<nn::dense<4>*, float> rates;  // wrong
  std::map<const char*, float> rates;    // right
};

int main() {
  const model_of_rates made;
  auto net = nn::named(made, "net");
}

// case model_base: A model with a base class does not list its layers.
// error: model_has_no_named_members
// error: without bases
struct encoder {
  nn::dense<4> first;
};
struct classifier : encoder {  // wrong
  nn::dense<10> head;          // wrong
};  // wrong
struct classifier : encoder {                                        // right
  nn::dense<10> head;                                                // right
  void visit(const std::string& path, nn::layer_visitor& v) const {  // right
    v(path, "first", first);                                         // right
    v(path, "head", head);                                           // right
  }  // right
};  // right

int main() {
  const classifier made;
  auto net = nn::named(made, "net");
}

// case model_inherited_visit: A derived layer has a variable that the inherited visit() does not list.
// error: model_has_no_named_members<.*scaled_dense
// error: lists its members
struct scaled_dense : nn::dense<4> {
  variable_node<float, dims<4>> scale;
  void visit(const std::string& path, nn::layer_visitor& v) const {  // right
    nn::dense<4>::visit(path, v);                                    // right
    v(path, "scale", scale);                                         // right
  }  // right
};
struct model {
  scaled_dense hidden;
  nn::dense<10> head;
};

int main() { auto net = nn::named(model(), "net"); }

// case model_lambda: A lambda captures a layer, which would be neither trained nor saved.
// error: model_has_no_named_members
// error: lambdas that capture
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 4>>(g);
const nn::dense<4> inner;
const nn::sequential net(nn::dense<4>(), [&inner](const auto& h) { return inner(h); });    // wrong
const nn::sequential net(nn::dense<4>(), &inner, [](const auto& h) { return h * 0.5f; });  // right
auto parameters = nn::parameters(net);

// case model_members: A model with a constructor does not list its layers.
// error: model_has_no_named_members
// error: a part of a model is a layer, a variable, or an aggregate
class model {  // wrong
 public:       // wrong
  model() {}   // wrong

 private:               // wrong
  nn::dense<10> head_;  // wrong
};  // wrong
class model {                                                                                  // right
 public:                                                                                       // right
  model() {}                                                                                   // right
  void visit(const std::string& path, nn::layer_visitor& v) const { v(path, "head", head_); }  // right

 private:               // right
  nn::dense<10> head_;  // right
};  // right
auto net = nn::named(model(), "net");

// case model_pointer: A pointer leads to a model that does not list its layers.
// error: model_has_no_named_members<.*pointed
// error: lists its members
class pointed {
 public:
  pointed() {}
  template <class X>
  auto operator()(const X& x) const {
    return inner_(x);
  }
  void visit(const std::string& path, nn::layer_visitor& v) const { v(path, "inner", inner_); }  // right

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

// case model_reference: A reference to a layer has no name in its model.
// error: model_has_no_named_members<.*tied
// error: references
struct tied {
  const nn::dense<4>& first;  // wrong
  const nn::dense<4>* first;  // right
  nn::dense<4> second;
};

int main() {
  nn::dense<4> first;
  const tied net{first, {}};   // wrong
  const tied net{&first, {}};  // right
  auto parameters = nn::parameters(net);
}

// case model_union: A model has an anonymous union.
// error: model_has_no_named_members<model_with_union>
// error: unnamed unions
union count_or_rate {
  int count;
  float rate;
};
struct model_with_union {
  nn::dense<4> hidden;
  union {        // wrong
    int count;   // wrong
    float rate;  // wrong
  };  // wrong
  count_or_rate size;  // right
  nn::dense<4> last;
};

int main() {
  const model_with_union made{};
  auto net = nn::named(made, "net");
}

// case parallel_features: A part names other features than the operand has.
// error: features_differ<.*4>, 784>
// error: parallel: each part must be callable with the operand
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 4>>(g);
auto y = nn::parallel(nn::dense<8>(), nn::dense<2, 784>())(x);  // wrong
auto y = nn::parallel(nn::dense<8>(), nn::dense<2, 4>())(x);    // right

// case residual_extents: The branch changes the extents.
// error: branch_changes_extents
// error: residual: the branch must keep the extents of its operand
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 64>>(g);
auto y = nn::residual(nn::dense<32>())(x);                   // wrong
auto y = nn::residual(nn::dense<32>(), nn::dense<64>())(x);  // right

// case residual_features: A part names other features than the part before it returns.
// error: features_differ<.*8>, 784>
// error: residual: each part must be callable with the result of the part before it
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 4>>(g);
auto y = nn::residual(nn::dense<8>(), nn::dense<4, 784>())(x, nn::mode::training);  // wrong
auto y = nn::residual(nn::dense<8>(), nn::dense<4, 8>())(x, nn::mode::training);    // right

// case sequential_features: A part names other features than the part before it returns.
// error: features_differ<.*8>, 784>
// error: sequential: each part must be callable with the result of the part before it
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 4>>(g);
auto y = nn::sequential(nn::dense<8>(), nn::relu, nn::dense<10, 784>())(x);  // wrong
auto y = nn::sequential(nn::dense<8>(), nn::relu, nn::dense<10, 8>())(x);    // right

// case sequential_lstm: A dense layer takes the whole result of a recurrent layer, which has several members.
// error: part_cannot_be_called<.*dense
// error: sequential: each part must be callable with the result
graph g;
auto x = placeholder<float, dims<dyn<"batch">, dyn<"time">, 4>>(g);
auto y = nn::sequential(nn::lstm<4>(), nn::dense<2>())(x);                                          // wrong
auto y = nn::sequential(nn::lstm<4>(), [](const auto& h) { return h.states; }, nn::dense<2>())(x);  // right

// case sequential_lstm_norm: batch_norm takes the whole result of a recurrent layer, which has several members.
// error: part_cannot_be_called<.*batch_norm
// error: sequential: each part must be callable with the result
graph g;
auto x = placeholder<float, dims<dyn<"batch">, dyn<"time">, 4>>(g);
auto states = [](const auto& h) { return h.states; };
auto y = nn::sequential(nn::lstm<4>(), nn::batch_norm<>())(x, nn::mode::training);          // wrong
auto y = nn::sequential(nn::lstm<4>(), states, nn::batch_norm<>())(x, nn::mode::training);  // right

// case sequential_mode: A batch_norm without a mode.
// error: mode_is_missing
// error: sequential: a part of the block requires a mode
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 4>>(g);
const nn::sequential net(nn::dense<8>{}, nn::batch_norm<>(), nn::dense<1>());
auto y = net(x);                      // wrong
auto y = net(x, nn::mode::training);  // right

// case sequential_model_mode: A model that takes a mode is called without one.
// error: mode_is_missing<.*block
// error: residual: a part of the block requires a mode
struct block {
  nn::dense<4> hidden;
  nn::dropout drop;
  auto operator()(const auto& x, nn::mode how) const { return drop(hidden(x), how); }
};

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 4>>(g);
  const nn::residual net(nn::dense<4>(), nn::relu, block());
  auto y = net(x);                       // wrong
  auto y = net(x, nn::mode::inference);  // right
}

// case sequential_nested: A part of a nested block takes images without channels.
// error: images_are_not_of_rank_4
// error: sequential: each part must be callable with the result of the part before it
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 28, 28, 1>>(g);
auto y = nn::sequential(nn::parallel(nn::flatten(), nn::sequential(nn::flatten(), nn::max_pool2d<2>())))(x);  // wrong
auto y = nn::sequential(nn::parallel(nn::flatten(), nn::sequential(nn::max_pool2d<2>(), nn::flatten())))(x);  // right

// case sequential_number: A part is a number.
// error: part_cannot_be_called<int,
// error: sequential: each part must be callable
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 4>>(g);
auto y = nn::sequential(nn::dense<8>(), 10)(x);               // wrong
auto y = nn::sequential(nn::dense<8>(), nn::dense<10>())(x);  // right

// case sequential_replicas: The operand is the values of several replicas.
// error: one node, and a mode if a part needs one: net\(x, nn::mode::training\)
graph g;
auto first = placeholder<float, dims<8, 4>>(g);
auto second = placeholder<float, dims<6, 4>>(g);
const nn::sequential hidden(nn::dense<8>{}, nn::relu, nn::dense<3>{});
const nn::batch_norm<> norm;
auto y = nn::sequential(hidden, norm)(std::tuple(first, second), nn::mode::training);  // wrong
auto y = norm(std::tuple(hidden(first), hidden(second)), nn::mode::training);          // right
