// SPDX-License-Identifier: BSL-1.0
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>
#include <weft/ops/reduce/scan.hpp>

#include "ops/gradient_check.hpp"

using namespace weft;

namespace {

template <class E, class T, class Dims>
constexpr bool is_of = std::is_same_v<value_t<E>, T> && std::is_same_v<dims_t<E>, Dims>;

template <class T>
double wide(T x) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<double>(x);
  else
    return static_cast<double>(static_cast<std::conditional_t<sizeof(T) == 8, double, float>>(x));
}

/// The definition, in the type that sums are made in, rounded once.
template <class T, class Sum, class Tensor>
void check_definition(const Tensor& x, const std::vector<T>& found, std::size_t axis, cumsum_options o,
                      double tolerance) {
  std::size_t inner = 1, extent = static_cast<std::size_t>(x.extents()[axis]);
  for (std::size_t i = axis + 1; i < x.extents().rank; ++i) inner *= static_cast<std::size_t>(x.extents()[i]);
  std::size_t wrong = 0;
  for (std::size_t e = 0; e < x.elements(); ++e) {
    const std::size_t here = e / inner % extent;
    Sum sum = 0;
    const auto add = [&](std::size_t k) { sum += static_cast<Sum>(x.data()[e - here * inner + k * inner]); };
    if (o.reverse)
      for (std::size_t k = extent; k-- > here + o.exclusive;) add(k);
    else
      for (std::size_t k = 0; k < here + !o.exclusive; ++k) add(k);
    const double expected = wide(static_cast<T>(sum)), difference = std::abs(wide(found[e]) - expected);
    if (!(difference <= tolerance * (1 + std::abs(expected)))) ++wrong;
  }
  BOOST_CHECK_EQUAL(wrong, 0u);
}

template <class T, class Sum, int Axis, int... Extents>
void check(double tolerance = 0) {
  using D = dims<Extents...>;
  tensor<T, D> x;
  for (std::size_t i = 0; i < x.elements(); ++i)
    if constexpr (std::is_integral_v<T>)
      x.data()[i] = static_cast<T>(static_cast<int>((i * 7919 + 31) % 23) - 11);
    else
      x.data()[i] = static_cast<T>(static_cast<float>((i * 7919 + 31) % 23) - 11);
  graph g;
  const auto fed = placeholder<T, D>(g);
  session s{g};
  for (const bool exclusive : {false, true})
    for (const bool reverse : {false, true}) {
      const auto y = s.prepare(fetch(cumsum<Axis>(fed, {exclusive, reverse})), feed(fed))(x);
      check_definition<T, Sum>(x, std::vector<T>(y.begin(), y.end()), Axis, {exclusive, reverse}, tolerance);
    }
}

template <class T, class Sum>
void check_type(double tolerance = 0) {
  check<T, Sum, 0, 37>(tolerance);
  check<T, Sum, 1, 4, 3000>(tolerance);
  check<T, Sum, 0, 40, 7>(tolerance);
  check<T, Sum, 1, 2, 33, 300>(tolerance);
  check<T, Sum, 0, 1>(tolerance);
}

}  // namespace

BOOST_AUTO_TEST_CASE(types_of_results) {
  graph g;
  const auto x = placeholder<float, dims<dyn<"batch">, 3>>(g);
  static_assert(is_of<decltype(cumsum(x)), float, dims<dyn<"batch">, 3>>);
  static_assert(is_of<decltype(cumsum<-1>(x + 1.0f)), float, dims<dyn<"batch">, 3>>);
  BOOST_CHECK(cumsum<1>(x).id() == cumsum<-1>(x).id());  // equal operations are one
  BOOST_CHECK(!(cumsum<1>(x).id() == cumsum<0>(x).id()));
  BOOST_CHECK(!(cumsum<1>(x).id() == cumsum<1>(x, {.reverse = true}).id()));
  BOOST_CHECK(!(cumsum<1>(x, {.exclusive = true}).id() == cumsum<1>(x, {.reverse = true}).id()));
}

