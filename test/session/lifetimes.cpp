// SPDX-License-Identifier: BSL-1.0
// Graphs and sessions that move, and what is used after its owner is gone.
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <weft/control_flow.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"

using namespace weft;
using test::failure;

namespace {

using three = tensor<float, dims<3>>;

static_assert(std::is_nothrow_move_constructible_v<graph> && std::is_nothrow_move_assignable_v<graph>);
static_assert(std::is_nothrow_move_constructible_v<session> && std::is_nothrow_move_assignable_v<session>);
static_assert(!std::is_copy_constructible_v<graph> && !std::is_copy_constructible_v<session>);

// The loss is the sum of x * w. A training step subtracts x / 2 from w, which is (1, 1, 1) at first.
struct model {
  graph g;
  node<float, dims<3>> x;
  variable_node<float, dims<3>> w;
  node<float> loss;
  session s;
  step<float(three)> evaluate, train;
};

model make_model() {
  graph g;
  const auto x = placeholder<float, dims<3>>(g, "x");
  const name_scope inside(g, "layer");  // ends when the graph has moved
  const auto w = variable<float, dims<3>>(g, "w", init::ones{});
  const auto loss = let(sum(x * w));
  const auto update = gradient_descent{.learning_rate = 0.5f}.minimize(loss);
  session s{g, {.threads = 1}};
  step<float(three)> evaluate = s.prepare(fetch(loss), feed(x)), train = s.prepare(fetch(loss, update), feed(x));
  return {std::move(g), x, w, loss, std::move(s), std::move(evaluate), std::move(train)};
}

void check(model& m) {
  BOOST_TEST(m.train({1, 2, 3}) == 6);
  BOOST_TEST(m.evaluate({1, 2, 3}) == -1);  // w = (0.5, 0, -0.5)
  BOOST_TEST(m.s.get(m.w)(2) == -0.5f);
  const auto twice = let(m.loss * 2.0f);
  BOOST_TEST(m.s.eval(twice, with(m.x, three{0, 0, 1})) == -1);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_function_returns_graph_session_and_steps) {
  model m = make_model();
  check(m);
  BOOST_TEST((find_variable<float, dims<3>>(m.g, "layer/w").id() == m.w.id()));
  const auto outside = variable<float>(m.g, "b");  // the scope of the function has ended
  BOOST_TEST(m.g[outside.id().node].name == "b");
}

BOOST_AUTO_TEST_CASE(models_are_elements_of_a_vector) {
  std::vector<model> all;
  for (int i = 0; i < 5; ++i) all.push_back(make_model());
  for (model& m : all) check(m);
  all.erase(all.begin() + 1);
  all[1] = make_model();
  check(all[1]);
  BOOST_TEST(all[2].evaluate({1, 2, 3}) == -1);
}

BOOST_AUTO_TEST_CASE(a_graph_that_moves_keeps_its_subgraphs_scopes_and_gradients) {
  graph first;
  const auto x = placeholder<float>(first, "x");
  const auto w = variable<float>(first, "w", 3.0f);
  std::optional<variable_scope> inside(std::in_place, first, "net");
  graph g = std::move(first);
  const auto b = variable<float>(g, "b", 1.0f);
  inside.reset();
  const auto y = cond(
      x > 0.0f, [](const auto& a, const auto& c) { return a * c; }, [](const auto& a, const auto&) { return a; }, w, x);
  graph again;
  again = std::move(g);
  const auto [dw] = gradients(y + b, w);
  session s{again, {.threads = 1}};
  BOOST_TEST(again[b.id().node].name == "net/b");
  BOOST_TEST(s.eval(y, with(x, 5.0f)) == 15);
  BOOST_TEST(s.eval(dw, with(x, 5.0f)) == 5);
  BOOST_TEST(s.eval(dw, with(x, -5.0f)) == 1);
}

BOOST_AUTO_TEST_CASE(a_graph_that_was_moved_from_records_nothing) {
  graph g;
  const graph other = std::move(g);
  CHECK_SAYS(failure(error_code::failed_precondition, [&] { static_cast<void>(placeholder<float>(g, "x")); }),
             "moved from");
  CHECK_SAYS(failure(error_code::failed_precondition, [&] { name_scope inside(g, "a"); }), "moved from");
  CHECK_SAYS(failure(error_code::failed_precondition, [&] { const session s(g); }), "moved from");
  BOOST_TEST(g.size() == 0u);
  g = graph(5);
  static_cast<void>(placeholder<float>(g, "x"));
  BOOST_TEST(g.seed() == 5u);
}

BOOST_AUTO_TEST_CASE(a_session_that_was_moved_from_says_so) {
  graph g;
  const auto w = variable<float>(g, "w", 2.0f);
  session s{g, {.threads = 1}};
  session other = std::move(s);
  CHECK_SAYS(failure(error_code::failed_precondition, [&] { s.get(w); }), "moved from");
  CHECK_SAYS(failure(error_code::failed_precondition, [&] { static_cast<void>(s.prepare(fetch(w))); }), "moved from");
  CHECK_SAYS(failure(error_code::failed_precondition, [&] { static_cast<void>(s.options()); }), "moved from");
  s = std::move(other);
  BOOST_TEST(s.get(w) == 2);
}

BOOST_AUTO_TEST_CASE(a_step_after_its_session_says_so) {
  graph g;
  const auto x = placeholder<float, dims<3>>(g, "x");
  std::optional<session> s(std::in_place, g, session_options{.threads = 2});
  auto step = s->prepare(fetch(sum(x)), feed(x));
  BOOST_TEST(step(three{1, 2, 3}) == 6);
  auto never_run = s->prepare(fetch(x * 2.0f), feed(x));
  s.reset();
  CHECK_SAYS(failure(error_code::failed_precondition, [&] { step(three{1, 2, 3}); }), "its session no longer exists");
  CHECK_SAYS(failure(error_code::failed_precondition, [&] { never_run(three{1, 2, 3}); }), "its session");
  BOOST_TEST(!step.explain().empty());
  session other{g, {.threads = 1}};
  step = other.prepare(fetch(sum(x)), feed(x));
  BOOST_TEST(step(three{1, 2, 3}) == 6);
  // Another session in the place of the first one.
  other = session(g, {.threads = 1});
  CHECK_SAYS(failure(error_code::failed_precondition, [&] { step(three{1, 2, 3}); }), "its session no longer exists");
}

BOOST_AUTO_TEST_CASE(a_session_keeps_its_graph) {
  std::optional<graph> g(std::in_place);
  const auto x = placeholder<float, dims<3>>(*g, "x");
  const auto w = variable<float, dims<3>>(*g, "w", init::ones{});
  std::optional<session> s(std::in_place, *g, session_options{.threads = 1});
  g.reset();
  BOOST_TEST(s->eval(sum(x * w), with(x, three{1, 2, 3})) == 6);
  s.reset();
  CHECK_SAYS(failure(error_code::failed_precondition, [&] { static_cast<void>(let(x * w)); }), "its graph no longer");
}

BOOST_AUTO_TEST_CASE(a_node_after_its_graph_says_so) {
  auto g = std::make_unique<graph>();
  const auto x = placeholder<float, dims<3>>(*g, "x");
  const auto w = variable<float, dims<3>>(*g, "w", init::ones{});
  const auto loss = let(sum(x * w));
  const effect update = gradient_descent{}.minimize(loss);
  auto pairs = compute_gradients(loss);
  const auto expression = x * w + 1.0f;
  g.reset();
  graph other;  // may have the records of the first one
  const auto y = placeholder<float, dims<3>>(other, "y");
  session s{other, {.threads = 1}};
  const char* const says = "its graph no longer exists";
  const auto refused = [&](const auto& use) { CHECK_SAYS(failure(error_code::failed_precondition, use), says); };
  refused([&] { static_cast<void>(let(x + y)); });
  refused([&] { static_cast<void>(sum(x)); });
  refused([&] { static_cast<void>(let(expression)); });
  refused([&] { static_cast<void>(assign(w, w * 2.0f)); });
  refused([&] { static_cast<void>(gradients(loss, w)); });
  refused([&] { static_cast<void>(adam{}.minimize(loss)); });
  refused([&] { static_cast<void>(adam{}.apply_gradients(pairs)); });
  refused([&] { static_cast<void>(group(update)); });
  refused([&] { static_cast<void>(s.prepare(fetch(loss), feed(x))); });
  refused([&] { static_cast<void>(s.prepare(fetch(sum(y), update))); });
  refused([&] { s.get(w); });
  refused([&] { s.set(w, three{1, 2, 3}); });
  refused([&] { const device_scope beside = colocate_with(other, x); });
  for (auto& pair : pairs) refused([&] { pair.gradient = pair.gradient * 0.5; });
}

BOOST_AUTO_TEST_CASE(clones_read_the_variables_of_one_session) {
  model m = make_model();
  m.train({1, 2, 3});  // w = (0.5, 0, -0.5)
  const auto count = variable<float>(m.g, "count", init::zeros{}, variable_kind::local);
  const auto counted = assign_add(count, 1.0f);
  step<float()> counted_by_owner = m.s.prepare(fetch(counted));
  counted_by_owner();
  const void* const values = m.s.state_of(m.w.id().node).data();
  {
    session clone = m.s.clone_for_inference({.threads = 1});
    session also = clone.clone_for_inference();
    BOOST_TEST(clone.state_of(m.w.id().node).data() == values);
    BOOST_TEST(also.state_of(m.w.id().node).data() == values);
    step<float(three)> evaluate = clone.prepare(fetch(m.loss), feed(m.x));
    step<float(three)> train = also.prepare(fetch(m.loss, group(assign(m.w, m.w * 2.0f))), feed(m.x));
    BOOST_TEST(evaluate({1, 2, 3}) == -1);
    BOOST_TEST(m.evaluate({1, 2, 3}) == -1);
    // All of them refuse to write.
    const auto refused = [&](const auto& use) { CHECK_SAYS(failure(error_code::failed_precondition, use), "clone"); };
    refused([&] { train({1, 2, 3}); });
    refused([&] { m.train({1, 2, 3}); });
    refused([&] { clone.set(m.w, three{1, 2, 3}); });
    refused([&] { m.s.set(m.w, three{1, 2, 3}); });
    // A worker's own variables are each clone's own.
    step<float()> counted_by_clone = clone.prepare(fetch(counted));
    BOOST_TEST(counted_by_clone() == 2);
    BOOST_TEST(counted_by_clone() == 3);
    BOOST_TEST(counted_by_owner() == 2);
    clone.set(count, 7.0f);
    BOOST_TEST(also.get(count) == 1);
  }
  BOOST_TEST(m.train({1, 2, 3}) == -1);
  BOOST_TEST(m.evaluate({1, 2, 3}) == -8);  // w = (0, -1, -2)
}

BOOST_AUTO_TEST_CASE(clones_outlive_the_session) {
  std::optional<model> m(make_model());
  session clone = m->s.clone_for_inference({.threads = 1});
  step<float(three)> evaluate = clone.prepare(fetch(m->loss), feed(m->x));
  m.reset();
  BOOST_TEST(evaluate({1, 2, 3}) == 6);
  session second = clone.clone_for_inference();
  BOOST_TEST((second.of().size() > 0));
}

BOOST_AUTO_TEST_CASE(a_clone_has_no_variables_of_its_own_container) {
  model m = make_model();
  session_options with_container{.threads = 1};
  with_container.variables.find_or_add = [](const std::string&, const std::string&, const value_info&,
                                            const storage& first) { return first; };
  CHECK_SAYS(failure(error_code::invalid_argument, [&] { static_cast<void>(m.s.clone_for_inference(with_container)); }),
             "session_options::variables");
  m.train({1, 2, 3});  // and the failed attempt has left nothing behind
}
