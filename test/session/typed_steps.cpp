// SPDX-License-Identifier: BSL-1.0
// step<R(A...)>: a prepared step by its results and feeds.
#include <functional>
#include <tuple>
#include <type_traits>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"

using namespace weft;
using test::failure;

namespace {

using batch = tensor<float, dims<dyn<"n">>>;

// w starts at 0, and each training step adds 1 to it.
struct counting {
  graph g;
  node<float, dims<dyn<"n">>> x = placeholder<float, dims<dyn<"n">>>(g, "x");
  variable_node<float> w = variable<float>(g, "w", init::zeros{});
  node<float> total = sum(x);
  effect train = group(assign_add(w, 1.0f));
  session s{g, {.threads = 1}};
};

struct model_owner {
  step<float(batch)> train;
  step<std::tuple<float, batch>(const batch&)> both;
};

}  // namespace

static_assert(std::is_copy_constructible_v<step<float(batch)>> && std::is_nothrow_move_constructible_v<step<float()>>);
static_assert(std::is_default_constructible_v<step<void()>>);

BOOST_AUTO_TEST_CASE(an_empty_step_says_so) {
  const step<float(batch)> none;
  BOOST_TEST(none.empty());
  BOOST_TEST(!none);
  CHECK_SAYS(failure(error_code::failed_precondition, [&] { none(batch(shape(1), {1})); }), "is empty");
  step<void()> nothing_to_feed;
  CHECK_SAYS(failure(error_code::failed_precondition, [&] { nothing_to_feed(); }), "prepare(fetch(...)");
}

BOOST_AUTO_TEST_CASE(a_class_has_steps_as_members) {
  counting c;
  model_owner m;
  m.train = c.s.prepare(fetch(c.total, c.train), feed(c.x));
  m.both = c.s.prepare(fetch(c.total, c.x * 2.0f), feed(c.x));
  BOOST_TEST(m.train(batch(shape(2), {1, 2})) == 3);
  BOOST_TEST(c.s.get(c.w) == 1);
  const auto [total, twice] = m.both(batch(shape(2), {1, 2}));
  BOOST_TEST(total == 3);
  BOOST_TEST(twice(1) == 4);
}

BOOST_AUTO_TEST_CASE(copies_share_the_prepared_step) {
  counting c;
  step<float(batch)> first = c.s.prepare(fetch(c.total, c.train), feed(c.x));
  const std::function<float(batch)> as_function = first;
  const std::vector<step<float(batch)>> several(3, first);
  first = {};
  BOOST_TEST(as_function(batch(shape(2), {1, 2})) == 3);
  BOOST_TEST(several[2](batch(shape(3), {1, 2, 3})) == 6);
  BOOST_TEST(c.s.get(c.w) == 2);
  BOOST_TEST(first.empty());
  BOOST_TEST(explain(several[0]) == several[1].explain());
}

BOOST_AUTO_TEST_CASE(results_are_named_with_effects_or_without) {
  counting c;
  const batch two(shape(2), {1, 2});
  const step<std::tuple<float, nothing>(batch)> with_effect = c.s.prepare(fetch(c.total, c.train), feed(c.x));
  BOOST_TEST(std::get<0>(with_effect(two)) == 3);
  const step<std::tuple<float, float>(batch)> pair = c.s.prepare(fetch(c.total, c.train, c.total * 2.0f), feed(c.x));
  BOOST_TEST(std::get<1>(pair(two)) == 6);
  const step<void()> effect_alone = c.s.prepare(fetch(c.train));
  effect_alone();
  const step<void(batch)> dropped = c.s.prepare(fetch(c.total, c.train), feed(c.x));
  dropped(two);
  BOOST_TEST(c.s.get(c.w) == 4);
}

BOOST_AUTO_TEST_CASE(feeds_are_views_and_numbers_too) {
  graph g;
  const auto x = placeholder<float, dims<dyn<"n">>>(g, "x");
  const auto rate = placeholder<float>(g, "rate");
  session s{g, {.threads = 1}};
  const step<float(tensor_view<const float, dims<dyn<"n">>>, float)> scaled =
      s.prepare(fetch(sum(x * rate)), feed(x, rate));
  const float values[] = {1, 2, 3};
  BOOST_TEST(scaled(tensor_view<const float, dims<dyn<"n">>>(values, shape(3)), 10.0f) == 60);
  // A tensor whose extents the compiler knows is fed to named extents.
  const step<float(tensor<float, dims<2>>, float)> two = s.prepare(fetch(sum(x * rate)), feed(x, rate));
  BOOST_TEST(two({1, 2}, 2.0f) == 6);
}

BOOST_AUTO_TEST_CASE(a_step_is_assigned_anew) {
  counting c;
  auto owned = c.s.prepare(fetch(c.total), feed(c.x));
  owned = c.s.prepare(fetch(c.total), feed(c.x));
  step<float(batch)> shared = std::move(owned);
  CHECK_SAYS(failure(error_code::failed_precondition, [&] { owned(batch(shape(1), {1})); }), "moved");
  shared = c.s.prepare(fetch(c.total * 3.0f), feed(c.x));
  BOOST_TEST(shared(batch(shape(1), {2})) == 6);
}
