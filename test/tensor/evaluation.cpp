// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>
#include <weft/weft.hpp>

#include "errors.hpp"
#include "list.hpp"

using namespace weft;
using test::floats;
using test::list;
using test::says;

namespace {

using vec = tensor<float, dims<4>>;

template <class T>
T number(const tensor<T>& t) {
  return t;
}

}  // namespace

BOOST_AUTO_TEST_CASE(one_pass) {
  const tensor<float, dims<2, 3>> a{1, 2, 3, 4, 5, 6}, b{6, 5, 4, 3, 2, 1};
  const tensor<float, dims<3>> d{0, 1, 2};
  tensor<float, dims<2, 3>> c = a + b * exp(d);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j) BOOST_CHECK_CLOSE(c(i, j), a(i, j) + b(i, j) * std::exp(d(j)), 1e-4);
  c = -c + c;
  BOOST_CHECK(list(c) == floats(6));
}

BOOST_AUTO_TEST_CASE(broadcasting) {
  const tensor<int, dims<2, 3>> m{1, 2, 3, 4, 5, 6};
  const tensor<int, dims<3>> row{10, 20, 30};
  const tensor<int, dims<2, 1>> column{100, 200};
  const tensor<int> scalar = 7;
  using ints = std::vector<int>;
  BOOST_CHECK(list(m + row) == (ints{11, 22, 33, 14, 25, 36}));
  BOOST_CHECK(list(column - m) == (ints{99, 98, 97, 196, 195, 194}));
  BOOST_CHECK(list(row + column) == (ints{110, 120, 130, 210, 220, 230}));
  BOOST_CHECK(list(m * scalar + 1) == (ints{8, 15, 22, 29, 36, 43}));
  BOOST_CHECK(list(sum<0>(row + column)) == (ints{320, 340, 360}));
  const tensor<int, dims<2, 1, 2>> deep{1, 2, 3, 4};
  BOOST_CHECK(list(deep * tensor<int, dims<3, 1>>{1, 10, 100}) ==
              (ints{1, 2, 10, 20, 100, 200, 3, 4, 30, 40, 300, 400}));
}

BOOST_AUTO_TEST_CASE(dynamic_extents) {
  using batch = tensor<float, dims<dyn<"n">, 2>>;
  const batch a(shape(3, 2), {1, 2, 3, 4, 5, 6});
  const tensor<float, dims<dyn<"n">>> s(shape(3), {1, 1, 2});
  const batch b = a * 2.0f + tensor<float, dims<2>>{1, 0};
  BOOST_CHECK(list(b) == (floats{3, 4, 7, 8, 11, 12}));
  BOOST_CHECK(list(sum<0>(a)) == (floats{9, 12}));
  BOOST_CHECK(list(sum<1>(a) / s) == (floats{3, 7, 5.5f}));
  BOOST_CHECK(list(mean<1>(a)).size() == 3u);
  const batch other(shape(2, 2), {1, 2, 3, 4});
  BOOST_CHECK_THROW((tensor<float, dims<2, 2>>(a)), error);
  tensor<float, dims<dyn<"n">, 2>> c = other;
  c = a + a;  // takes the extents of what is assigned
  BOOST_CHECK_EQUAL(c.extent(0), 3);
  const batch none(shape(0, 2));
  BOOST_CHECK_EQUAL(eval(none + none).elements(), 0u);
  BOOST_CHECK(list(sum<0>(none)) == (floats{0, 0}));
  BOOST_CHECK_EQUAL(number(sum(none)), 0);
}

BOOST_AUTO_TEST_CASE(one_name_is_one_extent) {
  using rows = tensor<float, dims<dyn<"n">, 2>>;
  using column = tensor<float, dims<dyn<"n">>>;
  const rows three(shape(3, 2)), one(shape(1, 2));
  const column five(shape(5)), single(shape(1));
  const auto differ = [](const std::string& operation, const char* how) {
    return says(error_code::invalid_argument, operation + ": the extent n is " + how);
  };
  BOOST_CHECK_EXCEPTION(eval(three + rows(shape(5, 2))), error, differ("add(a0, a1)", "3 in [3, 2] and 5 in [5, 2]"));
  BOOST_CHECK_EXCEPTION(eval(three * one), error,
                        differ("multiply(a0, a1)", "3 in [3, 2] and 1 in [1, 2]"));  // no broadcast
  BOOST_CHECK_EXCEPTION(eval(sum(exp(single) - five)), error, differ("subtract(exp(a0), a1)", "1 in [1] and 5 in [5]"));
  BOOST_CHECK_EXCEPTION(eval(transpose(three) + five), error, differ("add(a0, a1)", "3 in [2, 3] and 5 in [5]"));
  BOOST_CHECK_EXCEPTION(eval(matmul(transpose(three), rows(shape(5, 2)))), error,
                        differ("matmul", "3 in [2, 3] and 5 in [5, 2]"));
  BOOST_CHECK_EQUAL(eval(transpose(three) + column(shape(3))).elements(), 6u);
}

