// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>
#include <weft/ops/index/sort.hpp>
#include <weft/ops/random/shuffle.hpp>

#include "errors.hpp"
#include "ops/gradient_check.hpp"
#include "session_on_cpu.hpp"

using namespace weft;

namespace {

// A function, and not decltype of a member: nvcc cannot write that down where an extent has a name.
template <class T, class Dims, class E>
void check_type_of(const E&) {
  static_assert(std::is_same_v<value_t<E>, T>);
  static_assert(std::is_same_v<dims_t<E>, Dims>);
}

constexpr float no_number = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();

template <class T>
bool less(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return a < b;
  } else {
    const auto x = static_cast<double>(a), y = static_cast<double>(b);
    return std::isnan(y) ? !std::isnan(x) : x < y;
  }
}

/// Indices of a row by the standard library.
template <class T>
std::vector<std::int32_t> ordered_by_definition(const T* x, std::size_t n, std::size_t stride, direction d) {
  std::vector<std::int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  const auto at = [&](std::int32_t i) { return x[static_cast<std::size_t>(i) * stride]; };
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return d == direction::ascending ? less(at(a), at(b)) : less(at(b), at(a));
  });
  return order;
}

template <class X, class Values, class Indices>
void check_sorted(const X& x, const Values& values, const Indices& indices, std::size_t axis, direction d) {
  std::size_t inner = 1, outer = 1;
  const auto extent = static_cast<std::size_t>(x.extents()[axis]),
             first = static_cast<std::size_t>(values.extents()[axis]);
  for (std::size_t i = 0; i < x.extents().rank; ++i)
    if (i != axis) (i < axis ? outer : inner) *= static_cast<std::size_t>(x.extents()[i]);
  std::size_t wrong = 0;
  for (std::size_t o = 0; o < outer; ++o)
    for (std::size_t i = 0; i < inner; ++i) {
      const auto* const row = x.data() + o * extent * inner + i;
      const auto order = ordered_by_definition(row, extent, inner, d);
      for (std::size_t k = 0; k < first; ++k) {
        const std::size_t at = (o * first + k) * inner + i;
        const auto expected = row[static_cast<std::size_t>(order[k]) * inner];
        wrong += indices.data()[at] != order[k] ||
                 __builtin_memcmp(values.data() + at, &expected, sizeof expected) != 0;  // a NaN and -0, too
      }
    }
  BOOST_CHECK_EQUAL(wrong, 0u);
}

template <class T>
T number_at(std::size_t i) {
  if constexpr (std::is_integral_v<T>) {
    return i % 19 == 7    ? std::numeric_limits<T>::max()
           : i % 19 == 12 ? std::numeric_limits<T>::min()
                          : static_cast<T>(i * 7919 + 31 - (i * i) % 1009);
  } else {
    const float special[] = {no_number, -no_number, infinity, -infinity, 0.0f, -0.0f, 1e-7f, -1e-7f};
    const float x = i % 5 == 3 ? special[i / 5 % 8] : static_cast<float>((i * 7919 + 31) % 211) / 8 - 13;
    return static_cast<T>(x);
  }
}

template <class T, int K, int... Extents>
void check() {
  using D = dims<Extents...>;
  constexpr int last = static_cast<int>(D::rank) - 1;
  tensor<T, D> x;
  for (std::size_t i = 0; i < x.elements(); ++i) x.data()[i] = number_at<T>(i);
  graph g;
  const auto fed = placeholder<T, D>(g);
  session s{g};
  for (const direction d : {direction::ascending, direction::descending}) {
    const auto [v0, i0, v, i] =
        s.prepare(fetch(sort<0>(fed, d), argsort<0>(fed, d), sort(fed, d), argsort(fed, d)), feed(fed))(x);
    check_sorted(x, v0, i0, 0, d);
    check_sorted(x, v, i, last, d);
    check_sorted(x, sort(x, d), argsort(x, d), last, d);
  }
  const auto top = top_k<K>(fed);
  const auto [values, indices] = s.prepare(fetch(top.values, top.indices), feed(fed))(x);
  check_sorted(x, values, indices, last, direction::descending);
  const auto now = top_k<K>(x);
  check_sorted(x, now.values, now.indices, last, direction::descending);
}

