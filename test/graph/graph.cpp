// SPDX-License-Identifier: BSL-1.0
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <clocale>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <type_traits>
#include <utility>
#include <weft/train/moving_average.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"

using namespace weft;
using test::failure;

namespace {

using vec = dims<4>;

template <class E>
const std::string& name_of(const graph& g, const E& e) {
  return g[e.id().node].name;
}

template <class F>
std::string refusal(F f) {
  return failure(error_code::invalid_argument, f);
}

}  // namespace

BOOST_AUTO_TEST_CASE(equal_calls_are_one_node) {
  graph g;
  const auto a = placeholder<float, vec>(g), b = placeholder<float, vec>(g);
  const auto x = let(exp(a) + b);
  const std::size_t size = g.size();
  BOOST_CHECK(let(exp(a) + b).id() == x.id());
  BOOST_CHECK_EQUAL(g.size(), size);
  BOOST_CHECK(sum(x * x).id() == sum(x * x).id());
  BOOST_CHECK(softmax(x).id() == softmax(x).id());
  BOOST_CHECK(transpose(x).id() == transpose(x).id());
  BOOST_CHECK(constant(g, tensor<float, vec>{1, 2, 3, 4}).id() == constant(g, tensor<float, vec>{1, 2, 3, 4}).id());
  BOOST_CHECK(let(a + tensor<float, vec>{1, 2, 3, 4}).id() == let(a + tensor<float, vec>{1, 2, 3, 4}).id());
}

BOOST_AUTO_TEST_CASE(different_calls_are_different_nodes) {
  graph g;
  const auto a = placeholder<float, vec>(g), b = placeholder<float, vec>(g);
  BOOST_CHECK(!(let(a + b).id() == let(b + a).id()));
  BOOST_CHECK(!(let(a + b).id() == let(a - b).id()));
  BOOST_CHECK(!(let(a + 1.0f).id() == let(a + 2.0f).id()));  // one kernel, two nodes
  BOOST_CHECK(!(let(a * 0.0f).id() == let(a * -0.0f).id()));
  BOOST_CHECK(!(sum(a).id() == mean(a).id()));
  BOOST_CHECK(!(softmax(a).id() == log_softmax(a).id()));
  BOOST_CHECK(!(placeholder<float, vec>(g).id() == placeholder<float, vec>(g).id()));
  BOOST_CHECK(!(constant(g, tensor<float, vec>{1, 2, 3, 4}).id() == constant(g, tensor<float, vec>{1, 2, 3, 5}).id()));
  BOOST_CHECK(!(constant(g, 1.0f).id() == constant(g, tensor<float, dims<1>>{1}).id()));
  const auto square = placeholder<float, dims<4, 4>>(g);
  BOOST_CHECK(!(sum<0>(square).id() == sum<1>(square).id()));
  BOOST_CHECK(!(matmul<transpose_of::a>(square, square).id() == matmul<transpose_of::b>(square, square).id()));
  BOOST_CHECK(!(reshape<dims<2, 8>>(square).id() == reshape<dims<8, 2>>(square).id()));
  const auto here = let(exp(a));
  const device_scope there(g, cpu{1});
  BOOST_CHECK(!(here.id() == let(exp(a)).id()));  // placed elsewhere
}

BOOST_AUTO_TEST_CASE(let_of_a_leaf_is_the_leaf) {
  graph g;
  const auto a = placeholder<float, vec>(g);
  BOOST_CHECK(let(a).id() == a.id());
  const auto v = variable<float, vec>(g, "v");
  BOOST_CHECK(let(v).id() == v.id());
  BOOST_CHECK(let(let(a + a)).id() == let(a + a).id());
}

BOOST_AUTO_TEST_CASE(an_expression_enters_as_one_node) {
  graph g;
  const auto a = placeholder<float, dims<3, 4>>(g);
  const auto b = placeholder<float, vec>(g);
  std::size_t size = g.size();
  static_cast<void>(let(relu(a * b + 1.0f) / (exp(-a) + b)));
  BOOST_CHECK_EQUAL(g.size(), size + 1);
  size = g.size();
  static_cast<void>(sum<1>(square(a - b)));  // a reduction takes in what it reduces
  BOOST_CHECK_EQUAL(g.size(), size + 1);
  size = g.size();
  static_cast<void>(let(a + exp(b)));  // exp(b) is computed at its own extents
  BOOST_CHECK_EQUAL(g.size(), size + 2);
}

