// SPDX-License-Identifier: BSL-1.0
// Layers as members of models: their names, variables, first values, results and mistakes.
#include <algorithm>
#include <any>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <weft/control_flow.hpp>
#include <weft/nn.hpp>
#include <weft/nn/pytorch.hpp>
#include <weft/nn/weight.hpp>
#include <weft/nn/weights.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"

using namespace weft;
using nn::mode;

template <>
inline constexpr bool weft::nn::has_no_layers<std::any> = true;

namespace {

constexpr auto batch = dyn<"batch">;

std::vector<std::string> names(const graph& g) {
  std::vector<std::string> all;
  for (const variable_description& v : variables(g)) all.push_back(v.name);
  return all;
}

void check_names(const graph& g, const std::vector<std::string>& expected) {
  const std::vector<std::string> there = names(g);
  BOOST_CHECK_EQUAL_COLLECTIONS(there.begin(), there.end(), expected.begin(), expected.end());
}

struct lenet {
  nn::conv2d<5, 32> first{.activation = nn::relu};
  nn::conv2d<5, 64> second{.activation = nn::relu};
  nn::dense<1024> hidden{.activation = nn::relu};
  nn::dense<10> logits;

  auto operator()(const auto& images) const {
    auto halved = max_pool2d<2>(first(images));
    auto quartered = max_pool2d<2>(second(halved));
    return logits(hidden(nn::flatten()(quartered)));
  }
};

struct block {
  nn::dense<4> inner;
  int times = 2;  // holds no layers
};

struct nested {
  std::array<block, 2> pair;
  std::vector<nn::dense<4>> list = std::vector<nn::dense<4>>(2);
  nn::sequential<nn::dense<4>, nn::activation<formula::tanh>, nn::dense<4>> chain;
  std::string remark = "no layer";

  auto operator()(const auto& x) const {
    auto h = pair[1].inner(pair[0].inner(x));
    for (const auto& each : list) h = each(h);
    return chain(h);
  }
};

/// A model with a constructor lists its layers.
class listed {
 public:
  explicit listed(double rate) : drop_{.rate = rate} {}
  auto operator()(const auto& x, mode how) const { return head_(drop_(x, how)); }
  void visit(const std::string& path, nn::layer_visitor& v) const { v(path, "head", head_); }

 private:
  nn::dropout drop_;
  nn::dense<3> head_;
};

template <class D>
tensor<float, D> filled(const shape& extents, float scale) {
  tensor<float, D> t(extents);
  for (std::size_t i = 0; i < t.elements(); ++i) t.data()[i] = scale * static_cast<float>((i * 37) % 19) - 0.5f;
  return t;
}

}  // namespace

BOOST_AUTO_TEST_CASE(variables_have_the_names_of_members) {
  graph g;
  auto x = placeholder<float, dims<batch, 4>>(g, "x");
  const auto net = nn::named(nested(), "net");
  net(x);
  net(x);  // shares them
  check_names(g,
              {"net/pair/0/inner/weights", "net/pair/0/inner/bias", "net/pair/1/inner/weights", "net/pair/1/inner/bias",
               "net/list/0/weights", "net/list/0/bias", "net/list/1/weights", "net/list/1/bias", "net/chain/0/weights",
               "net/chain/0/bias", "net/chain/2/weights", "net/chain/2/bias"});
  BOOST_CHECK_EQUAL(nn::parameters(net).size(), 12u);
  BOOST_CHECK_EQUAL(nn::parameters(net.pair[1]).size(), 2u);
}

BOOST_AUTO_TEST_CASE(a_model_has_many_members) {
  struct wide {
    nn::dense<4> a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, function, object, count,
        t1, t2, t3;
  };
  graph g;
  const auto net = nn::named(wide(), "wide");
  auto x = placeholder<float, dims<batch, 4>>(g, "x");
  net.f(x), net.t(x), net.function(x), net.t3(x);
  check_names(g, {"wide/f/weights", "wide/f/bias", "wide/t/weights", "wide/t/bias", "wide/function/weights",
                  "wide/function/bias", "wide/t3/weights", "wide/t3/bias"});
}

struct part {
  nn::dense<4> hidden;
  std::string label = "part";
  auto operator()(const auto& x) const { return hidden(x); }
};
struct keeper {
  part one;
  std::optional<nn::dense<4>> maybe = nn::dense<4>(), none;
  std::shared_ptr<nn::dense<4>> shared = std::make_shared<nn::dense<4>>();
  std::tuple<nn::dense<4>, int> several;
  std::pair<int, nn::dense<4>> pair;
  std::vector<part> list{1};
  auto operator()(const auto& x) const {
    return list[0](pair.second(std::get<0>(several)((*shared)((*maybe)(one(x))))));
  }
};

BOOST_AUTO_TEST_CASE(layers_have_names_wherever_a_model_keeps_them) {
  graph g;
  const auto net = nn::named(keeper(), "net");
  net(placeholder<float, dims<batch, 4>>(g, "x"));
  check_names(g, {"net/one/hidden/weights", "net/one/hidden/bias", "net/maybe/weights", "net/maybe/bias",
                  "net/shared/weights", "net/shared/bias", "net/several/0/weights", "net/several/0/bias",
                  "net/pair/1/weights", "net/pair/1/bias", "net/list/0/hidden/weights", "net/list/0/hidden/bias"});
  BOOST_CHECK_EQUAL(nn::parameters(net).size(), 12u);
}

struct arrays {
  nn::dense<4> row[3];
  int sizes[4] = {1, 2, 3, 4};
  std::string label = "arrays";
  std::array<nn::dense<4>, 2> pair;
  part grid[2][2];
  std::variant<nn::dense<4>, part> one = part();
  nn::dense<4> single[1];
  float numbers[2][2] = {};
  std::optional<part> maybe[2] = {part(), {}};
  nn::sequential<nn::dense<4>, nn::dense<4>> chains[2];
  auto operator()(const auto& x) const {
    auto h = pair[1](pair[0](row[2](row[1](row[0](x)))));
    for (const auto& line : grid)
      for (const auto& each : line) h = each(h);
    h = std::visit([&](const auto& m) { return m(h); }, one);
    return chains[1](chains[0]((*maybe[0])(single[0](h))));
  }
};

