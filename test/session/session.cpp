// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>
#include <weft/session/step_plan.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"
#include "list.hpp"

using namespace weft;
using test::failure;
using test::floats;
using test::list;

namespace {

using vec = tensor<float, dims<3>>;
using batch = dims<dyn<"batch">, 2>;

// An operation that counts its runs.
int runs = 0;
struct counting_kernel final : kernel {
  std::uint32_t in, out;
  explicit counting_kernel(const prepare_context& p) : in(p.input_slots[0]), out(p.output_slots[0]) {}
  void run(const kernel_context& f) override {
    ++runs;
    __builtin_memcpy(f.buffers[out], f.buffers[in], 3 * sizeof(float));
  }
  std::string describe() const override { return "counting"; }
};
constexpr operation counting = {
    .name = "counting", .prepare_cpu = [](const prepare_context& p) -> kernel* { return new counting_kernel(p); }};

template <class N>
N counted(const N& x) {
  node_def c;
  c.op = &counting;
  c.inputs = {x.id()};
  c.outputs = {x.erased().info()};
  return N(x.erased().builder()->record(c));
}

}  // namespace

BOOST_AUTO_TEST_CASE(run_prepare_and_eval_agree) {
  graph g;
  const auto x = placeholder<float, dims<3>>(g, "x");
  const auto n = placeholder<std::int32_t>(g, "n");
  const auto y = let(x * 2.0f);
  const auto total = sum(y);
  const auto next = let(n + 1);
  session s{g, {.threads = 1}};
  const vec value{1, 2, 3};

  auto step = s.prepare(fetch(y, total, next), feed(x, n));
  const auto [a, b, c] = step(value, 41);
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(a)>, vec>);
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(b)>, float>);
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(c)>, std::int32_t>);
  BOOST_CHECK(list(a) == (floats{2, 4, 6}));
  BOOST_CHECK_EQUAL(b, 12);
  BOOST_CHECK_EQUAL(c, 42);

  const auto [d, e] = s.run(fetch(total, next), with(n, 1), with(x, value));  // feeds in any order
  BOOST_CHECK_EQUAL(d, 12);
  BOOST_CHECK_EQUAL(e, 2);
  BOOST_CHECK_EQUAL(s.eval(total, with(x, value)), 12);
  BOOST_CHECK(list(s.eval(x - 1.0f, with(x, value))) == (floats{0, 1, 2}));  // expressions can be fetched
  BOOST_CHECK(list(s.eval(x, with(x, value))) == (floats{1, 2, 3}));         // and what is fed
  BOOST_CHECK_EQUAL(s.eval(total, with(y, value)), 6);                       // any node can be fed
  BOOST_CHECK_EQUAL(s.eval(constant(g, 3.5)), 3.5);
}

BOOST_AUTO_TEST_CASE(results_are_values) {
  graph g;
  const auto x = placeholder<float, dims<3>>(g);
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(x + 1.0f), feed(x));
  const vec first = step(vec{1, 2, 3});
  const vec second = step(vec{4, 5, 6});  // does not write what the caller still holds
  BOOST_CHECK(list(first) == (floats{2, 3, 4}));
  BOOST_CHECK(list(second) == (floats{5, 6, 7}));
  auto both = s.prepare(fetch(x * x, x * x, reshape<dims<3, 1>>(x * x)), feed(x));
  const auto [a, b, c] = both(vec{1, 2, 3});
  BOOST_CHECK(list(a) == list(b) && list(a) == list(c) && list(a) == (floats{1, 4, 9}));
}

BOOST_AUTO_TEST_CASE(a_missing_feed_is_named) {
  graph g;
  const auto x = placeholder<float, batch>(g, "pixels");
  session s{g, {.threads = 1}};
  const auto text = failure(error_code::invalid_argument, [&] { static_cast<void>(s.eval(sum(x))); });
  CHECK_SAYS(text, "pixels");
  CHECK_SAYS(text, "[batch, 2]");
  CHECK_SAYS(text, "float");
  CHECK_SAYS(text, "not fed");
}

BOOST_AUTO_TEST_CASE(a_value_is_fed_once) {
  graph g;
  const auto x = placeholder<float>(g, "x");
  session s{g};
  const auto text =
      failure(error_code::invalid_argument, [&] { static_cast<void>(s.eval(x + 1, with(x, 1.0f), with(x, 2.0f))); });
  CHECK_SAYS(text, "x: is fed twice");
}

BOOST_AUTO_TEST_CASE(options_that_are_refused_are_named) {
  graph g;
  const auto text = failure(error_code::invalid_argument, [&] { session s(g, {.inter_op_threads = 0}); });
  CHECK_SAYS(text, "inter_op_threads = 0");
}

BOOST_AUTO_TEST_CASE(unequal_named_extents_are_named) {
  graph g;
  const auto x = placeholder<float, batch>(g, "images");
  const auto y = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "labels");
  const auto z = mean(cast<float>(argmax<1>(x) == y));
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(z), feed(x, y));
  using images = tensor<float, batch>;
  using labels = tensor<std::int32_t, dims<dyn<"batch">>>;
  auto text = failure(error_code::invalid_argument, [&] { step(images(shape(3, 2)), labels(shape(4))); });
  for (const char* part : {"labels", "images", "batch", "4", "3"}) CHECK_SAYS(text, part);
  text = failure(error_code::invalid_argument,
                 [&] { step(tensor<float, dims<dyn<"a">, dyn<"b">>>(shape(3, 5)), labels(shape(3))); });
  for (const char* part : {"images", "[3, 5]", "[batch, 2]"}) CHECK_SAYS(text, part);
  BOOST_CHECK_EQUAL(step(images(shape(3, 2)), labels(shape(3))), 1);  // the step is still usable
  g.set(dyn<"batch">, 7);
  session fixed{g, {.threads = 1}};
  text = failure(error_code::invalid_argument,
                 [&] { static_cast<void>(fixed.eval(z, with(x, images(shape(3, 2))), with(y, labels(shape(3))))); });
  for (const char* part : {"batch", "7", "3"}) CHECK_SAYS(text, part);
}

