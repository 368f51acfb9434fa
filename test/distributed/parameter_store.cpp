// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <vector>
#include <weft/distributed/parameter/enroll_message.hpp>
#include <weft/distributed/parameter/parameter_store.hpp>
#include <weft/distributed/parameter/replay_window.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"

using namespace weft;

namespace {

std::vector<std::byte> bytes_of(const std::vector<double>& doubles, const std::vector<float>& floats) {
  std::vector<std::byte> bytes(8 * doubles.size() + 4 * floats.size());
  std::memcpy(bytes.data(), doubles.data(), 8 * doubles.size());
  std::memcpy(bytes.data() + 8 * doubles.size(), floats.data(), 4 * floats.size());
  return bytes;
}

struct halving {
  static constexpr const char* name = "half";
  template <class V>
  void update(V& variable, V) const {
    variable *= V(0.5);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(rules_work_on_mixed_element_types) {
  const std::vector<parameter_spec> variables{{"f", element_type::float32, 3, 0, {"momentum", {0.5, 0.9}}},
                                              {"elsewhere", element_type::float32, 5, 1, {"momentum", {0.5, 0.9}}},
                                              {"d", element_type::float64, 2, 0, {"gradient_descent", {0.1}}}};
  parameter_store store(variables, 0, 1 << 20);
  BOOST_TEST(store.bytes() == 2 * 8 + 3 * 4u);  // doubles first
  const auto start = bytes_of({1, 2}, {1, 2, 3});
  std::copy(start.begin(), start.end(), store.values().begin());
  const auto gradient = bytes_of({1, 1}, {1, 0, -1});
  store.apply(gradient);
  store.apply(gradient);
  BOOST_TEST(store.global_step() == 2);
  double d = 1;
  d -= 0.1 * 1.0;
  d -= 0.1 * 1.0;
  float w = 1, v = 0;
  for (int i = 0; i < 2; ++i) {
    v = 0.9f * v + 1.0f;
    w -= 0.5f * v;
  }
  double got_d;
  float got_f;
  std::memcpy(&got_d, store.values().data(), 8);
  std::memcpy(&got_f, store.values().data() + 16, 4);
  BOOST_TEST(got_d == d);
  BOOST_TEST(got_f == w);
}

namespace {

/// A session's updates of one variable, and a parameter server's of the same gradients.
template <class T, class Optimizer>
void compare_with_session(const Optimizer& optimizer, const std::vector<double>& parameters) {
  constexpr int n = 5000;
  using vector = tensor<T, dims<n>>;
  vector start, x;
  for (int i = 0; i < n; ++i) start(i) = static_cast<T>(i % 1013) / 512 - 1;
  graph g;
  const auto w = variable(g, "w", start);
  const auto gradient = placeholder<T, dims<n>>(g, "gradient");
  const auto train = optimizer.minimize(sum(w * gradient));
  session s(g);
  auto step = s.prepare(fetch(train), feed(gradient));
  const auto type = sizeof(T) == 4 ? element_type::float32 : element_type::float64;
  const std::vector<parameter_spec> variables{{"w", type, n, 0, {Optimizer::name, parameters}}};
  parameter_store plain(variables, 0, 1 << 20), copying(variables, 0, 1 << 20);
  std::memcpy(plain.values().data(), start.data(), n * sizeof(T));
  std::memcpy(copying.values().data(), start.data(), n * sizeof(T));
  vector copy;
  const std::size_t at = 0;
  const placed_bytes<std::byte> copies[] = {{reinterpret_cast<std::byte*>(copy.data()), {&at, 1}}};
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (int t = 0; t < 50; ++t) {
    for (int i = 0; i < n; ++i) x(i) = static_cast<T>(normal(random));
    step(x);
    const const_bytes bytes = std::as_bytes(std::span(x.data(), n));
    plain.apply(bytes);
    copying.apply(copying.packed(bytes), copies);
  }
  const vector values = s.get(w);
  BOOST_TEST_CONTEXT(Optimizer::name << " " << sizeof(T)) {
    BOOST_TEST(std::memcmp(values.data(), plain.values().data(), n * sizeof(T)) == 0);
    BOOST_TEST(std::memcmp(values.data(), copying.values().data(), n * sizeof(T)) == 0);
    BOOST_TEST(std::memcmp(values.data(), copy.data(), n * sizeof(T)) == 0);
    BOOST_TEST(std::memcmp(values.data(), start.data(), n * sizeof(T)) != 0);
  }
}

template <class T>
void compare_with_session() {
  compare_with_session<T>(gradient_descent{.learning_rate = 0.3}, {0.3});
  compare_with_session<T>(momentum{.learning_rate = 0.3, .momentum = 0.8}, {0.3, 0.8});
  compare_with_session<T>(adam{.learning_rate = 0.3}, {0.3, 0.9, 0.999, 1e-8});
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_server_makes_the_bits_of_a_session) {
  compare_with_session<float>();
  compare_with_session<double>();
}

BOOST_AUTO_TEST_CASE(the_mean_is_summed_in_the_given_order) {
  const std::size_t n = 5000;  // more than one piece
  const std::vector<parameter_spec> variables{{"w", element_type::float32, n, 0, {"gradient_descent", {0.3}}}};
  parameter_store store(variables, 0, 1 << 20);
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> w(n), g[3];
  for (float& x : w) x = normal(random);
  std::memcpy(store.values().data(), w.data(), 4 * n);
  std::vector<const_bytes> gradients;
  for (auto& each : g) {
    each.resize(n);
    for (float& x : each) x = normal(random);
    gradients.push_back(std::as_bytes(std::span(each)));
  }
  store.apply_mean(gradients);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    volatile float sum = g[0][i] + g[1][i];
    sum = sum + g[2][i];
    volatile float mean = sum / 3.0f;
    volatile float step = 0.3f * mean;
    float got;
    std::memcpy(&got, store.values().data() + 4 * i, 4);
    wrong += got != w[i] - step;
  }
  BOOST_TEST(wrong == 0u);
}

BOOST_AUTO_TEST_CASE(rules_are_looked_up_by_name) {
  BOOST_CHECK_THROW(update_rules::find({"adamantium", {}}), error);
  BOOST_CHECK_THROW(update_rules::find({"momentum", {0.1}}), error);
  update_rules::add<halving>();
  BOOST_CHECK_EXCEPTION(update_rules::add<halving>(), error, test::says(error_code::already_exists, "half"));
  const std::vector<parameter_spec> variables{{"w", element_type::float32, 1, 0, {"half", {}}}};
  parameter_store store(variables, 0, 100);
  const float eight = 8, zero = 0;
  std::memcpy(store.values().data(), &eight, 4);
  store.apply(std::as_bytes(std::span(&zero, 1)));
  float got;
  std::memcpy(&got, store.values().data(), 4);
  BOOST_TEST(got == 4.0f);
}

namespace {

struct of_unit_length {
  static constexpr const char* name = "of_unit_length";
  template <class V>
  auto norms(V, V gradient) const {
    return norm_list{gradient};
  }
  template <class V>
  void update(V& variable, V gradient, V norm) const {
    variable -= gradient / norm;
  }
};

struct switched {
  bool on = false;
  int times = 1;
  static constexpr const char* name = "switched";
  template <class V>
  void update(V& variable, V gradient) const {
    if (on) variable -= V(times) * gradient;
  }
#include <weft/train/members.inc>
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_server_takes_plain_members_and_refuses_norms) {
  update_rules::add<switched>();
  compare_with_session<float>(switched{.on = true, .times = 3}, {1, 3});
  update_rules::add<of_unit_length>();
  BOOST_CHECK_EXCEPTION(update_rules::find({"of_unit_length", {}}), error,
                        test::says(error_code::unimplemented, "norms"));
}

// The mean counts, not the gradients: large ones are applied where it is finite.
BOOST_AUTO_TEST_CASE(a_mean_that_is_not_finite_changes_nothing) {
  std::size_t n = 5000;  // more than one piece
  const auto applied = [&](auto element, std::vector<double> last_of_each) {
    using T = decltype(element);
    const element_type type = sizeof(T) == 8 ? element_type::float64 : element_type::float32;
    const std::vector<parameter_spec> variables{{"w", type, n, 0, {"gradient_descent", {1.0}}}};
    parameter_store store(variables, 0, 1 << 26);
    std::vector<T> w(n, T(2));
    std::memcpy(store.values().data(), w.data(), sizeof(T) * n);
    std::vector<std::vector<T>> g;
    std::vector<parameter_store::contribution> all;
    g.reserve(last_of_each.size());
    for (const double last : last_of_each) {
      g.emplace_back(n, T(1)).back() = static_cast<T>(last);
      all.push_back({store.packed(std::as_bytes(std::span(g.back()))), 1});
    }
    const bool was = store.apply_mean(all, {}, nullptr, true);
    std::memcpy(w.data(), store.values().data(), sizeof(T) * n);
    BOOST_TEST(std::count(w.begin(), w.end() - 1, was ? T(1) : T(2)) == static_cast<std::ptrdiff_t>(n - 1));
    BOOST_TEST(std::isfinite(w.back()));
    BOOST_TEST(store.global_step() == (was ? 1 : 0));
    return was;
  };
  constexpr double infinite = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (n = 5000; n < 1'000'000;
       n *= 150) {  // one mean that is kept until it is known to be finite, and one that is not
    for (const double bad : {infinite, -infinite, nan}) {
      BOOST_TEST(!applied(float{}, {bad}));
      BOOST_TEST(!applied(double{}, {1, bad}));
      BOOST_TEST(!applied(float{}, {bad, 1, 1}));
    }
    BOOST_TEST(!applied(float{}, {infinite, -infinite}));
    BOOST_TEST(!applied(float{}, {3e38, 3e38}));  // their sum is infinite
    BOOST_TEST(!applied(double{}, {1.7e308, 1, 1.7e308}));
    for (const double large : {0x1p63, 0x1p64, 1e38}) {
      BOOST_TEST(applied(float{}, {large}));
      BOOST_TEST(applied(float{}, {large, -large}));
      BOOST_TEST(applied(float{}, {-large, large, large}));
    }
    BOOST_TEST(applied(float{}, {3e38, -3e38, 1}));
    BOOST_TEST(applied(double{}, {0x1p512, 1e308, 1}));
  }
}

BOOST_AUTO_TEST_CASE(memory_is_bounded) {
  const std::vector<parameter_spec> variables{
      {"w", element_type::float32, std::size_t{1} << 47, 0, {"momentum", {0.1, 0.9}}}};
  BOOST_CHECK_EXCEPTION(parameter_store(variables, 0, 1 << 30), error, test::says(error_code::resource_exhausted));
  // The slots of all variables count: two of 400 bytes with as much again for each one's momentum.
  const std::vector<parameter_spec> two{{"v", element_type::float32, 100, 0, {"momentum", {0.1, 0.9}}},
                                        {"w", element_type::float32, 100, 0, {"momentum", {0.1, 0.9}}}};
  BOOST_CHECK_EXCEPTION(parameter_store(two, 0, 1599), error, test::says(error_code::resource_exhausted));
  BOOST_CHECK_NO_THROW(parameter_store(two, 0, 1600));
  // The store remembers which rows have changed: as much again, at most.
  const std::vector<parameter_spec> rows{{"w", element_type::float32, 100, 0, {"gradient_descent", {0.1}}, 10}};
  BOOST_CHECK_EXCEPTION(parameter_store(rows, 0, 799), error, test::says(error_code::resource_exhausted));
  BOOST_CHECK_NO_THROW(parameter_store(rows, 0, 800));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which end the program
  // More than there are addresses.
  BOOST_CHECK_EXCEPTION(parameter_store(variables, 0, std::uint64_t{1} << 60), error,
                        test::says(error_code::resource_exhausted, "1125899906842624 bytes"));
#endif
}

BOOST_AUTO_TEST_CASE(an_update_counts_once) {
  replay_window window;
  BOOST_TEST(!window.contains(0));
  window.insert(0);
  BOOST_TEST(window.contains(0));
  std::set<std::int64_t> model{0};
  std::mt19937 random(5);
  std::int64_t newest = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::int64_t step = newest - 40 + static_cast<std::int64_t>(random() % 50);
    if (step < 0) continue;
    const bool known = model.contains(step) || step <= newest - replay_window::width;
    BOOST_REQUIRE_EQUAL(window.contains(step), known);
    if (known) continue;
    window.insert(step);
    model.insert(step);
    newest = std::max(newest, step);
  }
  window.insert(newest + 1000);
  BOOST_TEST(window.contains(newest));  // older than the window
  BOOST_TEST(!window.contains(newest + 999));
}

BOOST_AUTO_TEST_CASE(sharding_balances_bytes_and_ignores_order) {
  std::vector<parameter_spec> variables;
  for (int i = 0; i < 20; ++i)
    variables.push_back(
        {"v" + std::to_string(i), element_type::float32, static_cast<std::size_t>(100 + 50 * (i % 7)), 0, {}});
  auto shuffled = variables;
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(2));
  shard_by_bytes(variables, 3);
  shard_by_bytes(shuffled, 3);
  std::vector<double> load(3);
  for (const auto& each : variables) {
    load[static_cast<std::size_t>(each.ps_task)] += static_cast<double>(each.bytes());
    for (const auto& same : shuffled)
      if (same.name == each.name) BOOST_TEST(same.ps_task == each.ps_task);
  }
  const double mean = (load[0] + load[1] + load[2]) / 3;
  BOOST_TEST(*std::max_element(load.begin(), load.end()) <= 1.1 * mean);
  BOOST_CHECK_THROW(shard_by_bytes(variables, 0), error);
}

namespace {

/// Rows as they travel: numbers, and floats.
struct message {
  std::vector<std::byte> bytes;
  template <typename... Numbers>
  message& numbers(Numbers... n) {
    const std::int64_t all[] = {n...};
    return put(all, sizeof all);
  }
  message& count(std::uint64_t n) { return put(&n, sizeof n); }
  message& floats(std::initializer_list<float> x) { return put(x.begin(), x.size() * sizeof(float)); }
  message& put(const void* from, std::size_t size) {
    const auto* const at = static_cast<const std::byte*>(from);
    bytes.insert(bytes.end(), at, at + size);
    return *this;
  }
};

std::vector<parameter_spec> rows_and_a_whole(const update_rule& rule) {
  return {{"table", element_type::float32, 8, 0, rule, 2}, {"b", element_type::float32, 1, 0, rule}};
}

std::vector<float> floats_of(parameter_store& store) {
  std::vector<float> all(store.bytes() / 4);
  std::memcpy(all.data(), store.values().data(), store.bytes());
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(rows_are_updated_alone) {
  parameter_store store(rows_and_a_whole({"momentum", {0.5, 0.5}}), 0, 1 << 10);
  std::memset(store.values().data(), 0, store.bytes());
  BOOST_TEST(store.gradient_bytes() == 4u);
  BOOST_TEST(store.gradient_payload(false).min == 16u);
  BOOST_TEST(store.gradient_payload(true).max == 8u + 4 * 16);
  store.apply(message().floats({1, 0}).count(2).numbers(1, 3).floats({1, 2, 3, 4}).bytes);
  BOOST_TEST((floats_of(store) == std::vector<float>{0, 0, -0.5f, -1, 0, 0, -1.5f, -2, -0.5f}));
  parameter_store::knowledge known;
  store.note(known);
  store.apply(message().floats({0, 0}).count(1).numbers(3).floats({0, 2}).bytes);  // row 1 has no gradient, and rests
  const std::vector<float> now{0, 0, -0.5f, -1, 0, 0, -2.25f, -4, -0.75f};
  BOOST_TEST((floats_of(store) == now));
  // The rows that have changed since.
  std::vector<std::byte> changed;
  BOOST_TEST(store.changed_since(known, changed));
  BOOST_TEST((changed == message().count(1).numbers(3).floats({-2.25f, -4}).bytes));
  BOOST_TEST(!store.changed_since({}, changed));
  // The mean of two workers with different rows, of which the second has three times the examples.
  const std::vector<parameter_spec> variables = rows_and_a_whole({"gradient_descent", {1.0}});
  parameter_store mean(variables, 0, 1 << 10);
  std::memset(mean.values().data(), 0, mean.bytes());
  const auto first = message().floats({4, 0}).count(2).numbers(0, 2).floats({4, 8, 12, 16}).bytes;
  const auto second = message().floats({8, 0}).count(2).numbers(2, 3).floats({4, 8, -4, -8}).bytes;
  std::vector<detail::row_list> lists[2];
  mean.read_rows(first, false, lists[0]);
  mean.read_rows(second, false, lists[1]);
  std::vector<parameter_store::contribution> both{{mean.packed(first), 1}, {mean.packed(second), 3}};
  both[0].gradients.rows = lists[0];
  both[1].gradients.rows = lists[1];
  BOOST_TEST(mean.apply_mean(both, {}, nullptr, true));
  BOOST_TEST((floats_of(mean) == std::vector<float>{-1, -2, 0, 0, -6, -10, 3, 6, -7}));
  const auto bad = message().floats({0, 0}).count(1).numbers(2).floats({1, INFINITY}).bytes;
  mean.read_rows(bad, false, lists[1]);
  both[1] = {mean.packed(bad), 1};
  both[1].gradients.rows = lists[1];
  const auto before = floats_of(mean);
  BOOST_TEST(!mean.apply_mean(both, {}, nullptr, true));
  BOOST_TEST((floats_of(mean) == before));
  const auto found = mean.find_nonfinite(both[1].gradients);
  BOOST_REQUIRE(found.has_value());
  BOOST_TEST(found->variable == 0u);
  BOOST_TEST(found->element == 5u);
}

// The store forgets in time which rows have changed; then all values are sent.
BOOST_AUTO_TEST_CASE(changed_rows_are_those_since_an_answer) {
  const std::vector<parameter_spec> variables{{"w", element_type::float64, 300, 0, {"gradient_descent", {1.0}}, 3}};
  parameter_store store(variables, 0, 1 << 20);
  std::memset(store.values().data(), 0, store.bytes());
  std::vector<double> copy(300), values(300);
  parameter_store::knowledge known;
  std::mt19937 random(3);
  bool all = false, some = false;
  for (int round = 0; round < 200; ++round) {
    for (auto updates = random() % (round % 20 == 0 ? 200 : 4) + 1; updates-- > 0;) {
      const auto at = static_cast<std::int64_t>(random() % 99);
      const double x[] = {1, static_cast<double>(round), 2, 3, 4, 5};
      store.apply(message().count(2).numbers(at, at + 1).put(x, sizeof x).bytes);
    }
    std::vector<std::byte> message;
    std::vector<detail::row_list> lists;
    if (store.changed_since(known, message)) {
      detail::read_row_lists(message, variables, detail::wire_order(variables, 0), lists);
      for (std::size_t k = 0; k < lists[0].count; ++k)
        std::memcpy(copy.data() + 3 * lists[0].number(k), lists[0].rows + 24 * k, 24);
      some = true;
    } else {
      std::memcpy(copy.data(), store.values().data(), store.bytes());
      all = true;
    }
    store.note(known);
    std::memcpy(values.data(), store.values().data(), store.bytes());
    BOOST_REQUIRE((copy == values));
  }
  BOOST_TEST((all && some));
}

// The server updates averages and loss scales by itself: a worker that sends gradients of them is wrong, and is allowed
// no memory for them.
BOOST_AUTO_TEST_CASE(workers_send_no_gradients_of_averages_and_loss_scales) {
  std::vector<parameter_spec> variables{
      {"w", element_type::float32, 4, 0, {"gradient_descent", {1.0}}},
      {"average", element_type::float32, 4, 0, {"moving_average", {0.5}}, 4, {}, 0},
      {"scale", element_type::float32, 1, 0, {"dynamic_loss_scale", {9, 2, 0.5, 1, 9}}, 1, {}, -2}};
  parameter_store store(variables, 0, 1 << 10);
  std::memset(store.values().data(), 0, store.bytes());
  BOOST_TEST(store.gradient_payload(false).max == 4 * 4 + 8 + 8u);
  store.apply(message().floats({2, 0, 0, 0}).count(0).count(0).bytes);
  const std::vector<float> before = floats_of(store);
  const auto refused = [&](const message& all) {
    return test::failure(error_code::invalid_argument, [&] { store.apply(all.bytes); });
  };
  CHECK_SAYS(refused(message().floats({1, 1, 1, 1}).count(1).numbers(0).floats({1, 1, 1, 1}).count(0)),
             "'average' is updated by the servers and takes no gradients");
  CHECK_SAYS(refused(message().floats({1, 1, 1, 1}).count(0).count(1).numbers(0).floats({1})),
             "'scale' is updated by the servers and takes no gradients");
  BOOST_TEST((floats_of(store) == before));

  detail::enroll_message said{consistency::synchronous, 7, variables};
  BOOST_TEST((detail::enroll_message::read(said.bytes()).variables == variables));
  said.variables[1].row_elements = 0;
  BOOST_CHECK_THROW(detail::enroll_message::read(said.bytes()), error);
  said.variables.assign(max_parameters, variables[0]);
  BOOST_TEST(detail::enroll_message::read(said.bytes()).variables.size() == max_parameters);
  said.variables.push_back(variables[0]);
  BOOST_CHECK_THROW(detail::enroll_message::read(said.bytes()), error);
}

BOOST_AUTO_TEST_CASE(rows_that_are_not_what_they_should_be_are_refused_in_words) {
  parameter_store store(rows_and_a_whole({"gradient_descent", {1.0}}), 0, 1 << 10);
  std::memset(store.values().data(), 0, store.bytes());
  const auto refused = [&](const message& rest) {
    message all;
    all.floats({1, 0}).put(rest.bytes.data(), rest.bytes.size());
    return test::failure(error_code::invalid_argument, [&] { store.apply(all.bytes); });
  };
  CHECK_SAYS(refused(message()), "ends before the rows of 'table'");
  CHECK_SAYS(refused(message().floats({0})), "ends before the rows of 'table'");
  CHECK_SAYS(refused(message().count(2).numbers(0, 1).floats({1, 2})),
             "announces 2 rows of 'table', but has bytes for 1");
  CHECK_SAYS(refused(message().count(~std::uint64_t{0})), "announces 18446744073709551615 rows");
  CHECK_SAYS(refused(message().count(std::uint64_t{1} << 60)), "but has bytes for 0");  // times 16 it is 0
  CHECK_SAYS(refused(message().count(1).numbers(4).floats({1, 2})), "have the index 4, which is not in [0, 4)");
  CHECK_SAYS(refused(message().count(1).numbers(-1).floats({1, 2})), "have the index -1, which is not in [0, 4)");
  CHECK_SAYS(refused(message().count(2).numbers(2, 2).floats({1, 2, 3, 4})), "index 2 after 2; indices must ascend");
  CHECK_SAYS(refused(message().count(2).numbers(3, 1).floats({1, 2, 3, 4})), "index 1 after 3; indices must ascend");
  CHECK_SAYS(refused(message().count(5).numbers(0, 1, 2, 3, 3).floats({1, 2, 3, 4, 5, 6, 7, 8, 9, 10})),
             "are too many: 5, but the variable has 4");
  CHECK_SAYS(refused(message().count(1).numbers(1).floats({1, 2, 3})), "4 bytes follow them");
  BOOST_TEST((floats_of(store) == std::vector<float>(9)));  // nothing was applied
  // And in the list of variables.
  detail::enroll_message said{consistency::asynchronous, 7, rows_and_a_whole({"gradient_descent", {1.0}})};
  BOOST_TEST((detail::enroll_message::read(said.bytes()).variables == said.variables));
  for (const std::size_t elements : {std::size_t{3}, std::size_t{16}, ~std::size_t{0}}) {
    said.variables[0].row_elements = elements;
    BOOST_CHECK_THROW(detail::enroll_message::read(said.bytes()), error);
  }
}