BOOST_AUTO_TEST_CASE(layers_stand_in_arrays_and_variants) {
  graph g;
  const auto net = nn::named(arrays(), "net");
  net(placeholder<float, dims<batch, 4>>(g, "x"));
  std::vector<std::string> expected;
  for (const char* layer : {"row/0", "row/1", "row/2", "pair/0", "pair/1", "grid/0/0/hidden", "grid/0/1/hidden",
                            "grid/1/0/hidden", "grid/1/1/hidden", "one/hidden", "single/0", "maybe/0/hidden",
                            "chains/0/0", "chains/0/1", "chains/1/0", "chains/1/1"})
    for (const char* variable : {"weights", "bias"}) expected.push_back(std::string("net/") + layer + "/" + variable);
  std::vector<std::string> there = names(g);
  std::sort(there.begin(), there.end()), std::sort(expected.begin(), expected.end());
  BOOST_CHECK_EQUAL_COLLECTIONS(there.begin(), there.end(), expected.begin(), expected.end());
  BOOST_CHECK_EQUAL(nn::parameters(net).size(), 32u);
  BOOST_CHECK_EQUAL(nn::parameters(net.row).size(), 6u);
  BOOST_CHECK_EQUAL(nn::parameters(net.one).size(), 2u);
  BOOST_CHECK_EQUAL(nn::parameter_count(net), 16 * 20);
}

BOOST_AUTO_TEST_CASE(members_without_default_values_have_names) {
  struct needs_arguments {  // no initializer may be left out
    nn::dense<4> first;
    listed second;
    nn::dense<4> row[2];
    listed last;
  };
  graph g;
  const auto net = nn::named(needs_arguments{{}, listed(0.5), {}, listed(0.25)}, "net");
  auto x = placeholder<float, dims<batch, 4>>(g, "x");
  net.first(x), net.second(x, mode::inference), net.row[1](x), net.last(x, mode::inference);
  check_names(g, {"net/first/weights", "net/first/bias", "net/second/head/weights", "net/second/head/bias",
                  "net/row/1/weights", "net/row/1/bias", "net/last/head/weights", "net/last/head/bias"});
}

struct two_towers {
  nn::dense<3> left, right;
  nn::dropout drop{.rate = 0.5};
  auto operator()(const auto& a, const auto& b, mode how) const { return drop(left(a) * right(b), how); }
};

BOOST_AUTO_TEST_CASE(a_description_takes_all_operands_of_a_call) {
  graph g;
  auto a = placeholder<float, dims<batch, 4>>(g, "a");
  auto b = placeholder<float, dims<batch, 5>>(g, "b");
  const auto net = nn::named(two_towers(), "net");
  CHECK_SAYS(test::failure(error_code::failed_precondition, [&] { (void)nn::describe(net); }), "not called yet");
  CHECK_SAYS(test::failure(error_code::failed_precondition, [&] { (void)nn::parameter_count(net); }),
             "no variables yet");
  const std::string text = nn::describe(net, a, b);
  for (const char* line : {"layer  output      parameters  multiply-adds  bytes\n",
                           "left   [batch, 3]          15             12     12\n",
                           "right  [batch, 3]          18             15     12\n",
                           "sum                        33             27     24\n"})
    BOOST_CHECK_MESSAGE(test::contains(text, line), std::string("missing: ") + line + text);
  BOOST_CHECK_EQUAL(nn::describe(net), text);
  BOOST_CHECK_EQUAL(nn::parameter_count(net), 33);
  BOOST_CHECK_EQUAL(nn::parameter_count(net.right), 18);
}

struct dense_and_weight {
  nn::dense<3> dense;
  nn::weight<dims<3>> gamma{init::ones{}};
  auto operator()(const auto& x) const { return dense(x) * gamma(x); }
};

BOOST_AUTO_TEST_CASE(a_description_contains_weights_without_layers) {
  graph g;
  auto x = placeholder<float, dims<batch, 4>>(g, "x");
  const auto net = nn::named(dense_and_weight(), "net");
  const std::string text = nn::describe(net, x);
  for (const char* line : {"gamma                       3              0      0\n",
                           "sum                        18             12     12\n"})
    BOOST_CHECK_MESSAGE(test::contains(text, line), std::string("missing: ") + line + text);
}

struct tied {
  std::shared_ptr<nn::dense<4>> first = std::make_shared<nn::dense<4>>(), second = first;
  nn::batch_norm<> norm;
  auto operator()(const auto& x) const { return norm((*second)((*first)(x)), mode::inference); }
};

BOOST_AUTO_TEST_CASE(shared_layers_count_once) {
  graph g;
  auto x = placeholder<float, dims<batch, 4>>(g, "x");
  const tied net;
  auto y = net(x);
  BOOST_CHECK_EQUAL(nn::parameters(net).size(), 6u);
  BOOST_CHECK_EQUAL(nn::parameter_count(net), 20 + 8);  // without the moving averages
  BOOST_CHECK(test::contains(nn::describe(net), " 28 "));
  BOOST_CHECK_EQUAL(nn::freeze(net), 4u);
  BOOST_CHECK_EQUAL(nn::parameter_count(net), 28);
  BOOST_CHECK_EQUAL(nn::unfreeze(net), 4u);
  static_cast<void>(gradient_descent{.learning_rate = 0.1f}.minimize(mean(square(y)), nn::parameters(net)));
}

struct lenet_5 {
  nn::conv2d<5, 6, conv2d_options{.pad = padding::same}> c1;
  nn::conv2d<5, 16, conv2d_options{.pad = padding::valid}> c3;
  nn::dense<120> c5;
  nn::dense<84> f6;
  nn::dense<10> out;
  auto operator()(const auto& x) const { return out(f6(c5(nn::flatten()(max_pool2d<2>(c3(max_pool2d<2>(c1(x)))))))); }
};