template <class T>
void check_type() {
  check<T, 1, 1>();
  check<T, 5, 37>();
  check<T, 65, 4, 100>();
  check<T, 3, 90, 2, 7>();
  check<T, 64, 2, 3000>();
  check<T, 1000, 2, 3000>();
}

}  // namespace

BOOST_AUTO_TEST_CASE(types_of_results) {
  graph g;
  const auto x = placeholder<float, dims<dyn<"batch">, 9>>(g);
  check_type_of<float, dims<dyn<"batch">, 9>>(sort(x));
  check_type_of<std::int32_t, dims<dyn<"batch">, 9>>(argsort<0>(x));
  const auto top = top_k<3>(x + 1.0f);
  check_type_of<float, dims<dyn<"batch">, 3>>(top.values);
  check_type_of<std::int32_t, dims<dyn<"batch">, 3>>(top.indices);
  BOOST_CHECK(sort(x).id() == sort<1>(x).id());
  BOOST_CHECK_EQUAL(sort(x).id().node, argsort(x).id().node);  // one sort gives both
  BOOST_CHECK(!(sort(x).id() == sort<0>(x).id()));
  BOOST_CHECK(!(sort(x).id() == sort(x, direction::descending).id()));
  BOOST_CHECK(!(top_k<3>(x).values.id() == top_k<4>(x).values.id()));
}

BOOST_AUTO_TEST_CASE(every_type_is_the_definition) {
  check_type<float>();
  check_type<double>();
  check_type<weft::half>();
  check_type<bfloat16>();
  check_type<std::int32_t>();
  check_type<std::int64_t>();
  check_type<std::int8_t>();
  check_type<std::uint64_t>();
}

BOOST_AUTO_TEST_CASE(a_nan_is_larger_than_every_number) {
  const tensor<float, dims<6>> x{no_number, 2, infinity, -no_number, -infinity, 2};
  const auto up = argsort(x), down = argsort(x, direction::descending);
  BOOST_CHECK(std::vector<std::int32_t>(up.begin(), up.end()) == (std::vector<std::int32_t>{4, 1, 5, 2, 0, 3}));
  BOOST_CHECK(std::vector<std::int32_t>(down.begin(), down.end()) == (std::vector<std::int32_t>{0, 3, 2, 1, 5, 4}));
}

BOOST_AUTO_TEST_CASE(extents_known_at_run_time) {
  using rows = dims<dyn<"rows">, dyn<"columns">>;
  graph g;
  const auto fed = placeholder<double, rows>(g);
  const auto top = top_k<3>(fed);
  session s{g};
  auto step = s.prepare(fetch(sort<0>(fed), argsort<0>(fed), top.values, top.indices), feed(fed));
  for (const int n : {3, 0, 70, 500}) {
    tensor<double, rows> x(shape(n, 5));
    for (std::size_t i = 0; i < x.elements(); ++i) x.data()[i] = number_at<double>(i);
    const auto [v, i, largest, where] = step(x);
    check_sorted(x, v, i, 0, direction::ascending);
    check_sorted(x, largest, where, 1, direction::descending);
  }
  const tensor<double, rows> narrow(shape(4, 2));
  const std::string words = "k must be at most 2, the last extent of [4, 2]; it is 3";
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { step(narrow); }), words);
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { static_cast<void>(top_k<3>(narrow)); }), words);
}

// 2^31 elements have numbers, one more has not. Nothing is read: the operand's memory is not even touched.
BOOST_AUTO_TEST_CASE(an_axis_of_more_elements_than_have_numbers) {
  using column = dims<dyn<"rows">>;
  const std::int64_t many = 2'200'000'000;
  const std::string words =
      "[2200000000] has more than 2147483648 elements, the limit of std::int32_t indices: reshape it";
  const tensor<std::int8_t, column> x(shape(many), uninitialized{});
  CHECK_SAYS(test::failure(error_code::out_of_range, [&] { static_cast<void>(argmax<0>(x)); }), words);
  CHECK_SAYS(test::failure(error_code::out_of_range, [&] { static_cast<void>(argsort(x)); }), words);
  CHECK_SAYS(test::failure(error_code::out_of_range, [&] { static_cast<void>(top_k<2>(x)); }), words);
  graph g;
  const auto fed = placeholder<std::int8_t, column>(g);
  session s{g, {.threads = 1}};
  CHECK_SAYS(test::failure(error_code::out_of_range, [&] { s.eval(argmax<0>(fed), with(fed, x)); }), words);
  CHECK_SAYS(test::failure(error_code::out_of_range, [&] { s.eval(argsort(fed), with(fed, x)); }), words);
}