BOOST_AUTO_TEST_CASE(every_type_is_the_definition) {
  // Small integers, whose sums every type but the narrow ones holds exactly, in any order.
  check_type<float, float>();
  check_type<double, double>();
  check_type<std::int32_t, std::int32_t>();
  check_type<std::int64_t, std::int64_t>();
  check_type<std::uint8_t, std::uint8_t>();
  check_type<weft::half, float>();
  check_type<bfloat16, float>();
}

BOOST_AUTO_TEST_CASE(narrow_types_round_once) {
  // In half 2048 + 1 is 2048: sums that were rounded on their way would stay there.
  tensor<weft::half, dims<3000>> ones;
  for (std::size_t i = 0; i < 3000; ++i) ones.data()[i] = weft::half(1.0f);
  graph g;
  const auto x = placeholder<weft::half, dims<3000>>(g);
  session s{g};
  const auto y = s.prepare(fetch(cumsum(x)), feed(x))(ones);
  BOOST_CHECK_EQUAL(static_cast<float>(y.data()[2999]), 3000);
  BOOST_CHECK_EQUAL(static_cast<float>(y.data()[2600]), 2600);  // 2601, to even
}

BOOST_AUTO_TEST_CASE(integers_wrap_around) {
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
  const auto y = cumsum(tensor<std::int32_t, dims<3>>{most, 1, 1});
  BOOST_CHECK_EQUAL(y.data()[1], std::numeric_limits<std::int32_t>::min());
  BOOST_CHECK_EQUAL(y.data()[2], std::numeric_limits<std::int32_t>::min() + 1);
}

BOOST_AUTO_TEST_CASE(nan_stays_in_its_row) {
  tensor<float, dims<2, 300>> x;
  for (std::size_t i = 0; i < 600; ++i) x.data()[i] = 1;
  x(0, 7) = std::numeric_limits<float>::quiet_NaN();
  graph g;
  const auto fed = placeholder<float, dims<2, 300>>(g);
  session s{g};
  const auto y = s.prepare(fetch(cumsum<1>(fed)), feed(fed))(x);
  BOOST_CHECK_EQUAL(y(0, 6), 7);
  BOOST_CHECK(std::isnan(y(0, 7)) && std::isnan(y(0, 299)));
  BOOST_CHECK_EQUAL(y(1, 299), 300);
}

BOOST_AUTO_TEST_CASE(extents_known_at_run_time) {
  using rows = dims<dyn<"rows">, 4>;
  graph g;
  const auto fed = placeholder<double, rows>(g);
  session s{g};
  auto step = s.prepare(fetch(cumsum<0>(fed), cumsum<1>(fed * 2.0)), feed(fed));
  for (const int n : {3, 0, 1, 500}) {
    tensor<double, rows> x(shape(n, 4));
    for (std::size_t i = 0; i < x.elements(); ++i) x.data()[i] = static_cast<double>(i % 5);
    const auto [down, across] = step(x);
    check_definition<double, double>(x, std::vector<double>(down.begin(), down.end()), 0, {}, 0);
    check_definition<double, double>(eval(x * 2.0), std::vector<double>(across.begin(), across.end()), 1, {}, 0);
    const auto now = cumsum<0>(x);
    BOOST_CHECK(std::vector<double>(now.begin(), now.end()) == std::vector<double>(down.begin(), down.end()));
  }
}