/// LeCun et al., 1998, as torchvision-style reimplementations count it: 6 and 16 filters, 120, 84 and 10 units.
BOOST_AUTO_TEST_CASE(lenet_5_has_61706_parameters) {
  graph g;
  const lenet_5 net;
  net(placeholder<float, dims<batch, 28, 28, 1>>(g, "x"));
  BOOST_CHECK_EQUAL(nn::parameter_count(net), 61'706);
}

BOOST_AUTO_TEST_CASE(layers_without_a_name_are_numbered) {
  graph g;
  auto x = placeholder<float, dims<batch, 4>>(g, "x");
  const nn::dense<4> a, b;
  const nn::dense<2> c{.use_bias = false};
  c(b(a(a(x))));
  check_names(g, {"dense/weights", "dense/bias", "dense_1/weights", "dense_1/bias", "dense_2/weights"});
}

BOOST_AUTO_TEST_CASE(a_model_with_a_constructor_lists_its_layers) {
  graph g;
  auto x = placeholder<float, dims<batch, 4>>(g, "x");
  const auto net = nn::named(listed(0.25), "net");
  net(x, mode::training);
  check_names(g, {"net/head/weights", "net/head/bias"});
}

BOOST_AUTO_TEST_CASE(a_model_moves_and_copies_share_its_variables) {
  graph g;
  auto x = placeholder<float, dims<batch, 4>>(g, "x");
  auto net = nn::named(nested(), "net");
  net(x);
  const auto moved = std::move(net);
  const auto copy = moved;
  copy(x);
  BOOST_CHECK_EQUAL(names(g).size(), 12u);
}

BOOST_AUTO_TEST_CASE(copies_before_the_first_call_are_refused) {
  graph g;
  auto x = placeholder<float, dims<batch, 4>>(g, "x");
  const nn::dense<4> layer;
  const nn::sequential net(layer, nn::relu, layer);
  BOOST_CHECK_EXCEPTION(net(x), error, test::says(error_code::failed_precondition, "copied before its first call"));
  const nn::dense<4> first, second = first;
  second(x);
  BOOST_CHECK_EXCEPTION(first(x), error, test::says(error_code::failed_precondition, "copied before its first call"));
  // Other names make other layers; a copy of one that was called shares its variables.
  const nn::dense<4> proto;
  const auto pair = nn::named(std::vector<nn::dense<4>>(2, proto), "pair");
  const auto copy = pair;
  pair[0](pair[1](x));
  BOOST_CHECK_EXCEPTION(copy[0](x), error, test::says(error_code::failed_precondition, "pair/0"));
  const auto later = pair;
  later[0](later[1](x));
  BOOST_CHECK_EQUAL(nn::parameters(later).size(), 4u);
  BOOST_CHECK(later[0].weights.id() == pair[0].weights.id());
}

BOOST_AUTO_TEST_CASE(copies_have_variables_in_graphs_of_their_own) {
  const auto blueprint = nn::named(part(), "net");
  const std::vector<std::string> expected{"net/hidden/weights", "net/hidden/bias"};
  for (int fold = 0; fold < 2; ++fold) {
    graph g;
    const auto net = blueprint;
    net(placeholder<float, dims<batch, 4>>(g, "x"));
    check_names(g, expected);
  }
  graph g;
  auto x = placeholder<float, dims<batch, 4>>(g, "x");
  const auto first = blueprint;
  first(x);
  // Threads copy one model at a time, each for a graph of its own.
  std::vector<std::vector<std::string>> found(4);
  std::vector<std::thread> threads;
  for (auto& each : found)
    threads.emplace_back([&blueprint, &each] {
      graph own;
      const auto net = blueprint;
      try {
        net(placeholder<float, dims<batch, 4>>(own, "x"));
        each = names(own);
      } catch (const error& e) {
        each = {e.what()};
      }
    });
  for (std::thread& each : threads) each.join();
  for (const auto& each : found)
    BOOST_CHECK_EQUAL_COLLECTIONS(each.begin(), each.end(), expected.begin(), expected.end());
  // The first graph still exists.
  const auto second = blueprint;
  BOOST_CHECK_EXCEPTION(second(x), error, test::says(error_code::failed_precondition, "copied before its first call"));
}

/// Does not note its result, and can fail in its first call.
struct unnoted {
  nn::layer_state state{"unnoted"};
  mutable variable_node<float, dims<4>> scale;
  mutable int failures = 0;
  auto operator()(const auto& x) const {
    nn::layer_call call(state, x);
    if (failures-- > 0) throw error(error_code::unavailable, "unnoted", "fails");
    if (scale.empty()) scale = variable<float, dims<4>>(graph_of(x), "scale", init::ones{});
    return let(x * scale);
  }
};

BOOST_AUTO_TEST_CASE(a_layer_is_not_a_copy_of_itself) {
  graph g;
  auto x = placeholder<float, dims<batch, 4>>(g, "x");
  const auto first = nn::named(unnoted(), "first"), copy = first;
  first(x), first(x);
  check_names(g, {"first/scale"});
  BOOST_CHECK_EXCEPTION(copy(x), error, test::says(error_code::failed_precondition, "copied before its first call"));
  BOOST_CHECK_EXCEPTION(static_cast<void>(nn::named(first, "other")), error,
                        test::says(error_code::failed_precondition, "before its first call"));
  const auto failing = nn::named(unnoted{nn::layer_state("unnoted"), {}, 1}, "failing");
  BOOST_CHECK_EXCEPTION(failing(x), error, test::says(error_code::unavailable, "fails"));
  failing(x);
  check_names(g, {"first/scale", "failing/scale"});
}

struct borrower {
  std::reference_wrapper<const nn::dense<4>> embedding;
  nn::dense<4> own;
};

BOOST_AUTO_TEST_CASE(borrowed_layers_keep_their_names) {
  graph g;
  auto x = placeholder<float, dims<batch, 4>>(g, "x");
  const nn::dense<4> called;
  const auto named = nn::named(nn::dense<4>(), "embedding");
  const nn::dense<4> unnamed;
  called(x);
  const auto net = nn::named(nn::sequential(&called, nn::relu, &named, &unnamed, nn::dense<4>()), "net");
  const auto wrapped = nn::named(borrower{named, {}}, "wrapped");
  net(wrapped.own(wrapped.embedding(x)));
  check_names(g, {"dense/weights", "dense/bias", "embedding/weights", "embedding/bias", "wrapped/own/weights",
                  "wrapped/own/bias", "net/3/weights", "net/3/bias", "net/4/weights", "net/4/bias"});
  BOOST_CHECK_EQUAL(nn::parameters(net).size(), 8u);
  BOOST_CHECK_EXCEPTION(static_cast<void>(nn::named(called, "other")), error,
                        test::says(error_code::failed_precondition, "before its first call"));
}

struct forty_numbers {
  double a[20], b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u;
};
struct many_numbers {
  double a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, aa, bb, cc, dd, ee, ff, gg, hh;
};
struct opaque;
class sink {
 public:
  explicit sink(int level) : level_(level) {}
  int level() const { return level_; }

 private:
  int level_;
  std::string name_;
};
struct with_foreign_members {
  nn::dense<4> hidden;
  forty_numbers settings{};
  many_numbers limits{};
  std::FILE* file = nullptr;
  std::ostream* out = nullptr;
  opaque* handle = nullptr;
  const sink* log = nullptr;
  std::multimap<std::string, nn::dense<4>> heads;
};

BOOST_AUTO_TEST_CASE(members_without_layers_are_passed_over) {
  graph g;
  auto x = placeholder<float, dims<batch, 4>>(g, "x");
  const auto scaled_by = nn::named(
      nn::sequential(nn::dense<4>(), [s = 0.5, n = 2](const auto& h) { return let(h * static_cast<float>(s * n)); }),
      "chain");
  scaled_by(x);
  with_foreign_members made;
  made.heads.emplace("left", nn::dense<4>()), made.heads.emplace("left", nn::dense<4>());
  made.out = &std::cout;
  const sink log(1);
  made.log = &log;
  const auto net = nn::named(std::move(made), "net");
  net.hidden(x);
  // Two layers of one key have different names.
  for (const auto& each : net.heads) each.second(x);
  check_names(g, {"chain/0/weights", "chain/0/bias", "net/hidden/weights", "net/hidden/bias", "net/heads/0/1/weights",
                  "net/heads/0/1/bias", "net/heads/1/1/weights", "net/heads/1/1/bias"});
  BOOST_CHECK_EQUAL(nn::parameters(net).size(), 6u);
}

/// A layer of the user's, as docs/how-to/custom-layers.md shows.
struct scaled {
  nn::layer_state state{"scaled"};
  mutable variable_node<float, dims<4>> scale;
  mutable variable_node<float, dims<4>> mean;
  nn::dense<4> inner{.use_bias = false};

  auto operator()(const auto& e) const {
    const auto x = let(e);
    nn::layer_call call(state, x);
    graph& g = graph_of(x);
    if (scale.empty()) {
      scale = variable<float, dims<4>>(g, "scale", init::ones{});
      mean = variable<float, dims<4>>(g, "mean", init::zeros{}, variable_kind::averaged);
    }
    return call.result(inner(x - mean) * scale);
  }
};
/// Without a state: its variables have the names that they are created with.
template <int N>
struct shifted {
  mutable variable_node<float, dims<N>> shift;
  mutable nn::parameter untyped;
  node<float, dims<batch, N>> last;
  auto operator()(const auto& x) const {
    if (shift.empty()) shift = variable<float, dims<N>>(graph_of(x), "shift", init::zeros{});
    return let(x + shift);
  }
};
struct with_own_layers {
  nn::dense<4> d;
  scaled s;
  shifted<4> t;
  std::vector<scaled> more{1};
  auto operator()(const auto& x) const { return more[0](t(s(d(x)))); }
};

BOOST_AUTO_TEST_CASE(variables_of_own_layers_belong_to_the_model) {
  graph g;
  auto x = placeholder<float, dims<batch, 4>>(g, "x");
  const auto net = nn::named(with_own_layers(), "net");
  auto y = net(x);
  net(x);
  check_names(g, {"net/d/weights", "net/d/bias", "net/s/scale", "net/s/mean", "net/s/inner/weights", "shift",
                  "net/more/0/scale", "net/more/0/mean", "net/more/0/inner/weights"});
  BOOST_CHECK_EQUAL(nn::parameters(net).size(), 9u);
  BOOST_CHECK_EQUAL(nn::parameters(net.s.scale).size(), 1u);
  BOOST_CHECK_EQUAL(nn::parameter_count(net), 20 + 20 + 4 + 20);
  const std::string text = nn::describe(net, x);
  BOOST_CHECK_MESSAGE(test::contains(text, "s             [batch, 4]           4              0     16\n"), text);
  BOOST_CHECK_MESSAGE(test::contains(text, "t/shift                            4              0      0\n"), text);
  BOOST_CHECK_MESSAGE(test::contains(text, "sum                               64             48     80\n"), text);

  BOOST_CHECK_EQUAL(nn::freeze(net.s), 2u);  // not the average
  BOOST_CHECK_EQUAL(nn::unfreeze(net.s), 2u);
  auto train = gradient_descent{.learning_rate = 0.1}.minimize(mean(square(y)), nn::parameters(net));
  session s{g};
  const auto ones4 = ones<float, dims<2, 4>>();
  s.run(fetch(train), with(x, ones4));
  const auto scale = s.get(net.s.scale);
  BOOST_CHECK(!(scale == ones<float, dims<4>>()));
  BOOST_CHECK(!(s.get(net.t.shift) == zeros<float, dims<4>>()));
  const std::string path = "nn_layers_own.safetensors";
  nn::save_weights(path, net, s);
  session other{g};
  BOOST_CHECK_EQUAL(nn::load_weights(path, net, other).restored.size(), 9u);
  BOOST_CHECK(other.get(net.s.scale) == scale);

  // torch.nn.Parameter and register_buffer of the same names.
  const auto filled4 = ones<float, dims<4>>();
  const auto square4 = ones<float, dims<4, 4>>();
  write_safetensors(path, {{"d.weight", square4},
                           {"d.bias", filled4},
                           {"s.scale", filled4},
                           {"s.mean", filled4},
                           {"s.inner.weight", square4},
                           {"t.shift", filled4},
                           {"more.0.scale", filled4},
                           {"more.0.mean", filled4},
                           {"more.0.inner.weight", square4}});
  BOOST_CHECK_EQUAL(nn::load_pytorch_weights(path, net, other).restored.size(), 9u);
  BOOST_CHECK(other.get(net.s.scale) == filled4);
  std::remove(path.c_str());
}

struct tree {
  nn::dense<4> value;
  tree* parent = nullptr;
  std::vector<std::unique_ptr<tree>> children;
};
struct pointers {
  nn::dense<4>* raw = nullptr;
  std::reference_wrapper<nn::dense<4>> wrapped;
  std::vector<nn::dense<4>*> list;
  std::map<std::string, nn::dense<4>> heads;
  std::unordered_map<int, shifted<4>> numbered;
  std::shared_ptr<tree> root = std::make_shared<tree>();
  std::optional<nn::dense<4>*> maybe;
  std::variant<int, nn::dense<4>*> either;
  std::tuple<int, nn::dense<4>*> both;
  nn::dense<4>* again = nullptr;  // the layer of raw
  // Members that hold no layers.
  graph* where = nullptr;
  const char* text = "";
  std::mt19937 engine;
  std::optional<double> rate;
  void (*function)() = nullptr;
};

BOOST_AUTO_TEST_CASE(pointers_and_maps_lead_to_layers) {
  graph g;
  auto x = placeholder<float, dims<batch, 4>>(g, "x");
  nn::dense<4> a, b, c, d, e, f;
  pointers p{.raw = &a, .wrapped = b, .list = {&c, nullptr}, .maybe = &d, .either = &e, .both = {1, &f}, .again = &a};
  p.heads["left"], p.heads["right"], p.numbered[7];
  p.root->children.push_back(std::make_unique<tree>());
  p.root->children[0]->parent = p.root.get();
  const auto net = nn::named(std::move(p), "net");
  for (const nn::dense<4>* each :
       std::initializer_list<const nn::dense<4>*>{&a, &b, &c, &d, &e, &f, &net.heads.at("left"), &net.heads.at("right"),
                                                  &net.root->value, &net.root->children[0]->value})
    (*each)(x);
  net.numbered.at(7)(x);
  std::vector<std::string> expected{"shift"}, there = names(g);
  for (const char* layer : {"raw", "wrapped", "list/0", "maybe", "either", "both/1", "heads/left", "heads/right",
                            "root/value", "root/children/0/value"})
    for (const char* variable : {"weights", "bias"}) expected.push_back(std::string("net/") + layer + "/" + variable);
  std::sort(there.begin(), there.end()), std::sort(expected.begin(), expected.end());
  BOOST_CHECK_EQUAL_COLLECTIONS(there.begin(), there.end(), expected.begin(), expected.end());
  BOOST_CHECK_EQUAL(nn::parameters(net).size(), 21u);
}

/// Members whose constructors take other types first: they are not base classes of the model.
struct with_options {
  nn::activation_option<float> activation = nn::relu;
  nn::stored_initializer first_value = init::zeros{};
  nn::dense<4> hidden;
};
struct with_any {
  std::any anything;
  with_options inner;
};

BOOST_AUTO_TEST_CASE(options_are_members_of_models) {
  graph g;
  auto x = placeholder<float, dims<batch, 4>>(g, "x");
  const auto net = nn::named(with_any(), "net");
  net.inner.hidden(x);
  check_names(g, {"net/inner/hidden/weights", "net/inner/hidden/bias"});
}

enum class side : unsigned char { left = 3, right = 200 };
struct keyed {
  std::map<side, nn::dense<4>> sides;
  std::unordered_map<std::int64_t, nn::dense<4>> numbered;
  std::map<char, nn::dense<4>> letters;
  std::map<std::string, nn::dense<4>, std::less<>> named;
  // Maps without layers have any keys.
  std::map<double, std::vector<int>> table;
  std::map<const graph*, std::string> graphs;
  std::map<std::pair<int, int>, float> pairs;
};

BOOST_AUTO_TEST_CASE(keys_of_maps_are_names) {
  graph g;
  auto x = placeholder<float, dims<batch, 4>>(g, "x");
  keyed made;
  made.sides[side::left], made.sides[side::right], made.numbered[-2], made.letters['A'], made.named["a-b"];
  const auto net = nn::named(std::move(made), "net");
  net.sides.at(side::left)(net.sides.at(side::right)(net.numbered.at(-2)(net.letters.at('A')(net.named.at("a-b")(x)))));
  std::vector<std::string> expected, there = names(g);
  for (const char* layer : {"sides/3", "sides/200", "numbered/-2", "letters/65", "named/a-b"})
    for (const char* variable : {"weights", "bias"}) expected.push_back(std::string("net/") + layer + "/" + variable);
  std::sort(there.begin(), there.end()), std::sort(expected.begin(), expected.end());
  BOOST_CHECK_EQUAL_COLLECTIONS(there.begin(), there.end(), expected.begin(), expected.end());
  for (const char* key : {"", "a.b", "a/b", ".", "/"}) {
    keyed wrong;
    wrong.named[key];
    CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { (void)nn::named(std::move(wrong), "net"); }),
               std::string("net/named: the key \"") + key + "\"");
  }
}

