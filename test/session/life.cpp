// SPDX-License-Identifier: BSL-1.0
// Graphs that grow, extents that change and values that end while a session and its steps live on.
#include <boost/test/unit_test.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"

using namespace weft;
using test::failure;
using test::says;

BOOST_AUTO_TEST_CASE(a_step_is_planned_after_the_graph_has_grown) {
  graph g;
  const auto x = placeholder<float, dims<dyn<"n">>>(g, "x");
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(sum(x * 2.0f)), feed(x));
  for (int i = 0; i < 100; ++i) let(exp(sum(x)) + x * sum(exp(x + tensor<float, dims<>>(static_cast<float>(i)))));
  auto late = variable<float, dims<3>>(g, "late", init::ones{});
  BOOST_TEST(step(tensor<float, dims<dyn<"n">>>(shape(2), {1, 2})) == 6);
  BOOST_TEST(s.eval(sum(late)) == 3);
  BOOST_TEST(step(tensor<float, dims<dyn<"n">>>(shape(3), {1, 2, 3})) == 12);
}

BOOST_AUTO_TEST_CASE(a_step_that_was_moved_says_so) {
  graph g;
  const auto x = placeholder<float, dims<2>>(g, "x");
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(x * 2.0f), feed(x));
  auto other = std::move(step);
  BOOST_CHECK_EQUAL(other(tensor<float, dims<2>>{1, 2})(1), 4);
  CHECK_SAYS(failure(error_code::failed_precondition, [&] { step(tensor<float, dims<2>>{1, 2}); }), "moved");
}

BOOST_AUTO_TEST_CASE(a_session_keeps_the_extents_it_was_made_with) {
  graph g;
  g.set(dyn<"h">, 2);
  const auto v = variable<float, dims<dyn<"h">>>(g, "v", init::ones{});
  session s{g, {.threads = 1}};
  g.set(dyn<"h">, 4000);
  BOOST_TEST(s.eval(sum(v)) == 2);
  session wide{g, {.threads = 1}};
  BOOST_TEST(wide.eval(sum(v)) == 4000);
}

BOOST_AUTO_TEST_CASE(a_fed_value_may_be_a_temporary) {
  graph g;
  const auto x = placeholder<float, dims<2>>(g, "x");
  session s{g, {.threads = 1}};
  const auto given = with(x, tensor<float, dims<2>>{3, 4});
  BOOST_TEST(s.eval(sum(x), given) == 7);
}

BOOST_AUTO_TEST_CASE(a_gradient_with_respect_to_what_came_later_is_refused) {
  graph g;
  const auto x = placeholder<float, dims<2>>(g, "x");
  auto h = exp(x);
  auto y = let(sum(h * h));
  auto late = let(h);
  BOOST_CHECK_EXCEPTION(static_cast<void>(gradients(y, late)), error, says(error_code::invalid_argument, "let()"));
}

BOOST_AUTO_TEST_CASE(a_device_of_another_kind_is_refused_by_name) {
  graph g;
  const auto x = placeholder<float, dims<2>>(g, "x");
  const device_scope on(g, "/device:GPU:0"_device);
  const auto y = let(exp(x));
  session s{g, {.threads = 1}};
  BOOST_CHECK_EXCEPTION(s.eval(y, with(x, tensor<float, dims<2>>{1, 2})), error,
                        says(error_code::invalid_argument, "GPU:0"));
}

BOOST_AUTO_TEST_CASE(a_variable_without_its_extent_leaves_nothing_behind) {
  graph g;
  BOOST_CHECK_EXCEPTION((variable<float, dims<dyn<"h">>>(g, "v")), error,
                        says(error_code::failed_precondition, "dyn<\"h\">"));
  BOOST_TEST(g.size() == 0u);
  session s{g};
}

BOOST_AUTO_TEST_CASE(a_step_inside_a_threads_share_of_work_runs_on_that_thread) {
  graph g;
  const auto x = placeholder<float, dims<64>>(g, "x");
  const auto a = let(exp(x)), b = let(tanh(x));
  session s{g, {.threads = 1, .inter_op_threads = 2}};
  auto step = s.prepare(fetch(sum(a + b)), feed(x));
  const float expected = step(tensor<float, dims<64>>());
  thread_pool pool(2);
  float got[1] = {};
  pool.parallel_for(2, [&](std::size_t chunk) {
    if (chunk == 0) got[0] = step(tensor<float, dims<64>>());
  });
  BOOST_TEST(got[0] == expected);
}