BOOST_AUTO_TEST_CASE(extents_that_are_computed) {
  constexpr auto a = dyn<"a">;
  constexpr auto b = dyn<"b">;
  graph g;
  const auto x = placeholder<float, dims<dyn<"a">>>(g, "x");
  const auto y = placeholder<float, dims<b>>(g, "y");
  const auto both = placeholder<float, dims<a + b>>(g, "both");
  const auto halves = placeholder<float, dims<ceil_quotient(b + a, extent<2>)>>(g, "half");
  const auto exact = placeholder<float, dims<(a * b) / extent<3>>>(g, "exact");
  const auto z = sum(x) + sum(y) + sum(both) + sum(halves);
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(z), feed(x, y, both, halves));
  const auto ones = [](std::int64_t n) {
    tensor<float, dims<dyn<"any">>> t(shape{n});
    for (std::int64_t i = 0; i < n; ++i) t.data()[i] = 1;
    return t;
  };
  for (const auto& [p, q] : {std::pair{2, 3}, {3, 4}, {0, 5}, {2, 3}})
    BOOST_CHECK_EQUAL(step(ones(p), ones(q), ones(p + q), ones((p + q + 1) / 2)), 2 * (p + q) + (p + q + 1) / 2);
  CHECK_SAYS(failure(error_code::invalid_argument, [&] { step(ones(2), ones(3), ones(6), ones(3)); }),
             "a + b: the extent is 6 but is computed as 5");
  // A computed extent is known from its names alone; a quotient must be whole.
  CHECK_SAYS(
      failure(error_code::failed_precondition, [&] { variable<float, dims<a * b>>(g, "v", init::ones{}); }),
      "the extent a * b has no value yet: g.set(dyn<\"...\">, n) of the names in it must come before the variable");
  g.set(a, 4);
  g.set(b, 5);
  const auto w = variable<float, dims<b * a>>(g, "w", init::ones{});
  session fixed{g, {.threads = 1}};
  BOOST_CHECK_EQUAL(fixed.eval(sum(w)), 20);
  CHECK_SAYS(failure(error_code::invalid_argument, [&] { fixed.eval(sum(exact), with(exact, ones(7))); }),
             "the extent is 20 / 3, which is not a whole number");
}

BOOST_AUTO_TEST_CASE(an_uninitialised_variable_is_named) {
  graph g;
  const auto v = variable<float, dims<3>>(g, "restored", init::none{});
  const auto set = assign(v, constant(g, vec{1, 2, 3}));
  session s{g, {.threads = 1}};
  CHECK_SAYS(failure(error_code::failed_precondition, [&] { static_cast<void>(s.eval(v)); }), "restored");
  failure(error_code::failed_precondition, [&] { static_cast<void>(s.eval(sum(v * v))); });
  failure(error_code::failed_precondition,
          [&] { static_cast<void>(s.eval(assign_add(v, constant(g, vec{1, 1, 1})))); });
  failure(error_code::failed_precondition, [&] { static_cast<void>(s.run(fetch(set, v))); });  // v is the old value
  BOOST_CHECK(list(s.eval(set + 1.0f)) == (floats{2, 3, 4}));
  BOOST_CHECK(list(s.eval(v)) == (floats{1, 2, 3}));
}

BOOST_AUTO_TEST_CASE(what_is_not_asked_for_is_not_run) {
  graph g;
  const auto x = placeholder<float, dims<3>>(g, "x");
  const auto unfed = placeholder<float, dims<3>>(g, "unfed");
  const auto a = counted(x);
  const auto b = sum(a + unfed);
  const auto c = sum(a * a);
  const auto unrelated = let(x * 3.0f);
  session s{g, {.threads = 1}};
  runs = 0;
  s.eval(unrelated, with(x, vec{1, 2, 3}));
  BOOST_CHECK_EQUAL(runs, 0);
  s.run(fetch(c, a, sum(a)), with(x, vec{1, 2, 3}));
  BOOST_CHECK_EQUAL(runs, 1);  // once, however often it is used
  s.run(fetch(b), with(a, vec{1, 2, 3}), with(unfed, vec{1, 2, 3}));
  BOOST_CHECK_EQUAL(runs, 1);  // not when its value is fed
  s.eval(shape_of(a), with(x, vec{1, 2, 3}));
  BOOST_CHECK_EQUAL(runs, 1);  // not when its extents are all that is needed
}

// ---- reads and writes of variables ----

BOOST_AUTO_TEST_CASE(readers_see_the_value_from_before_the_step) {
  graph g;
  const auto v = variable<float>(g, "v", init::constant{10});
  const auto plus = assign_add(v, constant(g, 1.0f));
  const auto twice = let(v * 2.0f);
  session s{g, {.threads = 1}};
  const auto [old, doubled, now] = s.run(fetch(v, twice, plus));
  BOOST_CHECK_EQUAL(old, 10);
  BOOST_CHECK_EQUAL(doubled, 20);
  BOOST_CHECK_EQUAL(now, 11);
  const auto [now2, doubled2, old2] = s.run(fetch(plus, twice, v));  // whatever the order
  BOOST_CHECK_EQUAL(now2, 12);
  BOOST_CHECK_EQUAL(doubled2, 22);
  BOOST_CHECK_EQUAL(old2, 11);
  BOOST_CHECK_EQUAL(s.eval(v), 12);
}

