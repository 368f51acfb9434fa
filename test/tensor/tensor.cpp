// SPDX-License-Identifier: BSL-1.0
#define WEFT_CHECKED 1
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <optional>
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

}  // namespace

BOOST_AUTO_TEST_CASE(tensors_are_values) {
  vec a{1, 2, 3, 4};
  const vec b = a;
  BOOST_CHECK_EQUAL(static_cast<const vec&>(a).data(), b.data());  // shared
  a(0) = 9;
  BOOST_CHECK_NE(static_cast<const vec&>(a).data(), b.data());  // until written
  BOOST_CHECK_EQUAL(b(0), 1);
  BOOST_CHECK_EQUAL(a(0), 9);
  const float* mine = static_cast<const vec&>(a).data();
  a(1) = 8;
  BOOST_CHECK_EQUAL(static_cast<const vec&>(a).data(), mine);  // a sole owner copies nothing
  vec c = std::move(a);
  BOOST_CHECK_EQUAL(static_cast<const vec&>(c).data(), mine);
  BOOST_CHECK(a.empty());
  a = c + 0;
  BOOST_CHECK(list(a) == (floats{9, 8, 3, 4}));
  c = *&c;
  BOOST_CHECK_EQUAL(c(0), 9);
}

BOOST_AUTO_TEST_CASE(construction) {
  BOOST_CHECK(list(vec()) == floats(4));
  BOOST_CHECK_EQUAL((tensor<int, dims<2, 3>>{1, 2, 3, 4, 5, 6})(1, 2), 6);
  BOOST_CHECK_EQUAL((tensor<int, dims<dyn<"n">>>()).elements(), 0u);
  BOOST_CHECK_EQUAL((tensor<int, dims<dyn<"n">, 2>>(shape(2, 2), {1, 2, 3, 4}))(1, 0), 3);
  BOOST_CHECK_THROW((vec{1, 2, 3}), error);
  BOOST_CHECK_THROW((tensor<int, dims<dyn<"n">>>(shape(2), {1, 2, 3})), error);
  const tensor<double> scalar = 2.5;
  BOOST_CHECK_EQUAL(static_cast<double>(scalar), 2.5);
  BOOST_CHECK_EQUAL(reinterpret_cast<std::uintptr_t>(vec().begin()) % 64, 0u);
}

BOOST_AUTO_TEST_CASE(more_elements_than_memory_holds) {
  using matrix = tensor<float, dims<dyn<"a">, dyn<"b">>>;
  const std::int64_t side = std::int64_t{1} << 32;
  const auto too_many = says(error_code::resource_exhausted, "[4294967296, 4294967296] exceed the size of any memory");
  BOOST_CHECK_EXCEPTION(matrix(shape(side, side)), error, too_many);  // 2^64 elements: as many as none
  BOOST_CHECK_EXCEPTION((matrix(shape(side, side), uninitialized{})), error, too_many);
  BOOST_CHECK_EXCEPTION((tensor<float, dims<side, side>>()), error, too_many);
  BOOST_CHECK_EXCEPTION((tensor_view<float, dims<dyn<"a">, dyn<"b">>>(nullptr, shape(side, side))), error, too_many);
  BOOST_CHECK_EXCEPTION(matrix(shape(side / 4, side)), error, says(error_code::resource_exhausted));  // too many bytes
  BOOST_CHECK_EQUAL(matrix(shape(side, 0)).elements(), 0u);
  BOOST_CHECK_EQUAL((tensor<float, dims<side, side, 0>>()).elements(), 0u);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which end the program
  BOOST_CHECK_EXCEPTION(matrix(shape(side, 1 << 18)), error,
                        says(error_code::resource_exhausted, "cannot allocate the extents [4294967296, 262144]"));
  BOOST_CHECK_EXCEPTION(sequence<double>(std::size_t{1} << 50), error, says(error_code::resource_exhausted));
#endif
}

BOOST_AUTO_TEST_CASE(views_look_at_memory_of_others) {
  float memory[6] = {1, 2, 3, 4, 5, 6};
  const tensor_view<float, dims<2, 3>> view(memory);
  *view.begin() = 7;
  BOOST_CHECK_EQUAL(memory[0], 7);
  vec a{1, 2, 3, 4};
  const vec b = a;
  *tensor_view<float, dims<4>>(a).begin() = 5;  // writing through a view leaves others alone
  BOOST_CHECK_EQUAL(b(0), 1);
  BOOST_CHECK_EQUAL(a(0), 5);
  BOOST_CHECK_THROW((tensor_view<float, dims<dyn<"n">, 3>>(memory, shape(2, 2))), error);
  view(1, 2) = 8;
  BOOST_CHECK_EQUAL(memory[5], 8);
  tensor owner(view);
  static_assert(std::is_same_v<decltype(owner), tensor<float, dims<2, 3>>>);
  owner(0, 1) = 9;
  BOOST_CHECK(list(owner) == (floats{7, 9, 3, 4, 5, 8}));
  BOOST_CHECK_EQUAL(view(0, 1), 2);  // is another's
  const float fixed[3] = {1, 2, 3};
  using some = dims<dyn<"n">>;
  BOOST_CHECK(list(tensor(tensor_view<const float, some>(fixed, shape(3)))) == (floats{1, 2, 3}));
  BOOST_CHECK_EQUAL(tensor(tensor_view<float, some>(nullptr, shape(0))).elements(), 0u);
  BOOST_CHECK_EXCEPTION((tensor<float, dims<2>>(tensor_view<const float, some>(fixed, shape(3)))), error,
                        says(error_code::invalid_argument, "[3] do not fit the declared [2]"));
}