BOOST_AUTO_TEST_CASE(a_scalar_converts_to_its_element) {
  const vec a{1, 2, 2, 4}, b{1, 1, 1, 1};
  const float norm = sqrt(sum(square(a)));
  const double half_of_it = sum(a) / 2;
  BOOST_CHECK_EQUAL(norm, 5);
  BOOST_CHECK_EQUAL(half_of_it, 4.5);
  BOOST_CHECK(sum(a) == 9.0f && !(max(a) < 4.0f));
  BOOST_CHECK(list(sum(a) * 2.0f + b) == (floats{19, 19, 19, 19}));  // and stays an expression where it meets another
  const tensor<float> kept = sum(a) * 2.0f;
  BOOST_CHECK_EQUAL(kept + 1.0f, 19);
  static_assert(!std::is_convertible_v<decltype(a + b), float>);
  struct overloads {
    static int f(float) { return 1; }
    static int f(const vec&) { return 2; }
  };
  BOOST_CHECK_EQUAL(overloads::f(a + b), 2);
}

BOOST_AUTO_TEST_CASE(element_types) {
  const auto check = []<class T>(T) {
    const tensor<T, dims<3>> a{T(6), T(3), T(2)}, b{T(2), T(3), T(4)};
    BOOST_CHECK(list(a + b) == (std::vector<T>{T(8), T(6), T(6)}));
    BOOST_CHECK(list(a / b) == (std::vector<T>{T(T(6) / T(2)), T(1), T(T(2) / T(4))}));
    BOOST_CHECK(list(maximum(a, b)) == (std::vector<T>{T(6), T(3), T(4)}));
    BOOST_CHECK(list(a >= b) == (std::vector<bool>{true, true, false}));
    BOOST_CHECK(list(select(a == b, a, T(0) * b)) == (std::vector<T>{T(0), T(3), T(0)}));
    BOOST_CHECK(number(sum(a)) == T(11) && number(max(a)) == T(6));
  };
  check(std::int8_t{}), check(std::uint16_t{}), check(std::int32_t{}), check(std::uint64_t{}), check(double{});
}

BOOST_AUTO_TEST_CASE(division_of_integers) {
  const auto check = []<class T>(T) {
    constexpr T smallest = std::numeric_limits<T>::min();
    const tensor<T, dims<3>> a{smallest, 7, T(-7)}, b{T(-1), 2, 2}, c{1, 0, 1};
    BOOST_CHECK(list(a / b) == (std::vector<T>{T(std::uint64_t{0} - std::uint64_t(smallest)), 3, T(T(-7) / T(2))}));
    BOOST_CHECK_EXCEPTION(eval(a / c), error, says(error_code::invalid_argument, "divide: integer division by zero"));
    BOOST_CHECK_EXCEPTION(eval(a / 0 + a), error, says(error_code::invalid_argument));
  };
  check(std::int32_t{}), check(std::int64_t{}), check(std::int8_t{}), check(std::uint16_t{});
  graph g;
  const auto x = placeholder<int, dims<100000>>(g, "x");
  session s{g, {.threads = 2}};
  auto step = s.prepare(fetch(100 / x), feed(x));
  tensor<int, dims<100000>> ones = tensor<int, dims<100000>>() + 1;
  BOOST_CHECK_EQUAL(step(ones)(77777), 100);
  ones(77777) = 0;
  BOOST_CHECK_EXCEPTION(step(ones), error, says(error_code::invalid_argument, "integer division by zero"));
  ones(77777) = -3;
  BOOST_CHECK_EQUAL(step(ones)(77777), -33);
}