BOOST_AUTO_TEST_CASE(bits_do_not_depend_on_threads) {
  const auto sorts = [](int threads) {
    graph g;
    const auto x = placeholder<float, dims<60, 50, 20>>(g);
    const auto top = top_k<7>(reshape<dims<30, 2000>>(x));
    const auto y = sort<1>(x);
    const auto [d] = gradients(sum(y * y * y) + sum(square(top.values)), x);
    session s{g, {.threads = threads}};
    tensor<float, dims<60, 50, 20>> t;
    for (std::size_t i = 0; i < t.elements(); ++i) t.data()[i] = static_cast<float>((i * 7919) % 3001) / 64;
    const auto [a, b, c, e, f] = s.prepare(fetch(y, argsort<0>(x), top.values, top.indices, d), feed(x))(t);
    std::vector<float> all(a.begin(), a.end());
    for (const auto i : b) all.push_back(static_cast<float>(i));
    all.insert(all.end(), c.begin(), c.end());
    for (const auto i : e) all.push_back(static_cast<float>(i));
    all.insert(all.end(), f.begin(), f.end());
    return all;
  };
  const auto one = sorts(1);
  BOOST_CHECK(one == sorts(2));
  BOOST_CHECK(one == sorts(7));
}

BOOST_AUTO_TEST_CASE(gradients_of_every_order) {
  gradient_check check;
  const auto x = check.input<dims<2, 4, 3>>(0.5, 1.5);
  check("sort of the first axis", square(sort<0>(x * x)), 3);
  check("sort of the middle axis", exp(sort<1>(x, direction::descending)) * x);
  check("sort of the last axis", square(sort(x)) * sort(x, direction::descending));
  check("the largest", square(top_k<2>(square(x)).values), 3);
  check("values and what they are of", top_k<2>(x).values * cast<double>(top_k<2>(x).indices + 1));
}

BOOST_AUTO_TEST_CASE(gradients_of_dynamic_extents) {
  gradient_check check;
  const auto x = check.input<dims<dyn<"rows">, dyn<"columns">>>(0.5, 1.5, shape(4, 3));
  check("sort of rows known at run time", square(sort<0>(x * x)));
  check("the largest of columns known at run time", square(top_k<2>(x * x).values));
}

BOOST_AUTO_TEST_CASE(indices_have_no_gradient) {
  graph g;
  const auto x = variable<float, dims<4>>(g, "x", init::zeros{});
  const auto [d] = gradients(sum(cast<float>(argsort(x)) * x), x);
  session s{g};
  const auto found = s.eval(d);
  for (int i = 0; i < 4; ++i) BOOST_CHECK_EQUAL(found(i), i);
}

BOOST_AUTO_TEST_CASE(gradients_pass_through_narrow_types) {
  const auto check = []<class T>(T) {
    graph g;
    const auto x = variable<float, dims<3>>(g, "x", tensor<float, dims<3>>{3, 1, 2});
    const auto [d] = gradients(sum(cast<float>(sort(cast<T>(x))) * tensor<float, dims<3>>{1, 10, 100}), x);
    session s{g};
    const auto found = s.eval(d);
    const float expected[] = {100, 1, 10};
    for (int i = 0; i < 3; ++i) BOOST_CHECK_EQUAL(found(i), expected[i]);
  };
  check(weft::half{}), check(bfloat16{});
}

// ---- shuffle ----