BOOST_AUTO_TEST_CASE(results_are_those_of_the_functions) {
  graph g;
  auto images = placeholder<float, dims<batch, 28, 28, 1>>(g, "images");
  auto net = nn::named(lenet(), "lenet");
  auto y = net(images);
  static_assert(std::is_same_v<decltype(y), node<float, dims<batch, 10>>>);
  const auto w1 = net.first.weights.as<dims<5, 5, 1, 32>>();
  const auto w2 = net.second.weights.as<dims<5, 5, 32, 64>>();
  const auto b1 = net.first.bias.as<dims<32>>();
  const auto b2 = net.second.bias.as<dims<64>>();
  const auto w3 = net.hidden.weights.as<dims<3136, 1024>>();
  const auto w4 = net.logits.weights.as<dims<1024, 10>>();
  const auto b3 = net.hidden.bias.as<dims<1024>>();
  const auto b4 = net.logits.bias.as<dims<10>>();
  session s{g};
  const auto some = [&](const auto& b) { s.set(b, eval(s.get(b) + 0.125f)); };
  some(b1), some(b2), some(b3), some(b4);
  const auto x = filled<dims<batch, 28, 28, 1>>(shape(2, 28, 28, 1), 0.05f);
  const auto z = [&] {
    auto a = eval(max_pool2d<2>(relu(conv2d(x, s.get(w1)) + s.get(b1))));
    auto b = eval(max_pool2d<2>(relu(conv2d(a, s.get(w2)) + s.get(b2))));
    auto c = eval(relu(matmul(reshape<dims<batch, 3136>>(b), s.get(w3)) + s.get(b3)));
    return eval(matmul(c, s.get(w4)) + s.get(b4));
  }();
  const auto result = s.eval(y, with(images, x));
  for (std::size_t i = 0; i < z.elements(); ++i) BOOST_CHECK_SMALL(result.data()[i] - z.data()[i], 1e-4f);
}