// Under UndefinedBehaviorSanitizer this says that no signed integer overflows.
BOOST_AUTO_TEST_CASE(integers_wrap_around) {
  const auto check = []<class T>(T) {
    constexpr T most = std::numeric_limits<T>::max(), least = std::numeric_limits<T>::min();
    const auto wrapped = [](auto x) { return static_cast<T>(x); };
    const tensor<T, dims<2>> a{most, least};
    BOOST_CHECK(list(a + 1) == (std::vector<T>{least, wrapped(least + T(1))}));
    BOOST_CHECK(list(a - 1) == (std::vector<T>{wrapped(most - T(1)), most}));
    BOOST_CHECK_EQUAL(eval(-a)(1), wrapped(std::uint64_t{0} - static_cast<std::uint64_t>(least)));
    BOOST_CHECK(list(a * a) == (std::vector<T>{1, 0}));
    BOOST_CHECK(list(square(a)) == (std::vector<T>{1, 0}));
    BOOST_CHECK_EQUAL(eval(abs(a))(1), wrapped(std::uint64_t{0} - static_cast<std::uint64_t>(least)));
    BOOST_CHECK_EQUAL(number(sum(a)), wrapped(static_cast<std::uint64_t>(most) + static_cast<std::uint64_t>(least)));
    const tensor<T, dims<40>> many = tensor<T, dims<40>>() + most;
    BOOST_CHECK_EQUAL(number(sum(many)), wrapped(std::uint64_t{40} * static_cast<std::uint64_t>(most)));
    BOOST_CHECK_EQUAL(number(prod(many)), 1);
    graph g;
    const auto v = variable<T>(g, "v", a);
    session s{g};
    BOOST_CHECK_EQUAL(s.eval(assign_add(v, v))(0), wrapped(std::uint64_t{2} * static_cast<std::uint64_t>(most)));
  };
  check(std::int8_t{}), check(std::int16_t{}), check(std::int32_t{}), check(std::int64_t{});
  check(std::uint8_t{}), check(std::uint16_t{}), check(std::uint32_t{}), check(std::uint64_t{});
}

BOOST_AUTO_TEST_CASE(logic_and_casts) {
  const tensor<bool, dims<4>> p{false, false, true, true}, q{false, true, false, true};
  using bools = std::vector<bool>;
  BOOST_CHECK(list(p && q) == (bools{false, false, false, true}));
  BOOST_CHECK(list(p || q) == (bools{false, true, true, true}));
  BOOST_CHECK(list(!p) == (bools{true, true, false, false}));
  BOOST_CHECK(list(cast<float>(p) + cast<float>(q)) == (floats{0, 1, 1, 2}));
  BOOST_CHECK(list(cast<std::int32_t>(vec{-1.7f, 1.7f, 0, 250})) == (std::vector<std::int32_t>{-1, 1, 0, 250}));
  const auto halves = eval(cast<half>(vec{0.1f, 1, 2, 65504}));
  BOOST_CHECK_EQUAL(halves(0).bits, 0x2e66);
  BOOST_CHECK(list(cast<float>(cast<bfloat16>(vec{0.1f, 1, 2, 3}))) == (floats{0.10009765625f, 1, 2, 3}));
}

BOOST_AUTO_TEST_CASE(numbers_of_any_type) {
  const tensor<std::int8_t, dims<2>> small{1, -2};
  BOOST_CHECK(list(small + 100) == (std::vector<std::int8_t>{101, 98}));
  BOOST_CHECK(list(small * 3LL) == (std::vector<std::int8_t>{3, -6}));
  BOOST_CHECK(list(cast<float>(small) * 2ULL) == (floats{2, -4}));
  const auto refused = [](auto f) { return test::failure(error_code::invalid_argument, f); };
  CHECK_SAYS(refused([&] { static_cast<void>(small + 1000); }), "the number 1000 cannot be represented as int8");
  CHECK_SAYS(refused([&] { static_cast<void>(-129L - small); }), "the number -129 cannot be represented as int8");
  CHECK_SAYS(refused([&] { static_cast<void>(tensor<std::uint32_t, dims<2>>() * -1); }),
             "the number -1 cannot be represented as uint32");
  CHECK_SAYS(refused([&] { static_cast<void>((small < 0) == 2); }), "the number 2 cannot be represented as bool");
  CHECK_SAYS(refused([&] { static_cast<void>(tensor<std::int64_t, dims<2>>() * ~0ull); }), "18446744073709551615");
}