BOOST_AUTO_TEST_CASE(what_is_computed_to_be_assigned_is_computed_in_the_variable) {
  graph g;
  const auto v = variable<float, dims<3>>(g, "v", vec{1, 2, 3});
  const auto w = variable<float, dims<3, 3>>(g, "w", init::constant{1});
  const auto p = variable<float, dims<3, 3>>(g, "p", init::constant{0});
  const auto x = placeholder<float, dims<3>>(g, "x");
  session s{g, {.threads = 1}};
  const auto in_place = [](const auto& step) {
    const std::string text = explain(step);
    return text.find("assign 12 bytes") == text.npos && text.find("assign 36 bytes") == text.npos;
  };

  auto average = s.prepare(fetch(assign(v, 0.5f * v + 0.5f * x)), feed(x));  // reads what it overwrites
  average(vec{3, 4, 5});
  BOOST_TEST(in_place(average));
  CHECK_SAYS(explain(average), "into v");
  BOOST_CHECK(list(s.eval(v)) == (floats{2, 3, 4}));

  auto outer = s.prepare(fetch(assign(w, w * reshape<dims<3, 1>>(x) + x)), feed(x));
  outer(vec{1, 2, 3});
  BOOST_TEST(in_place(outer));
  BOOST_CHECK(list(s.eval(w)) == (floats{2, 3, 4, 3, 4, 5, 4, 5, 6}));

  // The old value is needed once more, by another kernel or by the caller.
  auto turned = s.prepare(fetch(assign(w, w + transpose(w))));
  turned();
  BOOST_CHECK(list(s.eval(w)) == (floats{4, 6, 8, 6, 8, 10, 8, 10, 12}));
  auto spread = s.prepare(fetch(assign(v, v + sum(v))));
  spread();
  BOOST_CHECK(list(s.eval(v)) == (floats{11, 12, 13}));
  const auto doubled = let(v * 2.0f);
  auto both = s.prepare(fetch(assign(v, doubled), doubled));
  const auto [now, value] = both();
  BOOST_TEST(!in_place(both));
  BOOST_CHECK(list(now) == (floats{22, 24, 26}) && list(value) == list(now));
  BOOST_CHECK(list(s.eval(v)) == list(now));
  auto before = s.prepare(fetch(assign(v, x * 2.0f), let(v + 1.0f), v), feed(x));
  const auto [after, above, old] = before(vec{1, 2, 3});
  BOOST_CHECK(list(after) == (floats{2, 4, 6}) && list(above) == (floats{23, 25, 27}));
  BOOST_CHECK(list(old) == (floats{22, 24, 26}));

  // A product writes there, too, unless it reads the variable.
  auto product = s.prepare(fetch(assign(p, matmul(w, w) + 1.0f)));
  const tensor<float, dims<3, 3>> squares = product();
  BOOST_TEST(in_place(product));
  BOOST_CHECK(list(s.eval(p)) == list(squares) && squares(0, 0) == 4 * 4 + 6 * 6 + 8 * 8 + 1);
  const tensor<float, dims<3, 3>> fourth = s.eval(assign(p, matmul(p, p) - 1.0f));
  BOOST_TEST(fourth(2, 0) ==
             squares(2, 0) * squares(0, 0) + squares(2, 1) * squares(1, 0) + squares(2, 2) * squares(2, 0) - 1);
}

BOOST_AUTO_TEST_CASE(old_and_new_value_in_one_expression) {
  graph g;
  const auto v = variable<float, dims<3>>(g, "v", vec{1, 2, 3});
  const auto updated = assign(v, v * 10.0f);
  const auto difference = let(updated - v);  // needs a snapshot of the old value
  const auto chained = assign_add(v, updated * 0.0f + 1.0f);
  session s{g, {.threads = 1}};
  BOOST_CHECK(list(s.eval(difference)) == (floats{9, 18, 27}));
  BOOST_CHECK(list(s.eval(v)) == (floats{10, 20, 30}));
  BOOST_CHECK(list(s.eval(chained)) == (floats{101, 201, 301}));
  auto step = s.prepare(fetch(difference, v, sum(v)));
  const auto [d, old, total] = step();
  BOOST_CHECK(list(d) == (floats{909, 1809, 2709}));
  BOOST_CHECK(list(old) == (floats{101, 201, 301}));
  BOOST_CHECK_EQUAL(total, 603);
}

// Each write yields what it wrote, whatever is written after it in the same step.
BOOST_AUTO_TEST_CASE(what_a_write_yields_is_fetched_before_the_next_write) {
  graph g;
  const auto v = variable<float, dims<3>>(g, "v", init::ones{});
  const auto first = assign(v, v + 1), second = assign_add(v, v * 10), third = assign(v, v - 0.5f);
  for (const int inter_op_threads : {1, 2}) {
    session s{g, {.inter_op_threads = inter_op_threads}};
    auto step = s.prepare(fetch(v, first, reshape<dims<3, 1>>(first), second, third));
    for (float old : {1.0f, 0.5f}) {
      const auto [before, one, same, two, three] = step();
      BOOST_CHECK(list(before) == floats(3, old));
      BOOST_CHECK(list(one) == floats(3, old + 1));
      BOOST_CHECK(list(same) == floats(3, old + 1));
      BOOST_CHECK(list(two) == floats(3, old + 1 + 10 * old));
      BOOST_CHECK(list(three) == floats(3, old - 0.5f));
    }
    BOOST_CHECK(list(s.eval(v)) == floats(3, 0));
  }
}

BOOST_AUTO_TEST_CASE(assignments_exchange_two_variables) {
  graph g;
  const auto a = variable<float, dims<3>>(g, "a", vec{1, 2, 3});
  const auto b = variable<float, dims<3>>(g, "b", vec{4, 5, 6});
  const auto to_a = assign(a, b + 0.0f);
  const auto to_b = assign(b, a + 0.0f);
  session s{g, {.threads = 1}};
  auto exchange = s.prepare(fetch(to_a, to_b));
  for (int i = 0; i < 3; ++i) {
    exchange();
    const auto [x, y] = s.run(fetch(a, b));
    BOOST_CHECK(list(x) == (i % 2 ? floats{1, 2, 3} : floats{4, 5, 6}));
    BOOST_CHECK(list(y) == (i % 2 ? floats{4, 5, 6} : floats{1, 2, 3}));
  }
}

// As they are, by addition, through another shape, and three of them in a ring.
BOOST_AUTO_TEST_CASE(assignments_exchange_variables_whatever_else_they_wait_for) {
  using pair = tensor<float, dims<2>>;
  graph g;
  const auto a = variable<float, dims<2>>(g, "a", pair{1, 2});
  const auto b = variable<float, dims<2>>(g, "b", pair{3, 4});
  const auto c = variable<float, dims<2>>(g, "c", pair{5, 6});
  const auto expect = [&](session& s, const floats& in_a, const floats& in_b, const floats& in_c) {
    const auto [x, y, z] = s.run(fetch(a, b, c));
    BOOST_CHECK(list(x) == in_a && list(y) == in_b && list(z) == in_c);
  };
  session s{g, {.threads = 1}};
  s.run(fetch(assign(a, b), assign(b, a)));
  expect(s, {3, 4}, {1, 2}, {5, 6});
  s.run(fetch(assign_add(a, b), assign_add(b, a)));
  expect(s, {4, 6}, {4, 6}, {5, 6});
  s.run(fetch(assign(b, reshape<dims<2>>(reshape<dims<2, 1>>(c))), assign(c, b)));
  expect(s, {4, 6}, {5, 6}, {4, 6});
  s.run(fetch(assign(a, b), assign(b, c), assign(c, a)));
  expect(s, {5, 6}, {4, 6}, {4, 6});
}