BOOST_AUTO_TEST_CASE(functions_are_activations) {
  graph g;
  auto x = placeholder<float, dims<batch, 4>>(g, "x");
  const nn::dense<3> function{.activation = gelu_tanh}, value{.activation = nn::gelu_tanh};
  BOOST_CHECK((nn::dense<3>{.activation = relu}).activation.is_relu());
  BOOST_CHECK(!function.activation.is_relu());
  auto a = function(x), b = value(x);
  session s{g};
  s.set(value.weights.as<dims<4, 3>>(), s.get(function.weights.as<dims<4, 3>>()));
  const auto in = filled<dims<batch, 4>>(shape(3, 4), 0.1f);
  BOOST_CHECK(s.eval(a, with(x, in)) == s.eval(b, with(x, in)));
}

BOOST_AUTO_TEST_CASE(layers_train) {
  graph g;
  auto x = placeholder<float, dims<batch, 6>>(g, "x");
  auto target = placeholder<float, dims<batch, 1>>(g, "target");
  const auto net = nn::named(nn::sequential(nn::dense<16>{.activation = nn::tanh}, nn::dense<1>()), "net");
  auto loss = mean(square(net(x) - target));
  auto train = adam{.learning_rate = 0.02f}.minimize(loss, nn::parameters(net));
  session s{g};
  auto step = s.prepare(fetch(loss, train), feed(x, target));
  const auto in = filled<dims<batch, 6>>(shape(32, 6), 0.06f);
  tensor<float, dims<batch, 1>> out(shape(32, 1));
  for (int i = 0; i < 32; ++i) out(i, 0) = in(i, 0) * in(i, 1) - in(i, 5);
  const float before = std::get<0>(step(in, out));
  float after = before;
  for (int i = 0; i < 300; ++i) after = std::get<0>(step(in, out));
  BOOST_CHECK_LT(after, before / 50);
}