BOOST_AUTO_TEST_CASE(an_expression_means_the_values_at_its_writing) {
  vec a{1, 2, 3, 4};
  const auto twice = a + a;
  const auto more = twice * 2.0f;
  a(0) = 100;
  a = vec{0, 0, 0, 0};
  BOOST_CHECK(list(twice) == (floats{2, 4, 6, 8}));
  BOOST_CHECK(list(more) == (floats{4, 8, 12, 16}));
}

BOOST_AUTO_TEST_CASE(a_tensor_in_its_own_right_hand_side) {
  vec a{1, 2, 3, 4};
  a = a * a + a;
  BOOST_CHECK(list(a) == (floats{2, 6, 12, 20}));
  const auto old = a + 0.0f;
  a = a - 1.0f;
  BOOST_CHECK(list(old) == (floats{2, 6, 12, 20}));
  BOOST_CHECK(list(a) == (floats{1, 5, 11, 19}));
  tensor<float, dims<2, 2>> m{1, 2, 3, 4};
  m = m - max<1>(m);  // the maxima were taken before
  BOOST_CHECK(list(m) == (floats{-1, -2, 1, 0}));
}

// Run under AddressSanitizer too.
BOOST_AUTO_TEST_CASE(expressions_outlive_their_operands) {
  const auto make = [] {
    const vec a{1, 2, 3, 4};
    const vec b{10, 20, 30, 40};
    const auto sum = a + b;
    const float two = 2;
    return exp(sum * 0.0f) * (sum + two) - vec{1, 1, 1, 1};
  };
  const auto e = make();
  BOOST_CHECK(list(e) == (floats{12, 23, 34, 45}));
  std::optional<vec> gone(vec{1, 2, 3, 4});
  const auto kept = *gone * *gone;
  gone.reset();
  BOOST_CHECK(list(kept) == (floats{1, 4, 9, 16}));
  const auto reduced = [] { return sum(vec{1, 2, 3, 4} * 2.0f) + vec{1, 2, 3, 4}; }();
  BOOST_CHECK(list(reduced) == (floats{21, 22, 23, 24}));
}

// Forty times through auto: neither the types nor the work may double.
BOOST_AUTO_TEST_CASE(forty_squares) {
  const auto squared = [](auto x) { return x * x; };
  const auto five = [&](auto x) { return squared(squared(squared(squared(squared(x))))); };
  const auto x0 = tensor<double, dims<3>>{1, -1, std::exp2(std::exp2(-40))};
  const auto x40 = five(five(five(five(five(five(five(five(x0))))))));
  static_assert(decltype(x40)::operations <= max_operations && sizeof(x40) < 4096);
  const auto y = eval(x40);
  BOOST_CHECK_EQUAL(y(0), 1);
  BOOST_CHECK_EQUAL(y(1), 1);
  BOOST_CHECK_CLOSE(y(2), std::pow(x0(2), std::exp2(40)), 0.01);
}

BOOST_AUTO_TEST_CASE(two_long_expressions_meet) {
  const tensor<double, dims<2>> x{2, 3};
  const auto a = x + x * x - x / x + x * 2.0 - x - x + x * x - x + x;  // as long as an expression gets
  const auto b = a * a + a - x * a;
  const auto c = select(b > a, b * a, a) + select(a > x, a, b);
  for (int i = 0; i < 2; ++i) {
    const double v = x(i), av = v + v * v - 1 + v * 2 - v - v + v * v - v + v, bv = av * av + av - v * av;
    const double cv = (bv > av ? bv * av : av) + (av > v ? av : bv);
    BOOST_CHECK_CLOSE(eval(c)(i), cv, 1e-12);
  }
}

BOOST_AUTO_TEST_CASE(indices_are_checked) {
  using matrix = tensor<float, dims<2, 3>>;
  matrix a{0, 1, 2, 3, 4, 5};
  const matrix& b = a;
  const auto refuses = [](auto access, const std::string& words) {
    BOOST_CHECK_EXCEPTION(static_cast<void>(access()), error, says(error_code::out_of_range, words));
  };
  refuses([&] { return a(50, 7) = 1; }, "(50, 7) is outside of [2, 3], whose axis 0 has extent 2");
  refuses([&] { return b(1, 3); }, "(1, 3) is outside of [2, 3], whose axis 1 has extent 3");
  refuses([&] { return b(-1, 0); }, "(-1, 0)");
  refuses([&] { return b(~std::size_t{0}, 0); }, "(-1, 0)");
  refuses([&] { return tensor_view<const float, dims<2, 3>>(b)(2, 0); }, "(2, 0)");
  refuses([&] { return tensor_view<float, dims<2, 3>>(a)(0, 3) = 1; }, "(0, 3)");
  const tensor<float, dims<dyn<"n">>> open(shape(3)), none(shape(0));
  refuses([&] { return open(3); }, "(3) is outside of [3]");
  refuses([&] { return none(0); }, "(0) is outside of [0]");
  BOOST_CHECK_EQUAL(b(1u, std::int8_t{2}), 5);
  BOOST_CHECK_EQUAL(b(std::integral_constant<int, 1>(), std::integral_constant<std::size_t, 0>()), 3);
  BOOST_CHECK_EQUAL(tensor<float>(8)(), 8);
  for (int i = 0; i < 6; ++i) BOOST_CHECK_EQUAL(b.data()[i], i);
}
