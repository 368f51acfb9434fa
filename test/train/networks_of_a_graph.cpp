// SPDX-License-Identifier: BSL-1.0
// Several networks in one graph: each by its scope, its own optimizer, copies from one to another.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include <unistd.h>
#include <boost/test/unit_test.hpp>
#include <weft/train/loss_scale.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"

using namespace weft;
using test::contains;
using test::failure;

namespace {

using row = tensor<float, dims<2>>;

// The product of x and a weight for each element, plus a bias below one more scope.
template <class X>
auto scaled(const std::string& scope, const X& x, reuse mode = reuse::no) {
  graph& g = graph_of(x);
  const variable_scope in(g, scope, mode);
  const auto w = variable<float, dims<2>>(g, "w", init::ones{});
  const auto b = variable<float>(g, "offset/b", init::zeros{});
  return let(x * w + b);
}

// A model that names its scopes itself, as a function of layers does.
template <class X>
auto named_model(const X& x) {
  graph& g = graph_of(x);
  const name_scope in(g, "model");
  const auto layer = [&](const auto& input) {
    const name_scope of(g, "dense");
    return tanh(input * variable<float, dims<2>>(g, "w", init::ones{}));
  };
  return let(sum(layer(layer(x))));
}

std::string names(const variable_list& list) {
  std::string text;
  for (const variable_description& v : list.descriptions()) text += v.name + " ";
  return text;
}

std::size_t slots(const graph& g) { return variables(g, variable_kind::slot).size(); }

// What is written to standard error while f runs.
template <class F>
std::string written_to_stderr(const F& f) {
  std::FILE* const file = std::tmpfile();
  std::fflush(stderr);
  const int before = dup(2);
  dup2(fileno(file), 2);
  f();
  std::fflush(stderr);
  dup2(before, 2);
  close(before);
  std::string text(static_cast<std::size_t>(std::ftell(file) < 0 ? 0 : lseek(fileno(file), 0, SEEK_END)), ' ');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_scope_has_the_variables_of_whole_components) {
  graph g;
  const auto x = placeholder<float, dims<2>>(g, "x");
  const auto a = scaled("online", x), b = scaled("online_2", x);
  static_cast<void>(variable<float>(g, "online/mean", init::zeros{}, variable_kind::averaged));
  static_cast<void>(variable<std::int64_t>(g, "online/count", 0, variable_kind::counter));
  static_cast<void>(variable<float>(g, "online/own", init::zeros{}, variable_kind::local));
  static_cast<void>(adam{}.minimize(sum(a + b)));  // slots are below online, too
  BOOST_TEST(names(variables_in(g, "online")) == "online/w online/offset/b online/mean ");
  BOOST_TEST(names(variables_in(g, "online/")) == "online/w online/offset/b online/mean ");
  BOOST_TEST(names(variables_in(g, "online/offset")) == "online/offset/b ");
  BOOST_TEST(names(variables_in(g, "online/w")) == "online/w ");
  BOOST_TEST(names(variables_in(g, "online", variable_kind::trained)) == "online/w online/offset/b ");
  BOOST_TEST(variables_in(g, "").size() == 5u);
  const auto message = failure(error_code::not_found, [&] { static_cast<void>(variables_in(g, "on")); });
  CHECK_SAYS(message, "\"on\"");
  CHECK_SAYS(message, "online, online/offset, online_2, online_2/offset");
  CHECK_SAYS(
      failure(error_code::not_found, [&] { static_cast<void>(variables_in(g, "online", variable_kind::frozen)); }),
      "of kind frozen");
  graph none;
  CHECK_SAYS(failure(error_code::not_found, [&] { static_cast<void>(variables_in(none, "")); }), "no scope has any");
}

BOOST_AUTO_TEST_CASE(a_step_trains_one_network_and_copies_it_to_another) {
  graph g;
  const auto x = placeholder<float, dims<2>>(g, "x");
  const auto q = scaled("online", x), t = scaled("target", x);
  const auto online = variables_in(g, "online"), target = variables_in(g, "target");
  // d loss / d w = x, d loss / d b = 2, and the target's values are constants to it.
  const auto train = gradient_descent{.learning_rate = 1}.minimize(sum(q) - sum(stop_gradient(t)), online);
  const auto copy = assign_all(target, online);
  const auto w = find_variable<float, dims<2>>(g, "online/w"), tw = find_variable<float, dims<2>>(g, "target/w");
  const auto tb = find_variable<float>(g, "target/offset/b");
  session s{g, {.threads = 1}};
  s.set(w, {5, 7});
  auto step = s.prepare(fetch(train, copy), feed(x));
  step(row{1, 2});
  BOOST_TEST(s.get(tw)(0) == 5);  // from before the step
  BOOST_TEST(s.get(tw)(1) == 7);
  BOOST_TEST(s.get(w)(0) == 4);
  BOOST_TEST(s.get(w)(1) == 5);
  BOOST_TEST(s.get(tb) == 0);
  step(row{1, 2});
  BOOST_TEST(s.get(tw)(1) == 5);
  BOOST_TEST(s.get(tb) == -2);
}

BOOST_AUTO_TEST_CASE(a_soft_update_takes_a_part_of_the_difference) {
  graph g;
  const auto x = placeholder<float, dims<2>>(g, "x");
  static_cast<void>(scaled("online", x));
  static_cast<void>(scaled("target", x));
  static_cast<void>(variable<std::int32_t>(g, "online/size", 3, variable_kind::frozen));
  const auto m = variable<std::int32_t>(g, "target/size", 1, variable_kind::frozen);
  static_cast<void>(variable<double, dims<2, 2>>(g, "online/wide", init::ones{}));
  const auto wide_target = variable<double, dims<2, 2>>(g, "target/wide", init::zeros{});
  const auto online = variables_in(g, "online"), target = variables_in(g, "target");
  session s{g, {.threads = 1}};
  s.set(find_variable<float, dims<2>>(g, "online/w"), {8, -4});
  const auto tw = find_variable<float, dims<2>>(g, "target/w");
  auto step = s.prepare(fetch(assign_all(target, online, {.rate = 0.25})));
  for (int k = 1; k <= 6; ++k) {
    step();
    const double left = std::pow(0.75, k);  // of the difference at first: 8 - 1, -4 - 1, 1 - 0
    BOOST_CHECK_CLOSE(static_cast<double>(s.get(tw)(0)), 8 - 7 * left, 1e-4);
    BOOST_CHECK_CLOSE(static_cast<double>(s.get(tw)(1)), -4 + 5 * left, 1e-4);
    BOOST_CHECK_CLOSE(s.get(wide_target)(1, 1), 1 - left, 1e-12);
    BOOST_TEST(s.get(m) == 3);  // integers are copied
  }
  s.run(fetch(assign_all(target, online, {.rate = 0})));
  BOOST_CHECK_CLOSE(s.get(wide_target)(0, 0), 1 - std::pow(0.75, 6), 1e-12);
  s.run(fetch(assign_all(target, online, {.rate = 1})));
  BOOST_TEST(s.get(wide_target)(0, 0) == 1);
  for (const double wrong : {-0.1, 1.1, std::nan("")})
    CHECK_SAYS(
        failure(error_code::invalid_argument, [&] { static_cast<void>(assign_all(target, online, {.rate = wrong})); }),
        "[0, 1]");
}

BOOST_AUTO_TEST_CASE(networks_that_differ_are_not_copied) {
  graph g;
  const auto make = [&](const char* scope, auto extents, bool more) {
    const variable_scope in(g, scope);
    static_cast<void>(variable<float, decltype(extents)>(g, "w", init::ones{}));
    if (more) static_cast<void>(variable<float>(g, "b", init::zeros{}));
    return variables_in(g, scope);
  };
  const auto a = make("a", dims<2, 3>(), true), less = make("less", dims<2, 3>(), false),
             wide = make("wide", dims<3, 2>(), true);
  const auto refused = [&](const auto& to, const auto& from) {
    return failure(error_code::invalid_argument, [&] { static_cast<void>(assign_all(to, from)); });
  };
  CHECK_SAYS(refused(a, less), "a/b");
  CHECK_SAYS(refused(less, a), "a/b");
  CHECK_SAYS(refused(a, wide), "a/w is float [2, 3], but wide/w is float [3, 2]");
  CHECK_SAYS(refused(a, a), "both sides");
  CHECK_SAYS(refused(a, variable_list()), "empty");
  graph h;
  static_cast<void>(variable<float>(h, "a/w", init::ones{}));
  CHECK_SAYS(refused(variables_in(h, "a"), a), "different graphs");
}

// Both networks move by what the other one was before the step, as simultaneous gradient steps of a GAN do.
BOOST_AUTO_TEST_CASE(two_optimizers_train_disjoint_variables_in_one_step) {
  graph g;
  const auto w = variable<float>(g, "generator/w", 3.0f), v = variable<float>(g, "discriminator/v", 5.0f);
  const auto unused = variable<float>(g, "generator/unused", 1.0f);
  const auto product = let(w * v);
  const auto train_w = gradient_descent{.learning_rate = 0.5}.minimize(product, variables_in(g, "generator"));
  BOOST_TEST(slots(g) == 0u);
  const auto train_v =
      momentum{.learning_rate = 0.5, .momentum = 0.9}.minimize(-product, variables_in(g, "discriminator"));
  BOOST_TEST(slots(g) == 1u);  // of v alone
  session s{g, {.threads = 1}};
  auto both = s.prepare(fetch(train_w, train_v));
  both();
  BOOST_TEST(s.get(w) == 0.5f);  // 3 - 0.5 * 5
  BOOST_TEST(s.get(v) == 6.5f);  // 5 + 0.5 * 3
  s.run(fetch(train_w));
  BOOST_TEST(s.get(w) == -2.75f);
  BOOST_TEST(s.get(v) == 6.5f);
  s.run(fetch(train_v));  // velocity: 0.9 * -3 + 2.75
  BOOST_CHECK_CLOSE(s.get(v), 6.5f - 0.5f * (0.9f * -3 + 2.75f), 1e-4);
  BOOST_TEST(s.get(unused) == 1);
}

BOOST_AUTO_TEST_CASE(a_list_trains_what_is_trained_and_named_variables_may_stand_beside_it) {
  graph g;
  const auto a = variable<float>(g, "net/a", 1.0f),
             fixed = variable<float>(g, "net/fixed", 1.0f, variable_kind::frozen);
  const auto b = variable<float>(g, "other/b", 1.0f), c = variable<float>(g, "other/c", 1.0f);
  const auto wide = variable<double>(g, "net/wide", init::ones{});
  const auto loss = let(a + 2.0f * fixed + 4.0f * b + 8.0f * c);
  session s{g, {.threads = 1}};
  s.run(fetch(gradient_descent{.learning_rate = 1}.minimize(loss, variables_in(g, "net"), b)));
  BOOST_TEST(s.get(a) == 0);
  BOOST_TEST(s.get(fixed) == 1);
  BOOST_TEST(s.get(b) == -3);
  BOOST_TEST(s.get(c) == 1);
  // Lists that overlap update each variable once.
  s.run(fetch(gradient_descent{.learning_rate = 1}.minimize(loss, variables_in(g, "other"), variables_in(g, ""), b)));
  BOOST_TEST(s.get(a) == -1);
  BOOST_TEST(s.get(b) == -7);
  BOOST_TEST(s.get(c) == -7);
  BOOST_TEST(s.get(wide) == 1);
  const auto list = compute_gradients(loss, variables_in(g, "other"));
  BOOST_TEST(list.size() == 2u);
  CHECK_SAYS(failure(error_code::invalid_argument,
                     [&] { static_cast<void>(adam{}.minimize(let(a * 2.0f), variables_in(g, "other"))); }),
             "no variable of the list, whose first variable is other/b");
  CHECK_SAYS(failure(error_code::invalid_argument,
                     [&] { static_cast<void>(adam{}.minimize(let(a * 2.0f), b, variables_in(g, "net"))); }),
             "other/b");
  loss_scale scale(g, fixed_loss_scale{.scale = 8});
  s.run(fetch(scale.minimize(gradient_descent{.learning_rate = 1}, loss, variables_in(g, "net"))));
  BOOST_TEST(s.get(a) == -2);
  BOOST_TEST(s.get(b) == -7);
}

BOOST_AUTO_TEST_CASE(a_layer_finds_its_graph_by_its_operand) {
  graph g, other;
  const auto x = placeholder<float, dims<2>>(g, "x");
  const auto y = placeholder<float, dims<2>>(other, "y");
  const auto w = variable<float, dims<2>>(g, "w", init::ones{});
  BOOST_TEST(&graph_of(x) == &g.self());
  BOOST_TEST(&graph_of(w) == &g.self());
  BOOST_TEST(&graph_of(1.0f + x * 2.0f) == &g.self());
  BOOST_TEST(&graph_of(row{1, 2} + exp(y)) == &other.self());
  BOOST_TEST(&graph_of(group(assign(w, x))) == &g.self());
  BOOST_TEST(&graph_of(x.erased()) == &g.self());
  graph moved = std::move(g);
  BOOST_TEST(&graph_of(x) == &moved.self());
  const auto late = variable<float>(graph_of(x), "late");
  BOOST_TEST(moved[late.id().node].name == "late");
  CHECK_SAYS(failure(error_code::failed_precondition, [] { static_cast<void>(graph_of(node<float>())); }), "is empty");
}

BOOST_AUTO_TEST_CASE(reuse_automatic_makes_variables_once) {
  graph g;
  const auto x = placeholder<float, dims<2>>(g, "x");
  const auto first = scaled("model", x, reuse::automatic), second = scaled("model", x * 2.0f, reuse::automatic);
  BOOST_TEST(variables(g).size() == 2u);
  session s{g, {.threads = 1}};
  s.set(find_variable<float, dims<2>>(g, "model/w"), {2, 3});
  BOOST_TEST(s.eval(sum(first + second), with(x, row{1, 1})) == 15);
}

BOOST_AUTO_TEST_CASE(a_model_that_is_called_twice_in_a_name_scope_is_reported_once) {
  graph g;
  const auto x = placeholder<float, dims<2>>(g, "x"), y = placeholder<float, dims<2>>(g, "y");
  const auto loss = named_model(x), tested = named_model(y);
  session s{g, {.threads = 1}};
  const auto early = written_to_stderr([&] { static_cast<void>(s.prepare(fetch(tested), feed(y))); });
  BOOST_TEST(early == "");  // nothing is trained yet
  const auto train = adam{}.minimize(loss);
  std::string explained;
  const auto text = written_to_stderr([&] {
    static_cast<void>(s.prepare(fetch(loss, train), feed(x)));
    static_cast<void>(s.prepare(fetch(tested), feed(y)));
    explained = s.prepare(fetch(tested * 2.0f), feed(y)).explain();
  });
  CHECK_SAYS(text, "a step reads model_1/dense/w");
  CHECK_SAYS(text, "instead of model/dense/w");
  CHECK_SAYS(text, "variable_scope(graph, \"model\", reuse::automatic)");
  BOOST_TEST(std::count(text.begin(), text.end(), '\n') == 1);
  CHECK_SAYS(explained, "a step reads model_1/dense/w");
}

BOOST_AUTO_TEST_CASE(what_is_meant_is_not_reported) {
  const auto silent = [](const auto& use) {
    graph g;
    const auto x = placeholder<float, dims<2>>(g, "x"), y = placeholder<float, dims<2>>(g, "y");
    session s{g, {.threads = 1}};
    BOOST_TEST(written_to_stderr([&] { use(g, s, x, y); }) == "");
  };
  // Layers of one name, all of them trained or the first ones alone.
  silent([](graph& g, session& s, const auto& x, const auto&) {
    const auto loss = named_model(x);
    static_cast<void>(s.prepare(fetch(loss, adam{}.minimize(loss)), feed(x)));
    static_cast<void>(s.prepare(fetch(loss), feed(x)));
    const auto again = momentum{}.minimize(loss, variables_in(g, "model/dense"));
    static_cast<void>(s.prepare(fetch(loss, again), feed(x)));
  });
  silent([](graph& g, session& s, const auto& x, const auto&) {
    const auto loss = named_model(x);
    static_cast<void>(s.prepare(fetch(loss, momentum{}.minimize(loss, variables_in(g, "model/dense"))), feed(x)));
    static_cast<void>(s.prepare(fetch(loss), feed(x)));
  });
  // Two networks of two names.
  silent([](graph&, session& s, const auto& x, const auto& y) {
    const auto loss = let(sum(scaled("model", x))), other = let(sum(scaled("model_1", y)));
    static_cast<void>(s.prepare(fetch(loss, adam{}.minimize(loss)), feed(x)));
    static_cast<void>(s.prepare(fetch(other), feed(y)));
  });
  // A target network, whose values are copies.
  silent([](graph& g, session& s, const auto& x, const auto& y) {
    const auto loss = named_model(x), target = named_model(y);
    static_cast<void>(s.prepare(fetch(loss, adam{}.minimize(loss)), feed(x)));
    const auto copy = assign_all(variables_in(g, "model_1"), variables_in(g, "model"));
    static_cast<void>(s.prepare(fetch(target, copy), feed(y)));
    static_cast<void>(s.prepare(fetch(target), feed(y)));
  });
  // An ensemble, each of its members trained.
  silent([](graph&, session& s, const auto& x, const auto& y) {
    const auto one = named_model(x), two = named_model(y);
    static_cast<void>(s.prepare(fetch(adam{}.minimize(one), adam{}.minimize(two)), feed(x, y)));
    static_cast<void>(s.prepare(fetch(two), feed(y)));
  });
  // One model, by reuse.
  silent([](graph& g, session& s, const auto& x, const auto& y) {
    const auto call = [&](const auto& input) {
      const variable_scope shared(g, "net", reuse::automatic);
      return named_model(input);
    };
    const auto loss = call(x), tested = call(y);
    static_cast<void>(s.prepare(fetch(loss, adam{}.minimize(loss)), feed(x)));
    static_cast<void>(s.prepare(fetch(tested), feed(y)));
    BOOST_TEST(variables(g, variable_kind::trained).size() == 2u);
  });
}