BOOST_AUTO_TEST_CASE(first_values_are_those_that_keras_documents) {
  graph g(3);
  auto x = placeholder<float, dims<batch, 100>>(g, "x");
  const nn::dense<200> uniform;
  const nn::dense<200> other{.weights_init = init::constant{0.5}, .bias_init = init::ones{}};
  const nn::embedding<100, 50> words;
  uniform(x), other(x), words(placeholder<std::int32_t, dims<batch>>(g, "ids"));
  session s{g};
  const double limit = std::sqrt(6.0 / 300);  // glorot_uniform
  const auto w = s.get(uniform.weights.as<dims<100, 200>>());
  double sum = 0, squares = 0;
  for (const float v : w) {
    BOOST_REQUIRE(std::abs(v) <= limit);
    sum += v, squares += static_cast<double>(v) * v;
  }
  BOOST_CHECK_SMALL(sum / 20000, 3 * limit / std::sqrt(3.0 * 20000));
  BOOST_CHECK_CLOSE(squares / 20000, limit * limit / 3, 4.0);
  for (const float v : s.get(uniform.bias.as<dims<200>>())) BOOST_REQUIRE(v == 0);
  for (const float v : s.get(other.weights.as<dims<100, 200>>())) BOOST_REQUIRE(v == 0.5f);
  for (const float v : s.get(other.bias.as<dims<200>>())) BOOST_REQUIRE(v == 1);
  for (const float v : s.get(words.table)) BOOST_REQUIRE(v >= -0.05f && v < 0.05f);
}

BOOST_AUTO_TEST_CASE(an_embedding_takes_rows) {
  graph g;
  auto ids = placeholder<std::int64_t, dims<batch, 2>>(g, "ids");
  const nn::embedding<5, 3> words;
  auto y = words(ids);
  static_assert(std::is_same_v<decltype(y), node<float, dims<batch, 2, 3>>>);
  session s{g};
  const auto table = s.get(words.table);
  const auto rows = s.eval(y, with(ids, tensor<std::int64_t, dims<batch, 2>>(shape(2, 2), {4, 0, 1, 4})));
  const int expected[] = {4, 0, 1, 4};
  for (int i = 0; i < 12; ++i) BOOST_CHECK_EQUAL(rows.data()[i], table(expected[i / 3], i % 3));
}

BOOST_AUTO_TEST_CASE(dropout_depends_on_the_mode) {
  graph g;
  auto x = placeholder<float, dims<1000>>(g, "x");
  const nn::dropout drop{.rate = 0.25};
  auto trained = drop(x, mode::training), inferred = drop(x, mode::inference);
  session s{g};
  const auto ones = weft::ones<float, dims<1000>>();
  const auto [a, b] = s.run(fetch(trained, inferred), with(x, ones));
  int zeros = 0;
  for (const float v : a) zeros += v == 0;
  BOOST_CHECK(zeros > 180 && zeros < 320);
  for (const float v : b) BOOST_REQUIRE(v == 1);
}

BOOST_AUTO_TEST_CASE(batch_normalization_trains_as_in_pytorch) {
  using images_dims = dims<batch, 3, 3, 2>;
  std::ifstream file(TEST_DATA "/nn/layer_values.txt");
  std::string line;
  std::getline(file, line);
  const auto read = [&](std::size_t count) {
    BOOST_REQUIRE(std::getline(file, line));
    std::vector<double> values;
    std::istringstream words(line);
    for (std::string word; words >> word;) values.push_back(std::stod(word));
    BOOST_REQUIRE_EQUAL(values.size(), count);
    return values;
  };
  const auto images = read(72), residuals = read(72), scale = read(2), offset = read(2), mean = read(2),
             variance = read(2), inferred = read(72);

  graph g;
  auto x = placeholder<double, images_dims>(g, "x"), residual = placeholder<double, images_dims>(g, "residual");
  const auto norm =
      nn::named(nn::batch_norm<2, double>{.momentum = 0.9, .epsilon = 1e-5, .activation = nn::relu}, "norm");
  auto trained = norm(x, residual, mode::training);
  auto y = norm(x, residual, mode::inference);
  auto train = gradient_descent{.learning_rate = 0x1p-6}.minimize(sum(square(trained - 1.0)));
  session s{g};
  const tensor<double, images_dims> in(shape(4, 3, 3, 2), images), more(shape(4, 3, 3, 2), residuals);
  auto step = s.prepare(fetch(train), feed(x, residual));
  for (int i = 0; i < 3; ++i) step(in, more);
  const auto close = [&](const auto& found, const std::vector<double>& right) {
    for (std::size_t i = 0; i < right.size(); ++i) BOOST_CHECK_SMALL(found.data()[i] - right[i], 1e-12);
  };
  close(s.get(norm.scale), scale);
  close(s.get(norm.offset), offset);
  close(s.get(norm.moving_mean), mean);
  close(s.get(norm.moving_variance), variance);
  close(s.eval(y, with(x, in), with(residual, more)), inferred);
  BOOST_CHECK_EQUAL(variables(g, variable_kind::averaged).size(), 2u);
}

BOOST_AUTO_TEST_CASE(each_call_of_a_step_moves_the_averages) {
  graph g;
  auto real = placeholder<double, dims<batch, 2>>(g, "real");
  auto fake = placeholder<double, dims<dyn<"fakes">, 2>>(g, "fake");
  const auto norm = nn::named(nn::batch_norm<2, double>{.momentum = 0.75}, "norm");
  const nn::dense<2, 2, double> generator;
  const auto made = generator(fake);
  const auto of_real = norm(real, mode::training);
  const auto of_made = norm(made, mode::training);
  norm(real, mode::training);  // the same nodes
  auto both = gradient_descent{.learning_rate = 0.0}.minimize(sum(square(of_real - 1.0)) + sum(square(of_made)));
  auto one = gradient_descent{.learning_rate = 0.0}.minimize(sum(square(of_made - 3.0)));
  session s{g};
  const tensor<double, dims<batch, 2>> a(shape(2, 2), {1, 2, 5, 10});
  const tensor<double, dims<dyn<"fakes">, 2>> b(shape(3, 2), {0, 1, 2, 3, 4, 8});
  const auto [m, w] = s.run(fetch(made, generator.weights), with(fake, b));
  double mean[2] = {}, variance[2] = {1, 1};
  const auto move = [&](const auto& x) {
    const auto n = static_cast<std::size_t>(x.extents()[0]);
    for (std::size_t c = 0; c < 2; ++c) {
      double sum = 0, squares = 0;
      for (std::size_t i = 0; i < n; ++i) sum += x.data()[2 * i + c];
      const double average = sum / static_cast<double>(n);
      for (std::size_t i = 0; i < n; ++i) squares += (x.data()[2 * i + c] - average) * (x.data()[2 * i + c] - average);
      mean[c] = 0.75 * mean[c] + 0.25 * average;
      if (n) variance[c] = 0.75 * variance[c] + 0.25 * squares / static_cast<double>(n - 1);
    }
  };
  const auto check = [&] {
    for (std::size_t c = 0; c < 2; ++c) {
      BOOST_CHECK_CLOSE(s.get(norm.moving_mean).data()[c], mean[c], 1e-9);
      BOOST_CHECK_CLOSE(s.get(norm.moving_variance).data()[c], variance[c], 1e-9);
    }
  };
  s.run(fetch(both), with(real, a), with(fake, b));
  move(a), move(m);
  check();
  s.run(fetch(one), with(fake, b));  // needs no feed of the other call
  move(m);
  check();
  s.run(fetch(both, one), with(real, a), with(fake, b));
  move(a), move(m);
  check();
}