BOOST_AUTO_TEST_CASE(bits_do_not_depend_on_threads) {
  const auto sums = [](int threads) {
    graph g;
    const auto x = placeholder<float, dims<50, 40, 30>>(g), wide = placeholder<float, dims<50, 40, 30>>(g);
    session s{g, {.threads = threads}};
    tensor<float, dims<50, 40, 30>> t;
    const random_stream random(3, 4);
    for (std::size_t i = 0; i < t.elements(); ++i) t.data()[i] = static_cast<float>(random.normal(i));
    const auto found = s.prepare(
        fetch(cumsum<0>(x), cumsum<1>(x), cumsum<2>(x), cumsum<1>(reshape<dims<2, 30000>>(x), {.reverse = true}),
              cumsum<0>(reshape<dims<40, 1500>>(x), {.exclusive = true})),
        feed(x, wide))(t, t);
    std::vector<float> all;
    std::apply([&](const auto&... y) { (all.insert(all.end(), y.begin(), y.end()), ...); }, found);
    return all;
  };
  const auto one = sums(1);
  BOOST_CHECK(one == sums(2));
  BOOST_CHECK(one == sums(7));
}

BOOST_AUTO_TEST_CASE(gradients_of_every_option) {
  for (const bool exclusive : {false, true})
    for (const bool reverse : {false, true}) {
      const cumsum_options o{exclusive, reverse};
      const std::string name = std::string("cumsum") + (exclusive ? " exclusive" : "") + (reverse ? " reverse" : "");
      gradient_check check;
      const auto x = check.input<dims<2, 3, 2>>(0.5, 1.5);
      check(name + " of the first axis", exp(cumsum<0>(x, o) * 0.3));
      check(name + " of the middle axis", square(cumsum<1>(square(x), o)), 3);
      check(name + " of the last axis", cumsum<2>(x, o) * x);
    }
}

BOOST_AUTO_TEST_CASE(gradients_of_dynamic_extents) {
  gradient_check check;
  const auto x = check.input<dims<dyn<"rows">, 3>>(0.5, 1.5, shape(4, 3));
  check("cumsum of rows known at run time", square(cumsum(x * x)));
}

BOOST_AUTO_TEST_CASE(gradients_pass_through_narrow_types) {
  const auto check = []<class T>(T) {
    graph g;
    const auto x = variable<float, dims<4>>(g, "x", tensor<float, dims<4>>{1, 2, 3, 4});
    const auto [d] = gradients(sum(square(cast<float>(cumsum(cast<T>(x))))), x);
    session s{g};
    const auto found = s.eval(d);
    const float expected[] = {40, 38, 32, 20};
    for (int i = 0; i < 4; ++i) BOOST_CHECK_EQUAL(found(i), expected[i]);
  };
  check(weft::half{}), check(bfloat16{});
}

// The products before an element may leave a float's range where the products of all others do not.
template <class D>
void check_products_of_others(const tensor<float, D>& x, const std::vector<double>& expected) {
  graph g;
  const auto fed = placeholder<float, D>(g);
  const auto [dx] = gradients(prod(fed), fed);
  session s{g};
  const auto found = s.eval(dx, with(fed, x));
  for (std::size_t i = 0; i < x.elements(); ++i)
    BOOST_CHECK_LE(std::abs(wide(found.data()[i]) - expected[i]), 1e-5 * std::abs(expected[i]));
}

BOOST_AUTO_TEST_CASE(products_of_others_leave_the_range_on_the_way) {
  tensor<float, dims<5>> row{1e30f, 1e30f, 5, 1e-30f, 1e-30f};
  check_products_of_others(row, {5e-30, 5e-30, 1, 5e30, 5e30});
  tensor<float, dims<5>> inverse{1e-30f, 1e-30f, 5, 1e30f, 1e30f};
  check_products_of_others(inverse, {5e30, 5e30, 1, 5e-30, 5e-30});
  // Rows are neighbouring axes taken as one: no row's own product is kept in float.
  tensor<float, dims<2, 3>> matrix{1e30f, 1e30f, 5, 1e-30f, 1e-30f, 2};
  check_products_of_others(matrix, {1e-29, 1e-29, 2, 1e31, 1e31, 5});
}

BOOST_AUTO_TEST_CASE(products_of_others_along_separate_axes) {
  gradient_check check;
  const auto x = check.input<dims<2, 3, 2, 2>>(0.5, 2);
  check("outer and inner", prod<0, 2, 3>(x), 2);
  check("two pairs", prod<0, 1, 3>(x), 2);
}