BOOST_AUTO_TEST_CASE(long_expressions_become_nodes) {
  graph g;
  const auto a = placeholder<float, vec>(g);
  const std::size_t size = g.size();
  auto x = a + a;
  auto y = x * x + x;
  auto z = y * y + y;
  auto w = z * z + z;
  static_assert(decltype(w)::operations <= max_operations);
  BOOST_CHECK_GT(g.size(), size);
  const auto squared = [](auto v) { return v * v; };
  auto v5 = squared(squared(squared(squared(squared(w)))));
  static_assert(sizeof(v5) < 1024);
}

BOOST_AUTO_TEST_CASE(names_are_unique) {
  graph g;
  BOOST_CHECK_EQUAL(name_of(g, placeholder<float>(g, "x")), "x");
  BOOST_CHECK_EQUAL(name_of(g, placeholder<float>(g, "x")), "x_1");
  BOOST_CHECK_EQUAL(name_of(g, placeholder<float>(g, "x")), "x_2");
  BOOST_CHECK_EQUAL(name_of(g, placeholder<float>(g)), "placeholder");
  BOOST_CHECK_EQUAL(name_of(g, placeholder<float>(g, "y_1")), "y_1");
  BOOST_CHECK_EQUAL(name_of(g, placeholder<float>(g, "y")), "y");
  BOOST_CHECK_EQUAL(name_of(g, placeholder<float>(g, "y")), "y_2");  // y_1 was taken
}

BOOST_AUTO_TEST_CASE(name_scopes_nest) {
  graph g;
  {
    const name_scope outer(g, "layer");
    BOOST_CHECK_EQUAL(name_of(g, variable<float>(g, "w")), "layer/w");
    const name_scope inner(g, "norm");
    BOOST_CHECK_EQUAL(name_of(g, variable<float>(g, "w")), "layer/norm/w");
    BOOST_CHECK_EQUAL(name_of(g, placeholder<float>(g, "w")), "layer/norm/w_1");
  }
  const name_scope again(g, "layer");
  BOOST_CHECK_EQUAL(name_of(g, variable<float>(g, "w")), "layer_1/w");
}