BOOST_AUTO_TEST_CASE(a_batch_without_elements_leaves_the_averages) {
  graph g;
  auto x = placeholder<float, dims<batch, 3, 2>>(g, "x");
  const auto norm = nn::named(nn::batch_norm<2>{.activation = nn::relu}, "norm");
  auto loss = sum(norm(x, mode::training));
  auto train = gradient_descent{.learning_rate = 0.5f}.minimize(loss);
  session s{g};
  auto step = s.prepare(fetch(loss, train), feed(x));
  tensor<float, dims<batch, 3, 2>> some(shape(4, 3, 2));
  for (std::size_t i = 0; i < some.elements(); ++i) some.data()[i] = static_cast<float>(i * i % 7);
  step(some);
  const auto all = [&] {
    return std::array{s.get(norm.moving_mean), s.get(norm.moving_variance), s.get(norm.scale), s.get(norm.offset)};
  };
  const auto before = all();
  BOOST_CHECK_EQUAL(std::get<0>(step(tensor<float, dims<batch, 3, 2>>(shape(0, 3, 2)))), 0.0f);
  const auto after = all();
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t c = 0; c < 2; ++c) BOOST_CHECK_EQUAL(after[i].data()[c], before[i].data()[c]);
  for (const float v : after[0]) BOOST_CHECK(std::isfinite(v));
}

BOOST_AUTO_TEST_CASE(layer_normalization_is_that_of_the_operation) {
  graph g;
  auto x = placeholder<float, dims<batch, 5, 8>>(g, "x");
  const nn::layer_norm<8> norm{.epsilon = 1e-5};
  auto y = norm(x);
  session s{g};
  const auto in = filled<dims<batch, 5, 8>>(shape(2, 5, 8), 0.3f);
  s.set(norm.offset, eval(s.get(norm.offset) + 0.5f));
  s.set(norm.scale, eval(s.get(norm.scale) * 2.0f));
  const auto result = s.eval(y, with(x, in));
  const auto right = eval(layer_normalization(in, s.get(norm.scale), s.get(norm.offset), {.epsilon = 1e-5}));
  for (std::size_t i = 0; i < right.elements(); ++i) BOOST_CHECK_SMALL(result.data()[i] - right.data()[i], 1e-5f);
}

BOOST_AUTO_TEST_CASE(blocks_compose) {
  graph g;
  auto x = placeholder<float, dims<batch, 4>>(g, "x");
  const auto net =
      nn::named(nn::sequential(nn::residual(nn::dense<8>(), nn::relu, nn::dense<4>()),
                               nn::parallel(
                                   nn::dense<2>(), [](const auto& v) { return v * 2.0f; }, nn::dense<1>())),
                "net");
  auto y = net(x);
  static_assert(std::is_same_v<decltype(y), node<float, dims<batch, 7>>>);
  check_names(g, {"net/0/0/weights", "net/0/0/bias", "net/0/2/weights", "net/0/2/bias", "net/1/0/weights",
                  "net/1/0/bias", "net/1/2/weights", "net/1/2/bias"});
  session s{g};
  const auto in = filled<dims<batch, 4>>(shape(3, 4), 0.1f);
  const auto w0 = s.get(find_variable<float, dims<4, 8>>(g, "net/0/0/weights"));
  const auto w2 = s.get(find_variable<float, dims<8, 4>>(g, "net/0/2/weights"));
  const auto h = eval(in + matmul(relu(matmul(in, w0)), w2));
  const auto result = s.eval(y, with(x, in));
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j) BOOST_CHECK_SMALL(result(i, 2 + j) - 2 * h(i, j), 1e-5f);
}

BOOST_AUTO_TEST_CASE(a_sequence_of_no_parts_is_its_operand) {
  graph g;
  auto x = placeholder<float, dims<batch, 4>>(g, "x");
  const nn::sequential<> none;
  static_assert(std::is_same_v<decltype(none(x)), node<float, dims<batch, 4>>>);
  BOOST_CHECK(none(x).erased().id() == x.erased().id());
  const auto net = nn::named(nn::sequential(nn::sequential(), nn::dense<2>()), "net");
  net(x);
  check_names(g, {"net/1/weights", "net/1/bias"});
}

BOOST_AUTO_TEST_CASE(another_operand_is_an_error_with_both_shapes) {
  graph g, other;
  auto x = placeholder<float, dims<batch, 4>>(g, "x");
  auto wide = placeholder<float, dims<batch, 9>>(g, "wide");
  const auto layer = nn::named(nn::dense<3>(), "head");
  layer(x);
  const std::string differs = test::failure(error_code::invalid_argument, [&] { layer(wide); });
  BOOST_CHECK(test::contains(differs,
                             "head: the layer's weights are float [4, 3] since its first call; this operand "
                             "needs float [9, 3]"));
  const std::string foreign =
      test::failure(error_code::invalid_argument, [&] { layer(placeholder<float, dims<batch, 4>>(other, "x")); });
  BOOST_CHECK(test::contains(foreign, "another graph"));
  BOOST_CHECK(test::contains(test::failure(error_code::failed_precondition, [&] { (void)nn::named(layer, "tail"); }),
                             "before its first call"));
  BOOST_CHECK(
      test::contains(test::failure(error_code::failed_precondition, [&] { (void)nn::parameters(nn::dense<3>()); }),
                     "no variables yet"));
  BOOST_CHECK(test::contains(test::failure(error_code::invalid_argument, [&] { (void)layer.weights.as<dims<3, 4>>(); }),
                             "[3, 4]"));
  BOOST_CHECK_EQUAL(names(g).size(), 2u);
}

BOOST_AUTO_TEST_CASE(input_features_that_are_named_give_variables_types) {
  graph g;
  auto x = placeholder<double, dims<batch, 4>>(g, "x");
  const nn::dense<3, 4, double> layer;
  layer(x);
  static_assert(std::is_same_v<decltype(layer.weights), variable_node<double, dims<4, 3>>>);
  auto decay = mean(square(layer.weights));
  session s{g};
  BOOST_CHECK_GT(s.eval(decay), 0);
}