namespace {

using batch = dyn_extent<"batch">;

// Feeds a tensor of the node's extents, which nvcc cannot write down here.
template <class Session, class Node, class Placeholder>
std::vector<std::vector<std::int32_t>> shuffled(Session& s, const Node& y, const Placeholder& x, std::int64_t n,
                                                int steps) {
  tensor<std::int32_t, dims_t<Node>> in(shape(n, 2));
  std::iota(in.data(), in.data() + in.elements(), 0);
  std::vector<std::vector<std::int32_t>> all;
  for (int i = 0; i < steps; ++i) {
    const auto found = s.eval(y, with(x, in));
    std::vector<std::int32_t> rows;
    for (std::int64_t row = 0; row < n; ++row) {
      rows.push_back(found.data()[2 * row] / 2);
      BOOST_REQUIRE_EQUAL(found.data()[2 * row + 1], found.data()[2 * row] + 1);
    }
    all.push_back(rows);
    std::sort(rows.begin(), rows.end());
    for (std::int32_t row = 0; row < n; ++row) BOOST_REQUIRE_EQUAL(rows[static_cast<std::size_t>(row)], row);
  }
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(rows_are_shuffled_anew_in_each_step) {
  graph g;
  const auto x = placeholder<std::int32_t, dims<batch{}, 2>>(g);
  const auto y = shuffle(x);
  session s{g, {.threads = 1}}, other{g, {.threads = 3}};
  session_on_cpu cpus{g, {.threads = 2}};
  for (const std::int64_t n : {1, 0, 5000}) {
    const auto orders = shuffled(s, y, x, n, 3);
    BOOST_CHECK(shuffled(other, y, x, n, 3) == orders);
    BOOST_CHECK(shuffled(cpus, y, x, n, 3) == orders);
    if (n > 1) BOOST_CHECK(orders[0] != orders[1] && orders[1] != orders[2] && orders[0] != orders[2]);
    s.set_step_number(s.step_number() - 2);
    BOOST_CHECK((shuffled(s, y, x, n, 1)[0] == orders[1]));
    s.set_step_number(s.step_number() + 1);
  }
}

BOOST_AUTO_TEST_CASE(every_order_is_as_likely) {
  graph g;
  const auto x = placeholder<std::int32_t, dims<batch{}, 2>>(g);
  const auto y = shuffle(x);
  session s{g, {.threads = 1}};
  constexpr int steps = 2400;
  std::vector<int> counts(256);
  for (const auto& order : shuffled(s, y, x, 4, steps)) {
    std::size_t number = 0;
    for (const std::int32_t row : order) number = number * 4 + static_cast<std::size_t>(row);
    ++counts[number];
  }
  double chi = 0;
  for (const int n : counts) chi += n == 0 ? 0 : (n - steps / 24.0) * (n - steps / 24.0) / (steps / 24.0);
  BOOST_CHECK_EQUAL(std::count_if(counts.begin(), counts.end(), [](int n) { return n > 0; }), 24);
  BOOST_CHECK_LT(chi, 45);  // there are 23 degrees of freedom; larger once in 250 times, and the seed is fixed
}

BOOST_AUTO_TEST_CASE(a_seed_keeps_rows_together_and_gradients_find_them) {
  graph g;
  const auto x = variable<float, dims<7, 2>>(g, "x", init::uniform{-1, 1});
  const auto labels = placeholder<std::int32_t, dims<7>>(g);
  const auto weight = placeholder<float, dims<7, 2>>(g);
  const auto y = shuffle(x * 1.0f, {.seed = 3});
  const auto order = shuffle(labels, {.seed = 3}), alone = shuffle(labels);
  const auto [dx] = gradients(sum(y * weight), x);
  session s{g};
  tensor<float, dims<7, 2>> w;
  for (int i = 0; i < 14; ++i) w.data()[i] = static_cast<float>(i);
  const auto [found, rows, others, gradient, values] = s.run(
      fetch(y, order, alone, dx, x), with(labels, tensor<std::int32_t, dims<7>>{0, 1, 2, 3, 4, 5, 6}), with(weight, w));
  bool same = true;
  for (int i = 0; i < 7; ++i) {
    same = same && rows(i) == others(i);
    for (int c = 0; c < 2; ++c) {
      BOOST_CHECK_EQUAL(found(i, c), values(rows(i), c));
      BOOST_CHECK_EQUAL(gradient(rows(i), c), w(i, c));
    }
  }
  BOOST_CHECK(!same);
}