BOOST_AUTO_TEST_CASE(not_a_number) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const tensor<float, dims<3>> a{1, nan, 3}, b{nan, 2, -inf};
  const auto larger = eval(maximum(a, b)), smaller = eval(minimum(a, b));
  BOOST_CHECK(std::isnan(larger(0)) && std::isnan(larger(1)) && larger(2) == 3);
  BOOST_CHECK(std::isnan(smaller(0)) && std::isnan(smaller(1)) && smaller(2) == -inf);
  BOOST_CHECK(std::isnan(number(max(a))) && std::isnan(number(min(a))) && std::isnan(number(sum(a))) &&
              std::isnan(number(mean(a))));
  BOOST_CHECK(list(a == a) == (std::vector<bool>{true, false, true}));
  BOOST_CHECK(list(a != a) == (std::vector<bool>{false, true, false}));
  BOOST_CHECK(list(a < b) == (std::vector<bool>{false, false, false}));
  BOOST_CHECK(std::isnan(eval(relu(a))(1)));
  BOOST_CHECK(std::isnan(eval(exp(a))(1)) && eval(exp(b))(2) == 0);
  BOOST_CHECK(eval(sign(a))(0) == 1 && std::isnan(eval(sign(a))(1)) && eval(sign(b))(2) == -1);
  // Long enough for the vector loops; one of them in the tail.
  for (const int at : {0, 17, 130}) {
    tensor<float, dims<131>> c;
    c(at) = nan;
    BOOST_CHECK(std::isnan(number(max(c))) && std::isnan(number(min(c))));
  }
}

BOOST_AUTO_TEST_CASE(reductions_over_any_axes) {
  tensor<double, dims<2, 3, 4>> x;
  for (int i = 0; i < 24; ++i) x.data()[i] = i * 7 % 24 + 1;
  const auto brute = [&](std::uint32_t axes, auto start, auto combine) {
    std::vector<double> to;
    const int keep[] = {axes & 1 ? 1 : 2, axes & 2 ? 1 : 3, axes & 4 ? 1 : 4};
    to.assign(static_cast<std::size_t>(keep[0] * keep[1] * keep[2]), start);
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 3; ++j)
        for (int k = 0; k < 4; ++k) {
          double& t = to[static_cast<std::size_t>(((axes & 1 ? 0 : i) * keep[1] + (axes & 2 ? 0 : j)) * keep[2] +
                                                  (axes & 4 ? 0 : k))];
          t = combine(t, x(i, j, k));
        }
    return to;
  };
  const auto check = [&]<int... A>(std::integer_sequence<int, A...>) {
    const std::uint32_t axes = sizeof...(A) ? ((1u << (A < 0 ? A + 3 : A)) | ... | 0u) : 7u;
    const auto add = [](double a, double b) { return a + b; };
    const auto times = [](double a, double b) { return a * b; };
    BOOST_CHECK(list(tensor(sum<A...>(x))) == brute(axes, 0.0, add));
    BOOST_CHECK(list(tensor(max<A...>(x))) == brute(axes, 0.0, [](double a, double b) { return std::max(a, b); }));
    BOOST_CHECK(list(tensor(min<A...>(x))) == brute(axes, 99.0, [](double a, double b) { return std::min(a, b); }));
    const auto p = list(tensor(prod<A...>(x))), q = brute(axes, 1.0, times);
    for (std::size_t i = 0; i < p.size(); ++i) BOOST_CHECK_CLOSE(p[i], q[i], 1e-10);
    const auto m = list(tensor(mean<A...>(x + 1.0))), s = brute(axes, 0.0, add);
    const double each = 24.0 / static_cast<double>(s.size());
    for (std::size_t i = 0; i < m.size(); ++i) BOOST_CHECK_CLOSE(m[i], s[i] / each + 1, 1e-10);
  };
  check(std::integer_sequence<int>{}), check(std::integer_sequence<int, 0>{}), check(std::integer_sequence<int, 1>{});
  check(std::integer_sequence<int, -1>{}), check(std::integer_sequence<int, 0, 2>{}),
      check(std::integer_sequence<int, 1, 2>{});
  check(std::integer_sequence<int, 2, 0, 1>{});
}

BOOST_AUTO_TEST_CASE(large_sums_are_accurate) {
  tensor<float, dims<1000, 1000>> x;
  for (std::size_t i = 0; i < x.elements(); ++i) x.data()[i] = 0.1f;
  BOOST_CHECK_CLOSE(number(sum(x)), 100000.0f, 0.01f);
  BOOST_CHECK_CLOSE(number(mean(square(x))), 0.01f, 0.01f);
  for (const float column : sum<0>(x)) BOOST_REQUIRE_CLOSE(column, 100.0f, 0.01f);
  const tensor<double, dims<49>> ones = tensor<double, dims<49>>() + 1;
  BOOST_CHECK_EQUAL(number(mean(ones)), 1);  // 1 / 49, taken 49 times, is less
}