BOOST_AUTO_TEST_CASE(a_frozen_layer_keeps_its_values) {
  graph g;
  auto x = placeholder<float, dims<batch, 4>>(g, "x");
  const auto net = nn::named(nn::sequential(nn::dense<4>(), nn::dense<1>()), "net");
  auto loss = mean(square(net(x) - 1.0f));
  BOOST_CHECK_EQUAL(nn::freeze(net.get<0>()), 2u);
  auto train = gradient_descent{.learning_rate = 0.1f}.minimize(loss);
  BOOST_CHECK_EQUAL(nn::unfreeze(net.get<0>()), 2u);
  session s{g};
  const auto w = net.get<0>().weights.as<dims<4, 4>>();
  const auto v = net.get<1>().weights.as<dims<4, 1>>();
  const auto w_before = s.get(w);
  const auto v_before = s.get(v);
  s.run(fetch(train), with(x, filled<dims<batch, 4>>(shape(2, 4), 0.1f)));
  BOOST_CHECK(s.get(w) == w_before);
  BOOST_CHECK(!(s.get(v) == v_before));
}

BOOST_AUTO_TEST_CASE(a_description_counts_parameters_and_multiply_adds) {
  graph g;
  auto images = placeholder<float, dims<batch, 28, 28, 1>>(g, "images");
  const auto net = nn::named(lenet(), "lenet");
  const std::string text = nn::describe(net, images);
  BOOST_TEST_MESSAGE(text);
  // 5 * 5 * 32 + 32, 5 * 5 * 32 * 64 + 64, ...; every position of the result is a sum over the window.
  for (const char* line : {"layer   output               parameters  multiply-adds    bytes\n",
                           "first   [batch, 28, 28, 32]         832        627,200  100,352\n",
                           "second  [batch, 14, 14, 64]      51,264     10,035,200   50,176\n",
                           "hidden  [batch, 1024]         3,212,288      3,211,264    4,096\n",
                           "logits  [batch, 10]              10,250         10,240       40\n",
                           "sum                           3,274,634     13,883,904  154,664\n"})
    BOOST_CHECK_MESSAGE(test::contains(text, line), std::string("missing: ") + line + text);
}

BOOST_AUTO_TEST_CASE(weights_of_one_model_are_saved_and_loaded) {
  graph g;
  auto x = placeholder<float, dims<batch, 4>>(g, "x");
  const auto first = nn::named(nn::dense<4>(), "first"), second = nn::named(nn::dense<4>(), "second");
  first(x), second(x);
  const std::string path = "nn_layers_first.safetensors";
  const auto w1 = first.weights.as<dims<4, 4>>(), w2 = second.weights.as<dims<4, 4>>();
  tensor<float, dims<4, 4>> saved;
  {
    session s{g};
    saved = s.get(w1);
    nn::save_weights(path, first, s);
  }
  session s{g};
  s.set(w1, zeros<float, dims<4, 4>>());
  s.set(w2, ones<float, dims<4, 4>>());
  const restore_report report = nn::load_weights(path, first, s);
  BOOST_CHECK_EQUAL(report.restored.size(), 2u);
  BOOST_CHECK(s.get(w1) == saved);
  BOOST_CHECK(s.get(w2) == (ones<float, dims<4, 4>>()));
  BOOST_CHECK(test::code_of([&] { nn::load_weights(path, second, s); }) == error_code::invalid_argument);  // missing
  nn::load_weights(path, second, s, {.rename = {{"first", "second"}}});                                    // a scope
  BOOST_CHECK(s.get(w2) == saved);
  s.set(w2, ones<float, dims<4, 4>>());
  nn::load_weights(path, second, s, {.rename = {{"first/", ""}}});  // names in the model
  BOOST_CHECK(s.get(w2) == saved);
  std::remove(path.c_str());
}

BOOST_AUTO_TEST_CASE(weights_of_a_pytorch_module_are_reordered) {
  // As torch.nn.ModuleDict(conv=Conv2d(2, 3, (1, 2)), norm=BatchNorm2d(3), fc=Linear(3, 2)) saves them.
  struct module {
    nn::conv2d<size2d(1, 2), 3> conv;
    nn::batch_norm<> norm;
    nn::dense<2> fc;
  };
  graph g;
  auto images = placeholder<float, dims<batch, 4, 4, 2>>(g, "images");
  const auto net = nn::named(module(), "net");
  const nn::dense<2> other;
  other(net.fc(mean<1, 2>(net.norm(net.conv(images), mode::inference))));
  session s{g};
  const auto numbers = [](std::size_t count) {
    std::vector<float> v(count);
    for (std::size_t i = 0; i < count; ++i) v[i] = static_cast<float>(i);
    return v;
  };
  const auto filters = numbers(12), matrix = numbers(6), three = numbers(3), two = numbers(2);
  const std::int64_t batches = 7;
  const auto write = [&](const std::string& path, bool whole) {
    std::vector<named_tensor> tensors{{"conv.weight", dtype::float32, shape(3, 2, 1, 2), filters.data()},
                                      {"conv.bias", dtype::float32, shape(3), three.data()},
                                      {"norm.weight", dtype::float32, shape(3), three.data()},
                                      {"norm.bias", dtype::float32, shape(3), three.data()},
                                      {"norm.running_mean", dtype::float32, shape(3), three.data()},
                                      {"norm.running_var", dtype::float32, shape(3), three.data()},
                                      {"norm.num_batches_tracked", dtype::int64, shape(), &batches},
                                      {"fc.weight", dtype::float32, shape(2, 3), matrix.data()}};
    if (whole) tensors.emplace_back("fc.bias", dtype::float32, shape(2), two.data());
    write_safetensors(path, tensors);
  };
  const std::string path = "nn_layers_pytorch.safetensors";
  write(path, false);
  BOOST_CHECK(test::code_of([&] { nn::load_pytorch_weights(path, net, s); }) == error_code::not_found);
  write(path, true);
  BOOST_CHECK_EQUAL(nn::load_pytorch_weights(path, net, s).restored.size(), 8u);
  // The table alone leaves num_batches_tracked out, too.
  BOOST_CHECK_EQUAL(load_weights(path, s, nn::pytorch_table(net), {.variables = nn::parameters(net)}).restored.size(),
                    8u);
  const auto w = s.get(net.conv.weights.as<dims<1, 2, 2, 3>>());
  for (int x = 0; x < 2; ++x)
    for (int i = 0; i < 2; ++i)
      for (int o = 0; o < 3; ++o) BOOST_CHECK_EQUAL(w(0, x, i, o), static_cast<float>((o * 2 + i) * 2 + x));
  const auto m = s.get(net.fc.weights.as<dims<3, 2>>());
  for (int i = 0; i < 3; ++i)
    for (int o = 0; o < 2; ++o) BOOST_CHECK_EQUAL(m(i, o), static_cast<float>(o * 3 + i));
  BOOST_CHECK_EQUAL(s.get(net.norm.moving_variance.as<dims<3>>())(2), 2);
  std::remove(path.c_str());
}