namespace {

// Three variables, two of them in scopes of one name.
node<float, dims<4, 2>> model(graph& g, const node<float, dims<4, 3>>& x) {
  const auto layer = [&](const node<float, dims<4, 2>>& h) {
    const name_scope scope(g, "dense");
    return let(matmul(h, variable<float, dims<2, 2>>(g, "w", init::normal{})));
  };
  return layer(layer(let(matmul(x, variable<float, dims<3, 2>>(g, "w", init::normal{})))));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_second_variable_of_a_name_is_an_error) {
  graph g;
  const auto x = placeholder<float, dims<4, 3>>(g, "x"), y = placeholder<float, dims<4, 3>>(g, "y");
  static_cast<void>(model(g, x));
  const std::string text = refusal([&] { model(g, y); });
  CHECK_SAYS(text, "w: a variable of this name exists, created outside any scope, so a second one cannot be created ");
  CHECK_SAYS(text, "another name");
  CHECK_SAYS(text, "variable_scope(g, reuse::yes)");
  BOOST_CHECK_EQUAL(parameter_count(g), 14u);
  const auto in_tower = [&] {
    const variable_scope tower(g, "tower");
    return model(g, x);
  };
  static_cast<void>(in_tower());
  BOOST_CHECK_EQUAL(parameter_count(g), 28u);
  CHECK_SAYS(refusal(in_tower), "tower/w: a variable of this name exists, created in the scope tower, so a second one");
  BOOST_CHECK_EQUAL(name_of(g, variable<float>(g, "x")), "x_1");  // x is a placeholder
}

BOOST_AUTO_TEST_CASE(a_model_that_is_made_twice_shares_its_variables_where_that_is_said) {
  graph g;
  const auto x = placeholder<float, dims<4, 3>>(g, "x"), y = placeholder<float, dims<4, 3>>(g, "y");
  const auto in = [&](const char* scope, reuse mode, const node<float, dims<4, 3>>& images) {
    const variable_scope named(g, scope, mode);
    return model(g, images);
  };
  const auto trained = model(g, x);
  const auto tested = [&] {
    const variable_scope again(g, reuse::yes);
    return model(g, y);
  }();
  const auto left = in("tower", reuse::automatic, x), right = in("tower", reuse::automatic, y);
  const auto third = in("tower", reuse::yes, y);
  BOOST_CHECK_EQUAL(parameter_count(g), 28u);
  const auto train = gradient_descent{.learning_rate = 0.1}.minimize(mean(square(trained)) + mean(square(left)));
  session s{g, {.threads = 1}};
  tensor<float, dims<4, 3>> images;
  for (int i = 0; i < 12; ++i) images.data()[i] = static_cast<float>(i % 5) - 1;
  const auto before = s.eval(tested, with(y, images));
  s.run(fetch(train), with(x, images));
  const auto [a, b, c, d, e] = s.run(fetch(trained, tested, left, right, third), with(x, images), with(y, images));
  BOOST_CHECK(before(3, 1) != b(3, 1) && a(3, 1) != c(3, 1));
  for (std::size_t i = 0; i < 8; ++i) {
    BOOST_CHECK_EQUAL(a.data()[i], b.data()[i]);
    BOOST_CHECK_EQUAL(c.data()[i], d.data()[i]);
    BOOST_CHECK_EQUAL(c.data()[i], e.data()[i]);
  }
}

BOOST_AUTO_TEST_CASE(a_variable_is_used_again_as_what_it_is) {
  graph g;
  const auto w = variable<float, dims<3, 2>>(g, "w");
  const variable_scope again(g, reuse::yes);
  BOOST_CHECK((variable<float, dims<3, 2>>(g, "w").id() == w.id()));
  BOOST_CHECK((variable(g, "w", tensor<float, dims<3, 2>>()).id() == w.id()));
  CHECK_SAYS(refusal([&] { variable<double, dims<3, 2>>(g, "w"); }),
             "is float [3, 2], but this use declares double [3, 2]");
  CHECK_SAYS(refusal([&] { variable<float, dims<2, 3>>(g, "w"); }),
             "is float [3, 2], but this use declares float [2, 3]");
  CHECK_SAYS(failure(error_code::not_found, [&] { variable<float>(g, "v"); }),
             "v: reuse::yes requires a variable of this name, but there is none");
  const name_scope within(g, "inner");
  CHECK_SAYS(failure(error_code::not_found, [&] { variable<float>(g, "w"); }), "in the scope inner");
}

// The first value is a number of the element type or of another one.
BOOST_AUTO_TEST_CASE(a_scalar_variable_starts_as_a_number) {
  graph g;
  const auto a = variable<float, dims<>>(g, "a", 0.25f);
  const auto b = variable<float, dims<>>(g, "b", 3);
  const auto c = variable<std::int64_t, dims<>>(g, "c", (std::int64_t{1} << 53) + 1);  // no double is equal to it
  const auto d = variable<float>(g, "d", 0.5);
  const auto e = variable(g, "e", -2.0);
  static_assert(std::is_same_v<decltype(a), const variable_node<float>>);
  static_assert(std::is_same_v<decltype(d), const variable_node<float>>);
  static_assert(std::is_same_v<decltype(e), const variable_node<double>>);
  session s{g, {.threads = 1}};
  const auto [first, second, third, fourth, fifth] = s.run(fetch(a, b, c, d, e));
  BOOST_CHECK_EQUAL(first, 0.25f);
  BOOST_CHECK_EQUAL(second, 3.f);
  BOOST_CHECK_EQUAL(third, 9007199254740993);
  BOOST_CHECK_EQUAL(fourth, 0.5f);
  BOOST_CHECK_EQUAL(fifth, -2.0);
}

BOOST_AUTO_TEST_CASE(operations_of_more_than_64_operands_have_gradients) {
  graph g;
  const auto x = variable<double, dims<1, 2>>(g, "x", init::ones{});
  const auto repeated = [&]<std::size_t... i>(std::index_sequence<i...>) {
    return concat<0>((static_cast<void>(i), x)...);
  };
  const auto many = repeated(std::make_index_sequence<70>());
  const auto [dx] = gradients(sum(many * many), x);
  session s{g};
  const auto got = s.eval(dx);
  BOOST_CHECK_EQUAL(got(0, 0), 140.0);
  BOOST_CHECK_EQUAL(got(0, 1), 140.0);
}

BOOST_AUTO_TEST_CASE(device_scopes_nest) {
  graph g;
  const auto at = [&](const char* name) { return to_string(g[variable<float>(g, name).id().node].device); };
  BOOST_CHECK_EQUAL(at("a"), "");
  {
    const device_scope outer(g, "/job:ps/device:CPU:1"_device);
    BOOST_CHECK_EQUAL(at("b"), "/job:ps/device:CPU:1");
    {
      const device_scope inner(g, "/task:3"_device);
      BOOST_CHECK_EQUAL(at("c"), "/job:ps/task:3/device:CPU:1");
    }
    const device_scope inner(g, cpu{2});
    BOOST_CHECK_EQUAL(at("d"), "/job:ps/device:CPU:2");
  }
  BOOST_CHECK_EQUAL(at("e"), "");
}

BOOST_AUTO_TEST_CASE(colocated_nodes_are_where_another_is) {
  graph g;
  const auto at = [&](const char* name) { return to_string(g[variable<float>(g, name).id().node].device); };
  const auto open = variable<float>(g, "open");
  const device_scope outer(g, "/job:ps/device:CPU:1"_device);
  const auto v = variable<float>(g, "v");
  const device_scope inner(g, "/task:3/device:CPU:2"_device);
  {
    const auto beside = colocate_with(g, v);
    BOOST_CHECK_EQUAL(at("a"), "/job:ps/device:CPU:1");
    const device_scope further(g, cpu{4});
    BOOST_CHECK_EQUAL(at("b"), "/job:ps/device:CPU:4");
  }
  {
    const auto beside = colocate_with(g, open);
    BOOST_CHECK_EQUAL(at("c"), "");
  }
  BOOST_CHECK_EQUAL(at("d"), "/job:ps/task:3/device:CPU:2");
}

BOOST_AUTO_TEST_CASE(device_functions_place_each_node) {
  graph g;
  int variables = 0;
  std::string seen;
  const device_scope worker(g, "/job:worker/task:7"_device);
  const device_scope setter(g, [&](const placement_query& q) {
    if (q.operation != "variable") return device_spec();
    seen += q.name + " of " + std::to_string(q.output.bytes()) + ";";
    return parse_device(variables++ % 2 ? "/job:ps/task:1" : "/job:ps/task:0", 14);
  });
  const auto v = variable<float, vec>(g, "v"), w = variable<float, vec>(g, "w");
  const auto y = let(v * w);
  BOOST_CHECK_EQUAL(to_string(g[v.id().node].device), "/job:ps/task:0");
  BOOST_CHECK_EQUAL(to_string(g[w.id().node].device), "/job:ps/task:1");
  BOOST_CHECK_EQUAL(to_string(g[y.id().node].device), "/job:worker/task:7");
  BOOST_CHECK_EQUAL(seen, "v of 16;w of 16;");
  const device_scope pinned(g, "/task:5"_device);  // the inner one wins, part by part
  BOOST_CHECK_EQUAL(to_string(g[variable<float, vec>(g, "u").id().node].device), "/job:ps/task:5");
}

BOOST_AUTO_TEST_CASE(device_functions_see_each_name_once) {
  graph g;
  const auto x = placeholder<float, vec>(g, "x");
  std::string seen;
  const device_scope named(g, [&](const placement_query& q) {
    seen += q.name + ";";
    return device_spec(cpu{q.name == "map" ? 1 : 0});
  });
  const auto y = let(exp(x));
  BOOST_CHECK_EQUAL(seen, "map;");
  BOOST_CHECK_EQUAL(to_string(g[y.id().node].device), "/device:CPU:1");
  const auto z = let(y + 1);
  BOOST_CHECK_EQUAL(seen, "map;map_1;");
  BOOST_CHECK(let(y + 1).id() == z.id());  // map_2 would be there too
  BOOST_CHECK_EQUAL(seen, "map;map_1;map_2;");
  BOOST_CHECK_EQUAL(name_of(g, let(y + 2)), "map_2");
}

BOOST_AUTO_TEST_CASE(a_name_stays) {
  const auto first_value = [](bool alias) {
    graph g;
    const auto w = variable<float, vec>(g, "w", init::normal{});
    if (alias) {
      const auto other = let(w, "alias");
      BOOST_CHECK_EQUAL(name_of(g, other), "alias");
      BOOST_CHECK_EQUAL(name_of(g, w), "w");
      BOOST_CHECK(let(w, "w").id() == w.id());
      const auto [dw] = gradients(sum(square(other)), w);
      session s{g, {.threads = 1}};
      const auto [value, of, d] = s.run(fetch(w, other, dw));
      BOOST_CHECK_EQUAL(of(0), value(0));
      BOOST_CHECK_EQUAL(d(0), 2 * value(0));
    }
    session s{g, {.threads = 1}};
    return s.eval(w)(0);
  };
  BOOST_CHECK_EQUAL(first_value(true), first_value(false));  // it depends on the variable's name
  graph g;
  const auto x = placeholder<float, vec>(g, "x");
  const auto first = let(x + 1, "first"), again = let(x + 1, "first"), second = let(x + 1, "second");
  BOOST_CHECK(again.id() == first.id());
  BOOST_CHECK_EQUAL(name_of(g, first), "first");
  BOOST_CHECK_EQUAL(name_of(g, second), "second");
  BOOST_CHECK_EQUAL(name_of(g, let(x, "other")), "other");
  BOOST_CHECK_EQUAL(name_of(g, x), "x");
  const name_scope scope(g, "scope");
  BOOST_CHECK_EQUAL(name_of(g, let(x - 1, "first")), "scope/first");
}

// Lines differ where nodes do, not by the names alone.
BOOST_AUTO_TEST_CASE(dumps_tell_nodes_apart) {
  graph g;
  const auto x = placeholder<float, dims<4, 4>>(g, "x");
  static_cast<void>(sum<0>(x)), static_cast<void>(sum<1>(x)), static_cast<void>(sum<0, -1>(x));
  static_cast<void>(let(x + 1)), static_cast<void>(let(x + 0.1f)), static_cast<void>(let(cast<int>(x) - 2));
  static_cast<void>(matmul(x, x)), static_cast<void>(matmul<transpose_of::a>(x, x));
  static_cast<void>(transpose<1, 0>(x)), static_cast<void>(constant(g, -0.5));
  static_cast<void>(gradient_descent{.learning_rate = 0.25}.minimize(sum(square(variable<float>(g, "w")))));
  const std::string text = to_string(g);
  for (const char* part :
       {"= sum<0> a0(%0)", "= sum<1> a0(%0)", "= sum<0, 1> a0(%0)", "= map add(a0, 1)(%0)", "= map add(a0, 0.1)(%0)",
        "= map subtract(cast(a0), 2)(%0)", "= matmul(%0, %0)", "= matmul a'(%0, %0)", "= transpose {1, 0}(%0)",
        "= constant -0.5() : double []", "= gradient_descent 0.25(%"})
    CHECK_SAYS(text, part);
  CHECK_SAYS(to_graphviz(g), "\\nsum<1> a0\\n");
}

BOOST_AUTO_TEST_CASE(names_of_any_characters) {
  graph g;
  static_cast<void>(placeholder<float>(g, "a \"b\" \\ c\nd"));
  BOOST_CHECK_EQUAL(to_string(g), "%0 = placeholder() : float []  \"a \\\"b\\\" \\\\ c\\nd\"\n");
  CHECK_SAYS(to_graphviz(g), "[label=\"a \\\"b\\\" \\\\ c\\nd\\nfloat []\", shape=house]");
}

BOOST_AUTO_TEST_CASE(the_hash_names_the_structure) {
  const auto build = [](graph& g, float factor, bool add, const char* name) {
    const auto x = placeholder<float, dims<dyn<"batch">, 4>>(g, "x");
    const auto w = variable<float, dims<4, 2>>(g, name, init::normal{});
    const auto y = matmul(x, w);
    const auto z = add ? let(y * factor + y) : let(y * factor - y);
    static_cast<void>(gradient_descent{.learning_rate = 0.1}.minimize(mean(square(z))));
    return g.hash();
  };
  const auto fresh = [&](float factor, bool add, const char* name) {
    graph g;
    return build(g, factor, add, name);
  };
  const auto h = fresh(2, true, "w");
  BOOST_CHECK_EQUAL(h, fresh(2, true, "w"));
  BOOST_CHECK_NE(h, fresh(3, true, "w"));
  BOOST_CHECK_NE(h, fresh(2, true, "v"));
  BOOST_CHECK_NE(h, fresh(2, false, "w"));  // another kernel over the same operands
  graph g;
  g.set(dyn<"batch">, 3);
  BOOST_CHECK_NE(h, build(g, 2, true, "w"));
  // Recorded, so that it does not change from build to build or from machine to machine unnoticed.
  const auto constants = [](float last) {
    graph other;
    static_cast<void>(let(placeholder<float, vec>(other) + tensor<float, vec>{1, 2, 3, last}));
    return other.hash();
  };
  BOOST_CHECK_EQUAL(constants(4), constants(4));
  BOOST_CHECK_NE(constants(4), constants(5));
}

BOOST_AUTO_TEST_CASE(another_graph_is_refused) {
  graph g, other;
  const auto a = placeholder<float, vec>(g, "a");
  const auto b = placeholder<float, vec>(other, "b");
  const auto m = placeholder<float, dims<4, 4>>(other, "m");
  CHECK_SAYS(refusal([&] { static_cast<void>(let(a + b)); }),
             "operands belong to different graphs: 'a' and 'b'; build both in one graph");
  CHECK_SAYS(refusal([&] { static_cast<void>(sum(a * b)); }), "different graphs: 'a' and 'b'");
  CHECK_SAYS(refusal([&] { static_cast<void>(matmul(placeholder<float, dims<2, 4>>(g), m)); }),
             "different graphs: 'm' is not in the graph of the others");
  CHECK_SAYS(refusal([&] { static_cast<void>(let(softmax(a) + b)); }), "different graphs: ");
  CHECK_SAYS(refusal([&] { static_cast<void>(softmax_cross_entropy(a, b)); }), "graph");
  CHECK_SAYS(refusal([&] { static_cast<void>(gradients(sum(a), b)); }), "graph");
  CHECK_SAYS(refusal([&] { static_cast<void>(assign(variable<float, vec>(g, "v"), b)); }), "graph");
  session s{g, {.threads = 1}};
  CHECK_SAYS(refusal([&] { static_cast<void>(s.eval(b, with(b, tensor<float, vec>()))); }), "graph");
}

BOOST_AUTO_TEST_CASE(parameters_are_counted) {
  graph g;
  g.set(dyn<"hidden">, 5);
  static_cast<void>(variable<float, dims<3, dyn<"hidden">>>(g, "w"));
  static_cast<void>(variable<float>(g, "b"));
  BOOST_CHECK_EQUAL(parameter_count(g), 16u);
  const auto without_depth = [&] { static_cast<void>(variable<float, dims<dyn<"depth">>>(g, "v")); };
  CHECK_SAYS(failure(error_code::failed_precondition, without_depth), "depth");
}

namespace {

/// Checks that `make(n)` takes time in proportion to n: 16 times as long for 16 times as many, where a search through
/// all of them for each would take 256 times as long.
template <class F>
void check_linear(const char* what, F make) {
  using clock = std::chrono::steady_clock;
  const auto shortest = [&](int n, int rounds) {
    double best = 1e9;
    for (int i = 0; i < rounds && best > 0.002; ++i) {
      const auto begin = clock::now();
      make(n);
      best = std::min(best, std::chrono::duration<double>(clock::now() - begin).count());
    }
    return best;
  };
  const double few = std::max(shortest(1000, 3), 0.002), many = shortest(16000, 2);
  BOOST_CHECK_MESSAGE(many < 70 * few, what << ": 1,000 take " << few << " s, 16,000 take " << many << " s");
}

std::string numbered(const char* name, int i) { return name + std::to_string(i); }

}  // namespace

BOOST_AUTO_TEST_CASE(large_graphs_take_time_in_proportion_to_their_nodes) {
  check_linear("placeholders and nodes", [](int n) {
    graph g;
    for (int i = 0; i < n; ++i) static_cast<void>(let(placeholder<float, vec>(g, numbered("x", i)) + 1.0f));
  });
  check_linear("variables in scopes of one name", [](int n) {
    graph g;
    for (int i = 0; i < n; ++i) {
      const name_scope in(g, "layer");
      static_cast<void>(variable<float, vec>(g, "w"));
    }
  });
  check_linear("variables that are reused", [](int n) {
    graph g;
    for (const reuse mode : {reuse::no, reuse::yes}) {
      const variable_scope model(g, "model", mode);
      for (int i = 0; i < n; ++i) {
        const name_scope in(g, "layer");
        static_cast<void>(variable<float, vec>(g, "w"));
      }
    }
  });
  check_linear("variables found by name and frozen", [](int n) {
    graph g;
    for (int i = 0; i < n; ++i) static_cast<void>(variable<float, vec>(g, numbered("w", i)));
    for (int i = 0; i < n; ++i) freeze(find_variable<float, vec>(g, numbered("w", i)));
  });
  check_linear("a training, its averages and its step", [](int n) {
    graph g;
    node<float> loss = sum(constant(g, tensor<float, vec>()));
    for (int i = 0; i < n / 4; ++i) loss = let(loss + sum(variable<float, vec>(g, numbered("w", i), init::zeros{})));
    const auto train = momentum{}.minimize(loss);
    const auto averages = exponential_moving_average{.decay = 0.9}.apply(train);
    session s{g, {.threads = 1}};
    static_cast<void>(s.prepare(fetch(averages), feed()));
  });
}

BOOST_AUTO_TEST_CASE(a_variable_is_found_whoever_made_it) {
  graph g;
  const auto w = variable<float, vec>(g, "w", init::zeros{});
  static_cast<void>(momentum{}.minimize(sum(w)));
  const auto slot = find_variable<float, vec>(g, "w/momentum");
  BOOST_CHECK(is_operation<variable_op>(g[slot.id().node].def.op));
  static_cast<void>(placeholder<float, vec>(g, "x"));
  for (const char* name : {"x", "w/", "", "momentum"})
    CHECK_SAYS(failure(error_code::not_found, [&] { static_cast<void>(find_variable<float, vec>(g, name)); }),
               "there is no variable of this name");
}

// A locale with a decimal comma is compiled here, if the system has the sources of locales.
BOOST_AUTO_TEST_CASE(numbers_have_a_point_in_every_locale) {
  if (!std::filesystem::exists("/usr/share/i18n/locales/de_DE")) {
    BOOST_TEST_MESSAGE("no sources of locales");
    return;
  }
  const std::string folder = std::filesystem::temp_directory_path() / ("weft_locale." + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  BOOST_REQUIRE_EQUAL(std::system(("localedef -i de_DE -f UTF-8 " + folder + "/de_DE.UTF-8").c_str()), 0);
  ::setenv("LOCPATH", folder.c_str(), 1);
  BOOST_REQUIRE(std::setlocale(LC_ALL, "de_DE.UTF-8"));
  char text[16];
  std::snprintf(text, sizeof text, "%g", 0.5);
  BOOST_CHECK_EQUAL(text, "0,5");  // the locale is in force
  graph g;
  auto x = placeholder<float, dims<4>>(g, "x");
  static_cast<void>(let(x * 0.5f + 1e-30f));
  const std::string printed = to_string(g);
  BOOST_CHECK_NE(printed.find("0.5"), std::string::npos);
  BOOST_CHECK_NE(printed.find("1e-30"), std::string::npos);
  BOOST_CHECK_NE(to_string(tensor<float, dims<2>>{0.25f, 3}).find("0.25"), std::string::npos);
  BOOST_CHECK_EXCEPTION((variable<int, dims<2>>(g, "v", 0.5)), error, test::says(error_code::invalid_argument, "0.5"));
  const auto w = variable<float, dims<2>>(g, "w", init::zeros{});
  BOOST_CHECK_EXCEPTION(static_cast<void>(momentum{.learning_rate = -0.25}.minimize(sum(w))), error,
                        test::says(error_code::invalid_argument, "it is -0.25"));
  BOOST_CHECK_EQUAL(format_number("%.*f", 2, -1234567.125), "-1234567.12");
  BOOST_CHECK_EQUAL(format_number("%.*g", 3, __builtin_inf()), "inf");
  std::setlocale(LC_ALL, "C");
  std::filesystem::remove_all(folder);
}