BOOST_AUTO_TEST_CASE(what_is_fed_is_not_written) {
  using pair = tensor<float, dims<2>>;
  graph g;
  const auto w = variable<float, dims<2>>(g, "w", pair{1, 2});
  const auto loss = sum(square(w));
  const auto train = gradient_descent{.learning_rate = 0.25}.minimize(loss);
  session s{g, {.threads = 1}};
  const pair mine{5, 7};
  BOOST_TEST(s.eval(loss, with(w, mine)) == 74);
  CHECK_SAYS(failure(error_code::invalid_argument, [&] { s.run(fetch(loss, train), with(w, mine)); }),
             "writes w, which is fed in the same step");
  BOOST_CHECK(list(mine) == (floats{5, 7}) && list(s.eval(w)) == (floats{1, 2}));
}

BOOST_AUTO_TEST_CASE(constants_have_named_extents_too) {
  using row = dims<dyn<"n">>;
  graph g;
  const auto x = placeholder<float, row>(g, "x");
  const tensor<float, row> three(shape(3), {1, 2, 3});
  session s{g, {.threads = 1}};
  BOOST_CHECK(list(s.eval(constant(g, three) * 2.0f)) == (floats{2, 4, 6}));  // n is known from the constant
  auto step = s.prepare(fetch(let(x + three)), feed(x));
  BOOST_CHECK(list(step(three)) == (floats{2, 4, 6}));
  const auto text = failure(error_code::invalid_argument, [&] { step(tensor<float, row>(shape(7))); });
  CHECK_SAYS(text, "x: the extent n is 7 here but 3 in constant");
  const tensor<float, row> four(shape(4), {1, 2, 3, 4});
  CHECK_SAYS(failure(error_code::invalid_argument, [&] { s.eval(constant(g, three) + four); }),
             "the extent n is 4 here but 3 in constant: a constant of [4] for [n]");
}

BOOST_AUTO_TEST_CASE(tensors_are_constants_among_nodes) {
  graph g;
  const auto w = variable<float, dims<2, 2>>(g, "w", init::zeros{});
  const auto loss = sum(softmax_cross_entropy(w, tensor<std::int32_t, dims<2>>{0, 1}));
  const auto set = assign(w, tensor<float, dims<2, 2>>{1, 2, 3, 4} * 2);
  const auto row = tensor<float, dims<dyn<"rows">, 2>>(shape(1, 2));
  session s{g, {.threads = 1}};
  BOOST_CHECK_CLOSE(s.eval(loss), 2 * std::log(2.0f), 1e-4);
  BOOST_CHECK(list(s.eval(set)) == (floats{2, 4, 6, 8}));
  const auto dynamic = assign_add(w, row);
  CHECK_SAYS(failure(error_code::invalid_argument, [&] { s.run(fetch(dynamic)); }), "[1, 2]");
}

BOOST_AUTO_TEST_CASE(gradients_are_of_the_old_values) {
  graph g;
  const auto w = variable<float, dims<1, 1>>(g, "w", tensor<float, dims<1, 1>>{2});
  const auto x = constant(g, tensor<float, dims<1, 1>>{3});
  const auto y = matmul(matmul(x, w), w);  // 3 w^2: the second product's gradient reads w too
  const auto train = gradient_descent{.learning_rate = 0.125}.minimize(sum(y));
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(y, train, w));
  const auto [before, none, old] = step();
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(none)>, nothing>);
  BOOST_CHECK_EQUAL(before(0, 0), 12);
  BOOST_CHECK_EQUAL(old(0, 0), 2);
  BOOST_CHECK_EQUAL(s.eval(w)(0, 0), 2 - 0.125f * 12);
}

BOOST_AUTO_TEST_CASE(momentum_keeps_its_velocity) {
  graph g;
  const auto w = variable<double>(g, "w", init::constant{1});
  const auto train = momentum{.learning_rate = 0.1, .momentum = 0.5}.minimize(square(w));
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(train));
  double expected = 1, velocity = 0;
  for (int i = 0; i < 5; ++i) {
    step();
    velocity = 0.5 * velocity + 2 * expected;
    expected -= 0.1 * velocity;
    BOOST_CHECK_CLOSE(s.eval(w), expected, 1e-12);
  }
}

BOOST_AUTO_TEST_CASE(sessions_have_variables_of_their_own) {
  graph g;
  const auto v = variable<float>(g, "v", init::constant{1});
  const auto plus = assign_add(v, constant(g, 1.0f));
  session a{g, {.threads = 1}}, b{g, {.threads = 1}};
  a.eval(plus);
  BOOST_CHECK_EQUAL(a.eval(v), 2);
  BOOST_CHECK_EQUAL(b.eval(v), 1);
  const auto late = variable<float>(g, "late", init::constant{5});  // joins after the session was made
  BOOST_CHECK_EQUAL(a.eval(late + v), 7);
}

BOOST_AUTO_TEST_CASE(extents_fixed_by_the_graph) {
  graph g;
  g.set(dyn<"hidden">, 5);
  const auto w = variable<float, dims<2, dyn<"hidden">>>(g, "w", init::ones{});
  const auto x = placeholder<float, batch>(g, "x");
  session s{g, {.threads = 1}};
  const auto y = s.eval(matmul(x, w), with(x, tensor<float, batch>(shape(1, 2), {3, 4})));
  BOOST_CHECK_EQUAL(y.extent(1), 5);
  BOOST_CHECK_EQUAL(y(0, 4), 7);
}

// ---- failures while running ----

