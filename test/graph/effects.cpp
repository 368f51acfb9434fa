// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>
#include <weft/weft.hpp>

#include "errors.hpp"

using namespace weft;
using test::failure;

namespace {

/// A layer whose variables and result are members.
struct dense {
  variable_node<float, dims<3, 2>> weights;
  node<float, dims<4, 2>> result;

  void build(graph& g, const node<float, dims<4, 3>>& x) {
    weights = variable<float, dims<3, 2>>(g, "weights", init::ones{});
    result = matmul(x, weights) * 2.0f;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_node_is_declared_and_assigned_later) {
  graph g;
  const auto x = placeholder<float, dims<4, 3>>(g, "x");
  dense layer;
  BOOST_CHECK(layer.weights.empty() && layer.result.empty());
  layer.build(g, x);
  BOOST_CHECK(!layer.result.empty());
  std::vector<node<float, dims<4, 2>>> several(3);
  for (auto& h : several) h = layer.result + 1.0f;
  session s{g};
  const tensor<float, dims<4, 3>> fed = tensor<float, dims<4, 3>>() + 1.0f;
  BOOST_CHECK_EQUAL(s.eval(several[2], with(x, fed))(3, 1), 7.0f);
}

BOOST_AUTO_TEST_CASE(an_empty_node_is_an_error_where_it_is_used) {
  graph g;
  const auto x = variable<float, dims<3>>(g, "x", init::ones{});
  node<float, dims<3>> h;
  variable_node<float, dims<3>> w;
  effect e;
  session s{g};
  const auto says = [](auto f) { return failure(error_code::failed_precondition, f); };
  CHECK_SAYS(says([&] { static_cast<void>(let(h * x)); }), "node: is empty: assign it before it is used");
  CHECK_SAYS(says([&] { static_cast<void>(sum(h)); }), "is empty");
  CHECK_SAYS(says([&] { static_cast<void>(s.eval(h)); }), "is empty");
  CHECK_SAYS(says([&] { static_cast<void>(s.get(w)); }), "is empty");
  CHECK_SAYS(says([&] { static_cast<void>(assign(w, x)); }), "is empty");
  CHECK_SAYS(says([&] { s.run(fetch(e)); }), "is empty");
  CHECK_SAYS(says([&] { static_cast<void>(gradients(sum(x), h)); }), "is empty");
  CHECK_SAYS(says([&] { static_cast<void>(group(assign(x, x * 2.0f), e)); }), "is empty");
}

BOOST_AUTO_TEST_CASE(a_group_runs_its_members) {
  graph g;
  const auto a = variable<float>(g, "a", 1.0f), b = variable<float>(g, "b", 2.0f);
  const effect both = group(assign_add(a, 1.0f), assign_add(b, 1.0f)), nested = group(both, assign(a, b));
  session s{g};
  s.run(fetch(both));
  BOOST_CHECK_EQUAL(s.get(a), 2.0f);
  BOOST_CHECK_EQUAL(s.get(b), 3.0f);
  static_cast<void>(nested);
  graph other;
  const auto c = variable<float>(other, "c", 1.0f);
  CHECK_SAYS(
      failure(error_code::invalid_argument, [&] { static_cast<void>(group(assign(a, b), assign(c, c + 1.0f))); }),
      "operands belong to different graphs: 'assign' is not in the graph of the others");
}

BOOST_AUTO_TEST_CASE(control_dependencies_run_first_and_always) {
  graph g;
  const auto count = variable<float>(g, "count", 0.0f), x = variable<float>(g, "x", 3.0f);
  const auto counted = assign_add(count, 1.0f);
  const auto outside = let(x * 2.0f);
  const auto inside = [&] {
    const control_dependencies after(g, counted);
    return let(x * 2.0f);
  }();
  BOOST_CHECK(!(inside.id() == outside.id()));  // the same call, but one of them counts
  const auto again = let(x * 2.0f);
  BOOST_CHECK(again.id() == outside.id());
  session s{g};
  BOOST_CHECK_EQUAL(s.eval(outside), 6.0f);
  BOOST_CHECK_EQUAL(s.get(count), 0.0f);
  BOOST_CHECK_EQUAL(s.eval(inside), 6.0f);
  BOOST_CHECK_EQUAL(s.get(count), 1.0f);
  {
    const control_dependencies after(g, counted);
    const auto made = variable<float>(g, "made", 1.0f);  // a leaf waits for nothing
    BOOST_CHECK_EQUAL(s.eval(made), 1.0f);
  }
  BOOST_CHECK_EQUAL(s.get(count), 1.0f);
}

BOOST_AUTO_TEST_CASE(scopes_of_control_dependencies_add_up) {
  graph g;
  const auto a = variable<float>(g, "a", 0.0f), b = variable<float>(g, "b", 0.0f), x = variable<float>(g, "x", 1.0f);
  const auto first = assign_add(a, 1.0f), second = assign_add(b, 1.0f);
  const control_dependencies outer(g, first);
  const auto y = [&] {
    const control_dependencies inner(g, second);
    return let(x + 1.0f);
  }();
  const auto z = let(x + 1.0f);
  session s{g};
  static_cast<void>(s.eval(z));
  BOOST_CHECK_EQUAL(s.get(a), 1.0f);
  BOOST_CHECK_EQUAL(s.get(b), 0.0f);
  static_cast<void>(s.eval(y));
  BOOST_CHECK_EQUAL(s.get(a), 2.0f);
  BOOST_CHECK_EQUAL(s.get(b), 1.0f);
}

BOOST_AUTO_TEST_CASE(a_training_takes_the_updates_of_its_loss_along) {
  graph g;
  const auto moving = [&](const char* name, const auto& x) {
    const auto average = variable<float>(g, name, 0.0f, variable_kind::averaged);
    const auto batch = let(mean(x));
    add_update(assign(average, 0.5f * average + 0.5f * batch));
    return std::pair(average, batch);
  };
  const auto w = variable<float, dims<2>>(g, "w", init::ones{});
  const auto x = placeholder<float, dims<2>>(g, "x"), other = placeholder<float, dims<2>>(g, "other");
  const auto [mine, batch] = moving("mine", x * w);
  const auto [foreign, unused] = moving("foreign", other * w);  // shares a variable with the loss, and nothing computed
  const auto train = gradient_descent{.learning_rate = 0.0f}.minimize(square(batch - 1.0f));
  static_cast<void>(unused);
  session s{g};
  s.run(fetch(train), with(x, tensor<float, dims<2>>{4, 4}));  // `other` need not be fed
  BOOST_CHECK_EQUAL(s.get(mine), 2.0f);
  s.run(fetch(train), with(x, tensor<float, dims<2>>{4, 4}));
  BOOST_CHECK_EQUAL(s.get(mine), 3.0f);
  BOOST_CHECK_EQUAL(s.get(foreign), 0.0f);
}

BOOST_AUTO_TEST_CASE(variables_are_found_by_name) {
  graph g;
  const auto w = [&] {
    const name_scope layer(g, "layer");
    return variable<float, dims<2, 3>>(g, "w", init::ones{});
  }();
  static_cast<void>(variable<double>(g, "seen", 0.0, variable_kind::averaged));
  const auto all = variables(g);
  BOOST_REQUIRE_EQUAL(all.size(), 2u);
  BOOST_CHECK_EQUAL(all[0].name, "layer/w");
  BOOST_CHECK(all[0].type == dtype::float32 && all[0].extents == shape(2, 3) && all[0].kind == variable_kind::trained);
  BOOST_CHECK_EQUAL(all[1].name, "seen");
  BOOST_CHECK_EQUAL(variables(g, variable_kind::averaged).size(), 1u);
  const auto found = find_variable<float, dims<2, 3>>(g, "layer/w");
  BOOST_CHECK(found.id() == w.id());
  session s{g};
  BOOST_CHECK_EQUAL(s.get(found)(1, 2), 1.0f);
  CHECK_SAYS(failure(error_code::not_found, [&] { static_cast<void>(find_variable<float>(g, "w")); }),
             "w: there is no variable of this name");
  CHECK_SAYS(failure(error_code::invalid_argument, [&] { static_cast<void>(find_variable<float>(g, "layer/w")); }),
             "the variable is float [2, 3], but is requested as float []");
}