BOOST_AUTO_TEST_CASE(arrays) {
  const tensor<int, dims<2, 3>> m{1, 2, 3, 4, 5, 6};
  using ints = std::vector<int>;
  BOOST_CHECK(list(transpose(m)) == (ints{1, 4, 2, 5, 3, 6}));
  const auto view = reshape<dims<3, 2>>(m);
  BOOST_CHECK(list(view) == (ints{1, 2, 3, 4, 5, 6}));
  BOOST_CHECK_EQUAL(view.begin(), m.begin());  // no copy
  BOOST_CHECK(list(argmax<1>(tensor<float, dims<2, 3>>{1, 5, 5, 9, 0, 3})) == (ints{1, 0}));
  BOOST_CHECK(list(argmax<0>(tensor<float, dims<2, 3>>{1, 5, 5, 9, 0, 3})) == (ints{1, 0, 0}));
  BOOST_CHECK_EXCEPTION(eval(argmax<1>(tensor<float, dims<2, 0>>())), error,
                        says(error_code::invalid_argument, "argmax: axis 1 of [2, 0] is empty"));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  BOOST_CHECK(list(argmax<1>(tensor<float, dims<2, 3>>{nan, 5, 7, 1, nan, 0})) == (ints{2, 0}));
  BOOST_CHECK(list(argmax<0>(tensor<float, dims<2, 3>>{nan, nan, 7, 1, nan, nan})) == (ints{1, 0, 0}));
  BOOST_CHECK_EQUAL(argmax<1>(tensor<float, dims<0, 0>>()).elements(), 0u);
  BOOST_CHECK(list(one_hot<3>(tensor<std::int32_t, dims<3>>{2, -1, 0})) == (floats{0, 0, 1, 0, 0, 0, 1, 0, 0}));
  BOOST_CHECK(list(shape_of(m)) == (std::vector<std::int64_t>{2, 3}));
  BOOST_CHECK_EQUAL(number(size(m)), 6);
  tensor<std::int64_t, dims<2, 3, 4>> deep;
  for (int i = 0; i < 24; ++i) deep.data()[i] = i;
  const auto turned = transpose<2, 0, 1>(deep);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 4; ++k) BOOST_CHECK_EQUAL(turned(k, i, j), deep(i, j, k));
  const tensor<float, dims<2, 3>> a{1, 2, 3, 4, 5, 6};
  BOOST_CHECK(list(matmul(a, transpose(a))) == (floats{14, 32, 32, 77}));
  BOOST_CHECK(list(matmul<transpose_of::b>(a, a)) == (floats{14, 32, 32, 77}));
  const auto p = softmax(tensor<double, dims<2, 2>>{0, std::log(3.0), 1000, 0});
  BOOST_CHECK_CLOSE(p(0, 1), 0.75, 1e-10);
  BOOST_CHECK_EQUAL(p(1, 0), 1);
  BOOST_CHECK_CLOSE(log_softmax(tensor<double, dims<2>>{-1000, 0})(0), -1000, 1e-10);
}

BOOST_AUTO_TEST_CASE(moved_from) {
  tensor<float, dims<2, 3>> x{1, 2, 3, 4, 5, 6};
  const auto taken = std::move(x);
  const auto refused = says(error_code::invalid_argument, "the extents [0, 0] do not fit the declared [2, 3]");
  BOOST_CHECK_EXCEPTION(sum(x), error, refused);
  BOOST_CHECK_EXCEPTION(max(x * 2), error, refused);
  BOOST_CHECK_EXCEPTION(mean(square(x)), error, refused);
  BOOST_CHECK_EXCEPTION(eval(exp(x)), error, refused);
  BOOST_CHECK_EXCEPTION(size(x), error, refused);
  tensor<float, dims<3>> row{1, 2, 3};
  const auto row_taken = std::move(row);
  BOOST_CHECK_EXCEPTION(argmax<0>(row), error,
                        says(error_code::invalid_argument, "argmax: the extents [0] do not fit the declared [3]"));
  BOOST_CHECK_EQUAL(number(sum(taken)), 21);
  tensor<float, dims<dyn<"n">>> any_length{shape(3), {1, 2, 3}};  // 0 is one of its lengths
  const auto all_taken = std::move(any_length);
  BOOST_CHECK_EQUAL(number(sum(any_length)), 0);
  BOOST_CHECK_EQUAL(number(sum(all_taken)), 6);
  BOOST_CHECK_EQUAL(number(sum(tensor<float, dims<2, 0>>())), 0);
}