BOOST_AUTO_TEST_CASE(a_label_out_of_range) {
  graph g;
  using classes = dims<dyn<"batch">>;
  const auto x = placeholder<float, dims<dyn<"batch">, 3>>(g);
  const auto labels = placeholder<std::int32_t, classes>(g);
  const auto w = variable<float, dims<3, 3>>(g, "w", init::ones{});
  const auto loss = mean(softmax_cross_entropy(matmul(x, w), labels));
  const auto train = gradient_descent{.learning_rate = 1}.minimize(loss);
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(loss, train), feed(x, labels));
  const tensor<float, dims<dyn<"batch">, 3>> rows(shape(2, 3), {1, 0, 0, 0, 1, 0});
  for (const std::int32_t bad : {3, -1, 1000000}) {
    const auto text =
        failure(error_code::out_of_range, [&] { step(rows, tensor<std::int32_t, classes>(shape(2), {0, bad})); });
    CHECK_SAYS(text, "label " + std::to_string(bad));
    CHECK_SAYS(text, "row 1");
    CHECK_SAYS(text, "3 classes");
  }
  for (const float x_of_w : s.eval(w)) BOOST_CHECK_EQUAL(x_of_w, 1);  // the failed steps updated nothing
  const auto [cost, none] = step(rows, tensor<std::int32_t, classes>(shape(2), {0, 2}));
  BOOST_CHECK_CLOSE(cost, std::log(3.0f), 1e-4);

  using no_classes = dims<dyn<"batch">, 0>;
  const auto nothing = placeholder<float, no_classes>(g);
  CHECK_SAYS(failure(error_code::out_of_range,
                     [&] {
                       s.eval(softmax_cross_entropy(nothing, labels),
                              with(nothing, tensor<float, no_classes>(shape(2, 0))),
                              with(labels, tensor<std::int32_t, classes>(shape(2), {0, 0})));
                     }),
             "0 classes");
}

BOOST_AUTO_TEST_CASE(rows_of_no_classes_have_losses) {
  graph g;
  const auto x = placeholder<double, dims<40, 0>>(g), labels = placeholder<double, dims<40, 0>>(g);
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(softmax_cross_entropy(x, labels)), feed(x, labels));
  const tensor<double, dims<40, 0>> none;
  for (int i = 0; i < 2; ++i)
    for (const double loss : step(none, none)) BOOST_CHECK_EQUAL(loss, 0);
}

BOOST_AUTO_TEST_CASE(impossible_placements) {
  graph g;
  const auto x = placeholder<float, dims<3>>(g, "x");
  const device_scope there(g, cpu{2});
  const auto y = let(x * 2.0f);
  session s{g, {.threads = 1, .devices = 2}};
  const auto text = failure(error_code::invalid_argument, [&] { static_cast<void>(s.eval(y, with(x, vec{1, 2, 3}))); });
  CHECK_SAYS(text, "/device:CPU:2");
  CHECK_SAYS(text, "2 CPU device");
  failure(error_code::invalid_argument, [&] { session none{g, {.devices = 0}}; });
}

// ---- plans ----

BOOST_AUTO_TEST_CASE(where_a_node_runs_and_why) {
  graph g;
  auto there = with_device(g, cpu{5});
  const auto v = variable<float>(g, "v", init::constant{1});
  const auto moved = let(exp(v + 1.0f), "moved");
  session s{g, {.threads = 1, .allow_soft_placement = true}};
  auto step = s.prepare(fetch(moved));
  step();
  const std::string why = "moved on /device:CPU:0: the CPU device that the node names does not exist";
  CHECK_SAYS(explain(step), why);
  BOOST_TEST(s.explain(moved) == why);
  session wide{g, {.threads = 1, .devices = 6}};
  BOOST_TEST(wide.explain(moved) == "moved on /device:CPU:5: the node names it");
}

namespace {

// An operation whose kernels are counted, and say that they hold so much memory. It doubles what it is given.
std::size_t kernels_made = 0, kernels_alive = 0, kernel_bytes = 0;
struct doubling_kernel final : kernel {
  std::uint32_t in, out;
  std::size_t elements;
  explicit doubling_kernel(const prepare_context& p)
      : in(p.input_slots[0]), out(p.output_slots[0]), elements(p.inputs[0].extents.elements()) {
    ++kernels_made, ++kernels_alive;
  }
  ~doubling_kernel() override { --kernels_alive; }
  void run(const kernel_context& f) override {
    for (std::size_t i = 0; i < elements; ++i)
      reinterpret_cast<float*>(f.buffers[out])[i] = 2 * reinterpret_cast<const float*>(f.buffers[in])[i];
  }
  std::size_t memory_bytes() const override { return kernel_bytes; }
  std::string describe() const override { return "doubling"; }
};
constexpr operation doubling = {
    .name = "doubling", .prepare_cpu = [](const prepare_context& p) -> kernel* { return new doubling_kernel(p); }};

template <class N>
N doubled(const N& x) {
  node_def c;
  c.op = &doubling;
  c.inputs = {x.id()};
  c.outputs = {x.erased().info()};
  return N(x.erased().builder()->record(c));
}

using row = dims<dyn<"n">>;
tensor<float, row> counted_up(int n) {
  tensor<float, row> t{shape(n)};
  for (int i = 0; i < n; ++i) t(i) = static_cast<float>(i);
  return t;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_node_that_names_another_task_is_refused) {
  graph g;
  const auto at = [&](const device_spec& where, const char* name) {
    const device_scope on(g, where);
    return let(variable<float>(g, name, 1.0f) + 1.0f);
  };
  const auto other = at("/job:worker/task:1/device:CPU:0"_device, "other");
  session s(g);
  for (const auto call : {+[](session& in, const node<float>& n) { in.eval(n); },
                          +[](session& in, const node<float>& n) { static_cast<void>(in.explain(n)); }})
    CHECK_SAYS(
        test::failure(error_code::invalid_argument, [&] { call(s, other); }),
        "is placed on /job:worker/task:1/device:CPU:0, but a graph runs in one task; this is a session without a "
        "cluster, which has 1 CPU device(s) and 0 GPU(s)");
  BOOST_TEST(s.eval(at("/job:localhost/replica:0/task:0/device:CPU:0"_device, "own")) == 2.0f);
  session soft(g, {.allow_soft_placement = true});
  BOOST_TEST(soft.eval(other) == 2.0f);
  CHECK_SAYS(soft.explain(other), "on /device:CPU:0: the session's own choice, since the node names another task");
  session worker(g, {.task = "/job:worker/task:1"_device});
  BOOST_TEST(worker.eval(other) == 2.0f);
  CHECK_SAYS(worker.explain(other), "the node names it");
}

BOOST_AUTO_TEST_CASE(more_extents_in_rotation_than_are_kept) {
  constexpr int most = 1024, sizes = 1300;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{100} << 20}) {
    kernel_bytes = bytes;
    {
      graph g;
      const auto x = placeholder<float, row>(g, "x");
      session s{g, {.threads = 1}};
      auto step = s.prepare(fetch(doubled(x), sum(x * 3.0f)), feed(x));
      const auto round = [&] {
        kernels_made = 0;
        for (int n = 1; n <= sizes; ++n) {
          const auto [twice, total] = step(counted_up(n));
          BOOST_REQUIRE_EQUAL(twice.extent(0), n);
          BOOST_REQUIRE_EQUAL(twice(n - 1), 2.0f * static_cast<float>(n - 1));
          BOOST_REQUIRE_EQUAL(total, 3.0f * static_cast<float>(n * (n - 1) / 2));
        }
        return kernels_made;
      };
      BOOST_TEST(round() == sizes);
      // The plan gives back what it drops; where kernels hold much memory, all but sixteen are dropped.
      const std::size_t kept = bytes == 0 ? most : 16;
      BOOST_TEST(step.prepared().plan().bindings() == kept);
      BOOST_TEST(kernels_alive == kept);
      // Dropping the one that was used first would make each of them anew.
      const std::size_t made = round();
      if (bytes == 0) BOOST_TEST(made < sizes * 3 / 4);
      BOOST_TEST(kernels_alive == kept);
      BOOST_TEST(step.prepared().plan().bindings() == kept);
    }
    BOOST_TEST(kernels_alive == 0u);
  }
  kernel_bytes = 0;
}

BOOST_AUTO_TEST_CASE(kernels_whose_extents_stay_are_kept) {
  graph g;
  const auto x = placeholder<float, row>(g, "x");
  const auto y = placeholder<float, dims<dyn<"m">>>(g, "y");
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(sum(doubled(x)) + sum(y)), feed(x, y));
  kernels_made = 0;
  const auto run = [&](int n, int m) {
    const tensor<float, dims<dyn<"m">>> ones{shape(m)};
    BOOST_REQUIRE_EQUAL(step(counted_up(n), ones), static_cast<float>(n * (n - 1)));
  };
  for (int m = 1; m <= 50; ++m) run(3, m);
  BOOST_TEST(kernels_made == 1u);
  for (int m = 51; m <= 60; ++m) run(4, m);
  BOOST_TEST(kernels_made == 2u);
  run(4, 1);  // back to what was met first, then on from there
  run(3, 1);
  run(3, 61);
  BOOST_TEST(kernels_made == 2u);
  BOOST_TEST(step.prepared().plan().bindings() == 62u);
}

// With two lanes: bits of training, and that an instruction waits for no more than the last one it must follow.
BOOST_AUTO_TEST_CASE(lanes_train_what_one_lane_trains) {
  const auto train = [](int lanes, bool look) {
    graph g(1);
    using wide = dims<dyn<"batch">, 48>;
    const auto x = placeholder<float, wide>(g, "x");
    std::vector<node<float, wide>> layers{x, let(tanh(x))};
    for (int i = 0; i < 20; ++i) {
      const name_scope within(g, "layer");
      const auto w = variable<float, dims<48, 48>>(g, "weights", init::uniform{-0.2, 0.2});
      const auto b = variable<float, dims<48>>(g, "bias", init::zeros{});
      layers.push_back(let(tanh(matmul(layers.back(), w) + b) + layers[layers.size() - 2]));
    }
    const auto loss = mean(square(layers.back()));
    const auto update = gradient_descent{.learning_rate = 0.01}.minimize(loss);
    session s{g, {.threads = 1, .inter_op_threads = lanes}};
    auto step = s.prepare(fetch(loss, update), feed(x));
    std::vector<float> losses;
    for (int i = 0; i < 28; ++i) {
      tensor<float, wide> in(shape(30 + i % 7, 48));
      for (std::size_t k = 0; k < in.elements(); ++k) in.data()[k] = static_cast<float>(k % 5) - 1.5f;
      losses.push_back(std::get<0>(step(in)));
    }
    std::size_t waits = 0;
    std::istringstream lines(look ? step.explain() : std::string());
    for (std::string line; std::getline(lines, line);) {
      const std::size_t at = line.find("  waits for ");
      if (at == std::string::npos) continue;
      ++waits;
      BOOST_CHECK_MESSAGE(line.find(' ', at + 12) == std::string::npos, line);
    }
    if (look) BOOST_TEST(waits > 10u);
    return losses;
  };
  const std::vector<float> alone = train(1, false);
  BOOST_TEST(alone[27] < alone[6]);
  BOOST_CHECK(train(2, true) == alone);
}

BOOST_AUTO_TEST_CASE(a_ragged_last_batch) {
  graph g;
  const auto x = placeholder<float, batch>(g, "x");
  const auto y = mean<0>(x) + sum(x) * 0.0f;
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(y), feed(x));
  const auto ones = [](int n) {
    tensor<float, batch> t(shape(n, 2));
    for (int i = 0; i < 2 * n; ++i) t.data()[i] = static_cast<float>(n);
    return t;
  };
  step(ones(5));
  const plan::binding* full = step.prepared().plan().current();
  step(ones(3));
  const plan::binding* ragged = step.prepared().plan().current();
  BOOST_CHECK_NE(full, ragged);
  BOOST_CHECK_EQUAL(step(ones(5))(0), 5);
  BOOST_CHECK_EQUAL(step.prepared().plan().current(), full);  // the old plan, not a new one
  BOOST_CHECK_EQUAL(step(ones(3))(1), 3);
  BOOST_CHECK_EQUAL(step.prepared().plan().current(), ragged);
  BOOST_CHECK_EQUAL(step(ones(1))(1), 1);
}

BOOST_AUTO_TEST_CASE(explain_lists_kernels_memory_and_placement) {
  graph g;
  const auto x = placeholder<float, dims<dyn<"batch">, 4>>(g, "x");
  const auto w = variable<float, dims<4, 3>>(g, "w");
  const auto b = variable<float, dims<3>>(g, "b");
  const auto y = sigmoid(matmul(x, w) + b);
  session s{g, {.threads = 1, .devices = 2}};
  const device_scope second(g, cpu{1});
  auto step = s.prepare(fetch(sum(square(y))), feed(x));
  CHECK_SAYS(explain(step), "not planned yet");
  step(tensor<float, dims<dyn<"batch">, 4>>(shape(2, 4)));
  const std::string text = explain(step);
  for (const char* part : {"matmul", "sigmoid(add(a0, a1))", "square", "cpu:0", "cpu:1", "kernels", "bytes", "float"})
    CHECK_SAYS(text, part);
}

// The gradient of an activation runs with the product that brings its upstream; of a large one a panel of rows at a
// time. A product that is fetched runs by itself: that says what is right.
BOOST_AUTO_TEST_CASE(the_gradient_of_an_activation_runs_with_the_product_before_it) {
  graph g(3);
  auto x = placeholder<float, dims<dyn<"batch">, 20>>(g, "x");
  auto w1 = variable<float, dims<20, 300>>(g, "w1", init::normal{.stddev = 0.3});
  auto b1 = variable<float, dims<300>>(g, "b1", init::normal{.stddev = 0.3});
  auto w2 = variable<float, dims<300, 40>>(g, "w2", init::normal{.stddev = 0.3});
  auto hidden = let(sigmoid(matmul(x, w1) + b1));
  auto [up, dw, db] = gradients(mean(square(matmul(hidden, w2))), hidden, w1, b1);
  const std::string together_says = "b', then gradient of sigmoid(add(a0, a1)) float";
  for (const int rows : {1, 30, 1500}) {
    tensor<float, dims<dyn<"batch">, 20>> data(shape(rows, 20));
    for (int i = 0; i < rows * 20; ++i) data.data()[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
    std::vector<float> first;
    for (const int threads : {1, 2, 3}) {
      session s{g, {.threads = threads}};
      auto together = s.prepare(fetch(dw, db), feed(x));
      auto apart = s.prepare(fetch(dw, db, up), feed(x));
      const auto [weights, bias] = together(data);
      const auto [right_weights, right_bias, upstream] = apart(data);
      CHECK_SAYS(together.explain(), together_says);
      BOOST_CHECK(!test::contains(apart.explain(), together_says));
      // A library's bits may change with the panel.
      for (std::size_t i = 0; i < 6000; ++i) BOOST_CHECK_SMALL(weights.data()[i] - right_weights.data()[i], 1e-6f);
      for (std::size_t i = 0; i < 300; ++i) BOOST_CHECK_SMALL(bias.data()[i] - right_bias.data()[i], 1e-6f);
      std::vector<float> found(weights.data(), weights.data() + 6000);
      found.insert(found.end(), bias.data(), bias.data() + 300);
      if (first.empty()) first = found;
      BOOST_CHECK(found == first);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_reads_the_result_of_a_write_runs_before_the_next_write) {
  graph g;
  auto v = variable<float, dims<3>>(g, "v", init::constant{1});
  auto first = assign(v, v + 1.0f);
  auto second = assign(v, v * 10.0f);
  auto between = let(first * 2.0f);
  session s{g, {.threads = 1}};
  const auto [b, last] = s.run(fetch(between, second));
  BOOST_TEST(list(b) == floats(3, 4.0f));
  BOOST_TEST(list(last) == floats(3, 10.0f));
}

// Also where a library applies bias and ReLU.
BOOST_AUTO_TEST_CASE(what_is_no_number_shows) {
  graph g;
  const auto x = placeholder<float, dims<2, 2>>(g, "x");
  const auto w = constant(g, tensor<float, dims<2, 2>>{1, 2, 3, 4});
  const auto b = constant(g, tensor<float, dims<2>>{5, -40});
  session s{g, {.threads = 1}};
  const tensor<float, dims<2, 2>> y = s.eval(relu(matmul(x, w) + b), with(x, tensor<float, dims<2, 2>>{1, 2, NAN, 1}));
  BOOST_CHECK(y(0, 0) == 12 && y(0, 1) == 0);
  BOOST_CHECK(std::isnan(y(1, 0)) && std::isnan(y(1, 1)));
}

BOOST_AUTO_TEST_CASE(minimize_trains_the_variables_that_are_named) {
  graph g;
  auto a = variable<float, dims<3>>(g, "a", init::constant{1});
  auto b = variable<float, dims<>>(g, "b", init::constant{2});
  auto other = variable<float, dims<>>(g, "other", init::constant{2});
  auto loss = sum(square(a * b));
  auto only_a = gradient_descent{.learning_rate = 0.1}.minimize(loss, a);
  auto all = momentum{.learning_rate = 0.1}.minimize(loss);
  session s{g, {.threads = 1}};
  s.run(fetch(only_a));
  BOOST_CHECK_CLOSE(s.eval(a).data()[0], 0.2f, 1e-3);
  BOOST_TEST(s.eval(b) == 2.0f);
  s.run(fetch(all));
  BOOST_CHECK_CLOSE(s.eval(b), 1.952f, 1e-3);
  CHECK_SAYS(failure(error_code::invalid_argument, [&] { (void)gradient_descent{}.minimize(loss, other); }), "other");
  const auto w = variable<float>(g, "twice", init::ones{});
  CHECK_SAYS(
      failure(error_code::invalid_argument, [&] { static_cast<void>(gradient_descent{}.minimize(w * w, w, w)); }),
      "the variable twice is listed twice");
}

BOOST_AUTO_TEST_CASE(a_node_can_have_a_name) {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  auto y = let(exp(x), "growth");
  auto z = let(exp(x) + 1.0f, "growth");
  BOOST_TEST(g[y.id().node].name == "growth");
  BOOST_TEST(g[z.id().node].name == "growth_1");
}

BOOST_AUTO_TEST_CASE(variables_are_set_and_got_without_a_step) {
  graph g;
  g.set(dyn<"n">, 2);
  const auto v = variable<float, dims<3>>(g, "v"), w = variable<float, dims<3>>(g, "w", init::none{});
  const auto count = variable<std::int64_t>(g, "count", init::constant{7});
  const auto narrow = variable<weft::half, dims<2>>(g, "narrow");
  const auto open = variable<float, dims<dyn<"n">>>(g, "open");
  session s{g, {.threads = 1, .devices = 2}};
  auto step = s.prepare(fetch(assign_add(v, v)));
  const std::size_t size = g.size();
  const tensor<float, dims<3>> numbers{1, 2, 3};
  s.set(v, numbers);
  BOOST_TEST(list(step()) == (floats{2, 4, 6}));
  BOOST_TEST(list(s.get(v)) == (floats{2, 4, 6}));
  s.set(v, numbers * 3.0f);
  BOOST_TEST(list(s.get(v)) == (floats{3, 6, 9}));
  s.set(v, tensor_view<const float, dims<3>>(numbers));
  const tensor<float, dims<3>> kept = s.get(v);
  step();
  BOOST_TEST(list(kept) == (floats{1, 2, 3}));
  BOOST_TEST(list(numbers) == (floats{1, 2, 3}));
  BOOST_TEST(s.get(count) == 7);
  s.set(count, std::int64_t{1} << 40);
  BOOST_TEST(s.get(count) == std::int64_t{1} << 40);
  s.set(narrow, tensor<weft::half, dims<2>>{1, 2});
  BOOST_TEST(static_cast<float>(s.get(narrow)(1)) == 2);
  CHECK_SAYS(failure(error_code::failed_precondition, [&] { s.get(w); }), "w: the variable has no value yet");
  s.set(w, numbers);
  BOOST_TEST(s.eval(sum(w)) == 6);
  s.set(w, {4, 5, 6});
  BOOST_TEST(list(s.get(w)) == (floats{4, 5, 6}));
  using vector = tensor<float, dims<dyn<"n">>>;
  s.set(open, vector(shape(2), {4, 5}));
  BOOST_TEST(s.get(open)(1) == 5);
  CHECK_SAYS(failure(error_code::invalid_argument, [&] { s.set(open, vector(shape(3))); }),
             "open: the variable has extents [2], but the value to set has [3]");
  graph h;
  const auto other = variable<float, dims<3>>(h, "v");
  CHECK_SAYS(failure(error_code::invalid_argument, [&] { s.set(other, numbers); }), "another graph");
  CHECK_SAYS(failure(error_code::invalid_argument, [&] { s.get(other); }), "another graph");
  BOOST_TEST(g.size() == size + 1);  // the sum
}

BOOST_AUTO_TEST_CASE(a_program_that_records_for_each_run_is_told) {
  graph g;
  const auto v = variable<float>(g, "v");
  session s{g, {.threads = 1}};
  int runs = 0;
  const auto assigned = [&] { s.run(fetch(assign(v, tensor<float>(static_cast<float>(++runs))))); };
  const std::string text = failure(error_code::resource_exhausted, [&] {
    while (runs < 10'000) assigned();
  });
  CHECK_SAYS(text, "s.set(v, value)");
  CHECK_SAYS(text, "placeholder");
  BOOST_TEST(runs < 3000);
  const std::size_t size = g.size();
  for (int i = 0; i < 1000; ++i) CHECK_SAYS(failure(error_code::resource_exhausted, assigned), "placeholder");
  BOOST_TEST(g.size() == size);
  for (int i = 0; i < 10'000; ++i) s.set(v, static_cast<float>(i));
  BOOST_TEST(s.eval(v) == 9999);  // the recorded graph can be run
}

BOOST_AUTO_TEST_CASE(numbers_are_first_values_and_are_assigned) {
  graph g;
  const auto v = variable(g, "v", 0.5f);
  static_assert(std::is_same_v<decltype(v), const variable_node<float>>);
  const auto w = variable<float, dims<3>>(g, "w", 2);
  const auto n = variable<std::int64_t>(g, "n", 7);
  const auto written = assign(v, 3);
  const auto added = assign_add(n, 2);
  CHECK_SAYS(failure(error::invalid_argument, [&] { (void)variable<std::int8_t>(g, "small", 300); }),
             "300 cannot be represented as int8");
  session s{g, {.threads = 1}};
  BOOST_TEST(s.eval(v) == 0.5f);
  BOOST_TEST(list(s.eval(w)) == floats({2, 2, 2}));
  BOOST_TEST(s.eval(written) == 3.0f);
  BOOST_TEST(s.eval(added) == 9);
}

BOOST_AUTO_TEST_CASE(of_two_values_max_is_the_larger) {
  const vec a{1, 5, 3}, b{4, 2, 3};
  BOOST_TEST(list(eval(max(a, b))) == floats({4, 5, 3}));
  BOOST_TEST(list(eval(min(a, b * 2.0f))) == floats({1, 4, 3}));
  BOOST_TEST(list(stop_gradient(a + b)) == floats({5, 7, 6}));
  graph g;
  const auto x = constant(g, a + b);
  session s{g, {.threads = 1}};
  BOOST_TEST(list(s.eval(max(x, x * 2.0f))) == floats({10, 14, 12}));
}

namespace {

/// Overwrites what a step has fetched as soon as it may, and notes what the last of all held then.
struct overwriting final : detail::fetch_watcher {
  std::vector<tensor<float, dims<2, 2>>>& fetched;
  std::vector<std::size_t> order{};
  std::vector<float> seen{}, last{};

  explicit overwriting(std::vector<tensor<float, dims<2, 2>>>& all) : fetched(all) {}
  void ready(std::size_t f) override {
    order.push_back(f);
    seen.push_back(fetched[f](0, 0));
    last.push_back(fetched.back()(0, 0));
    std::fill_n(fetched[f].data(), 4, std::nanf(""));
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_watcher_may_overwrite_what_has_come) {
  graph g;
  const auto x = placeholder<float, dims<2, 2>>(g, "x");
  const auto a = let(matmul(x, x));
  const auto b = let(matmul(a, x));
  const auto d = let(matmul(matmul(b, x), a));  // a is read until here
  const auto c = let(matmul(d, x));
  session s{g, {.threads = 1}};
  plan::step_request request;
  for (const value v : {a.id(), b.id(), c.id()}) request.fetches.push_back(v);
  request.feeds.push_back(x.id());
  prepared_step step(s, std::move(request));
  const tensor<float, dims<2, 2>> in{2, 0, 0, 2};
  const plan::fed_value fed[] = {detail::as_fed(in)};
  for (int round = 0; round < 2; ++round) {
    std::vector<tensor<float, dims<2, 2>>> fetched(3);
    for (auto& each : fetched) std::fill_n(each.data(), 4, -1.0f);
    overwriting watcher(fetched);
    step.run(fed, [&](std::size_t f, const shape&) -> void* { return fetched[f].data(); }, &watcher);
    BOOST_TEST((watcher.order == std::vector<std::size_t>{1, 0, 2}));
    BOOST_TEST((watcher.seen == floats({8, 4, 128})));
    BOOST_TEST((watcher.last == floats({-1, -1, 128})));
  }
}
