// SPDX-License-Identifier: BSL-1.0
#define WEFT_CHECKED 1
#include <array>
#include <boost/test/unit_test.hpp>
#include <concepts>
#include <iterator>
#include <span>
#include <type_traits>
#include <vector>
#include <weft/weft.hpp>

#if __has_include(<eigen3/Eigen/Core>)
  #define TEST_EIGEN 1
  #include <eigen3/Eigen/Core>
#endif

#include "errors.hpp"
#include "list.hpp"

using namespace weft;
using test::floats;
using test::list;
using test::says;

namespace {

using matrix = tensor<float, dims<2, 3>>;
using vec = tensor<float, dims<3>>;
template <class Dims>
using view = tensor_view<float, Dims>;
template <class Dims>
using const_view = tensor_view<const float, Dims>;

static_assert(Expression<view<dims<3>>> && Expression<const_view<dims<3>>>);
static_assert(std::ranges::contiguous_range<view<dims<3>>> && std::ranges::borrowed_range<view<dims<3>>>);
static_assert(std::same_as<std::ranges::range_reference_t<const view<dims<3>>>, float&>);  // as std::span
static_assert(std::same_as<std::ranges::range_reference_t<const_view<dims<3>>>, const float&>);
static_assert(std::convertible_to<view<dims<3>>, const_view<dims<3>>>);
static_assert(!std::convertible_to<const_view<dims<3>>, view<dims<3>>>);
static_assert(!std::convertible_to<const_view<dims<3>>, const_view<dims<4>>>);
static_assert(std::convertible_to<vec&, view<dims<3>>> && std::convertible_to<const vec&, const_view<dims<3>>>);

template <class T, class D>
std::vector<T> elements(const tensor_view<T, D>& v) {
  return std::vector<T>(v.begin(), v.end());
}

}  // namespace

BOOST_AUTO_TEST_CASE(views_are_operands) {
  float memory[6] = {1, 2, 3, 4, 5, 6};
  const view<dims<2, 3>> v(memory);
  const vec row{10, 20, 30};
  BOOST_CHECK(list(v * 2.f + row) == (floats{12, 24, 36, 18, 30, 42}));
  BOOST_CHECK(list(v[1] - row) == (floats{-6, -15, -24}));
  BOOST_CHECK(list(exp(v * 0.f) + v) == (floats{2, 3, 4, 5, 6, 7}));
  static_assert(std::same_as<decltype(eval(v)), matrix>);
  const auto copy = eval(v);
  memory[0] = 100;
  BOOST_CHECK_EQUAL(copy(0, 0), 1);
  matrix t = v;
  BOOST_CHECK_EQUAL(t(0, 0), 100);
  t = v[0] + v;
  BOOST_CHECK_EQUAL(t(1, 0), 104);
  t = v;
  BOOST_CHECK(list(t) == (floats{100, 2, 3, 4, 5, 6}));
  tensor deduced = v[1];
  static_assert(std::same_as<decltype(deduced), vec>);
  BOOST_CHECK(list(sum<0>(v)) == (floats{104, 7, 9}));
  BOOST_CHECK(list(matmul(v, transpose(v))) == list(matmul(t, transpose(t))));
  BOOST_CHECK(list(reshape<dims<3, 2>>(v)) == list(t));
  BOOST_CHECK(list(argmax<1>(v)) == (std::vector<std::int32_t>{0, 2}));
  BOOST_CHECK(list(select(v > 4.f, v, -v)) == (floats{100, -2, -3, -4, 5, 6}));
  BOOST_CHECK(list(cast<int>(v)) == (std::vector<int>{100, 2, 3, 4, 5, 6}));
  BOOST_CHECK(list(max(v, 4.f)) == (floats{100, 4, 4, 4, 5, 6}));
  BOOST_CHECK(bool(v == t));
  float one[1] = {3};
  const view<dims<>> scalar(one);
  const float number = scalar;
  BOOST_CHECK_EQUAL(number, 3);
  BOOST_CHECK(list(v[0] * scalar) == (floats{300, 6, 9}));
}

BOOST_AUTO_TEST_CASE(extents_of_another_integer_type) {
  using other = dims<std::size_t{2}, 3>;
  tensor<float, other> a{{1, 2, 3}, {4, 5, 6}};
  a += 1;
  a[1] = a[0];
  BOOST_CHECK(list(a + 0.f) == (floats{2, 3, 4, 2, 3, 4}));
  const view<other> v(a);
  v = v * 2.f;
  v[0] -= v[1];
  BOOST_CHECK(list(v + 0.f) == (floats{0, 0, 0, 4, 6, 8}));
  const const_view<other> reads = v;
  BOOST_CHECK(bool(reads == a));
  matrix t = v;
  t = reads;
  BOOST_CHECK(list(t) == (floats{0, 0, 0, 4, 6, 8}));
  BOOST_CHECK(bool(ones<float, other>() == fill<float, dims<2, 3>>(1)));
}

BOOST_AUTO_TEST_CASE(views_with_dynamic_extents) {
  using rows = dims<dyn<"n">, 2>;
  const float memory[6] = {1, 2, 3, 4, 5, 6};
  const const_view<rows> three(memory, shape(3, 2)), two(memory, shape(2, 2));
  BOOST_CHECK(list(three + three) == (floats{2, 4, 6, 8, 10, 12}));
  BOOST_CHECK_EXCEPTION(eval(three + two), error, says(error_code::invalid_argument, "the extent n is 3"));
  BOOST_CHECK_THROW((tensor<float, dims<2, 2>>(three)), error);
  const const_view<rows> open = const_view<dims<2, 2>>(memory);
  BOOST_CHECK_EQUAL(open.extent(0), 2);
  BOOST_CHECK_THROW((const_view<dims<3, 2>>(two)), error);
  tensor<float, rows> t = two;
  t = three;
  BOOST_CHECK_EQUAL(t.extent(0), 3);
  BOOST_CHECK_EQUAL(eval(const_view<rows>(nullptr, shape(0, 2)) + 1.f).elements(), 0u);
}

BOOST_AUTO_TEST_CASE(writing_through_views) {
  float memory[6] = {1, 2, 3, 4, 5, 6};
  const view<dims<2, 3>> v(memory);
  v[0] = vec{7, 8, 9};
  v[1] = v[0] * 2.f;
  BOOST_CHECK(floats(memory, memory + 6) == (floats{7, 8, 9, 14, 16, 18}));
  v = v - v[0];
  BOOST_CHECK(floats(memory, memory + 6) == (floats{0, 0, 0, 7, 8, 9}));
  v = sum<0, keep_dims>(v) + v;
  BOOST_CHECK(floats(memory, memory + 6) == (floats{7, 8, 9, 14, 16, 18}));
  v.fill(1);
  v += v;
  BOOST_CHECK(floats(memory, memory + 6) == floats(6, 2));
  const_view<dims<3>> reads = v[0];
  memory[3] = 5;
  reads = const_view<dims<3>>(v[1]);  // looks elsewhere
  BOOST_CHECK_EQUAL(reads(0), 5);
  BOOST_CHECK_EQUAL(memory[0], 2);
  matrix t{1, 2, 3, 4, 5, 6};
  view<dims<2, 3>> of_tensor = t;
  of_tensor = v;
  BOOST_CHECK(list(t) == (floats{2, 2, 2, 5, 2, 2}));
}

BOOST_AUTO_TEST_CASE(assigned_views) {
  float memory[6] = {1, 2, 3, 4, 5, 6};
  view<dims<2, 3>> v(memory);  // neither it nor what it is assigned is const
  view<dims<std::size_t{2}, 3>> other_type(memory);
  view<dims<dyn<"n">, 3>> open(memory, shape(2, 3));
  matrix t{1, 1, 1, 1, 1, 1};
  v = t;
  BOOST_CHECK_EQUAL(memory[5], 1);
  other_type = matrix{2, 2, 2, 2, 2, 2};
  BOOST_CHECK_EQUAL(memory[5], 2);
  open = matrix{3, 3, 3, 3, 3, 3};
  BOOST_CHECK_EQUAL(memory[5], 3);
  t[0] = vec{7, 8, 9};
  view<dims<dyn<"n">, 3>> of_tensor(t.data(), shape(2, 3));
  const auto const_open = open;
  open = v;
  const_open = view<dims<2, 3>>(t);
  of_tensor = t * 2.f;
  BOOST_CHECK(floats(memory, memory + 6) == (floats{7, 8, 9, 1, 1, 1}));
  BOOST_CHECK(list(t) == (floats{14, 16, 18, 2, 2, 2}));
  v = other_type = open = t;
  BOOST_CHECK(floats(memory, memory + 6) == list(t));

  // What reads only looks at what converts to it.
  const_view<dims<dyn<"n">, 3>> reads(memory, shape(2, 3));
  reads = view<dims<2, 3>>(t);
  BOOST_CHECK_EQUAL(reads.data(), std::as_const(t).data());
  const_view<dims<std::size_t{2}, 3>> fixed = v;
  fixed = t;
  BOOST_CHECK_EQUAL(fixed.data(), std::as_const(t).data());
  fixed = other_type;
  BOOST_CHECK_EQUAL(fixed.data(), memory);
}

BOOST_AUTO_TEST_CASE(views_of_containers) {
  floats values{1, 2, 3, 4, 5, 6};
  const view<dims<2, 3>> v(values);
  v(1, 2) = 9;
  BOOST_CHECK_EQUAL(values[5], 9);
  const std::span<float> span(values);
  BOOST_CHECK(list(view<dims<3, 2>>(span) + 0.f) == (floats{1, 2, 3, 4, 5, 9}));
  BOOST_CHECK_EQUAL((view<dims<dyn<"n">>>(span.subspan(2))).extent(0), 4);
  BOOST_CHECK_EQUAL((view<dims<dyn<"n">, 2>>(span, shape(3, 2))).extent(0), 3);
  std::array<float, 3> array{1, 2, 3};
  BOOST_CHECK_EQUAL((const_view<dims<3>>(array))(2), 3);
  const std::span<const float> back = const_view<dims<2, 3>>(values);
  BOOST_CHECK_EQUAL(back.data(), values.data());
  BOOST_CHECK_EXCEPTION((view<dims<2, 2>>(values)), error,
                        says(error_code::invalid_argument, "6 values given for extents [2, 2]"));
  BOOST_CHECK_EXCEPTION((view<dims<dyn<"n">, 2>>(values, shape(2, 2))), error,
                        says(error_code::invalid_argument, "6 values"));
}

BOOST_AUTO_TEST_CASE(views_in_a_graph) {
  graph g;
  floats memory{1, 2, 3};
  const const_view<dims<3>> v(memory);
  const auto x = placeholder<float, dims<3>>(g, "x");
  const auto y = let(x * v + 1.f);  // the elements of this moment
  memory[0] = 100;
  session s(g);
  BOOST_CHECK(list(s.eval(y, with(x, vec{1, 1, 1}))) == (floats{2, 3, 4}));
  BOOST_CHECK(list(s.eval(y, with(x, v))) == (floats{101, 5, 10}));
  const auto w = variable<float, dims<3>>(g, "w");
  s.set(w, v);
  BOOST_CHECK(list(s.get(w)) == (floats{100, 2, 3}));
}

#if TEST_EIGEN

BOOST_AUTO_TEST_CASE(views_of_eigen) {
  using row_major = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  row_major m(2, 3);
  m << 1, 2, 3, 4, 5, 6;
  const view<dims<2, 3>> v(m);
  BOOST_CHECK(list(v * 1.f) == (floats{1, 2, 3, 4, 5, 6}));
  v[1] = v[0] * 10.f;
  BOOST_CHECK_EQUAL(m(1, 2), 30);
  BOOST_CHECK_EQUAL((view<dims<dyn<"n">, 3>>(m)).extent(0), 2);
  BOOST_CHECK_THROW((view<dims<3, 2>>(m)), error);
  float memory[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  Eigen::Map<row_major> map(memory, 3, 4);
  BOOST_CHECK_EQUAL((view<dims<3, 4>>(map)).data(), memory);
  Eigen::Map<const row_major> fixed(memory, 3, 4);
  BOOST_CHECK_EQUAL((const_view<dims<3, 4>>(fixed))(2, 3), 11);
  auto block = map.leftCols(2);
  BOOST_CHECK_EXCEPTION((view<dims<3, 2>>(block)), error,
                        says(error_code::invalid_argument, "its rows 4: copy it first"));
  auto top = map.topRows(2);
  BOOST_CHECK_EQUAL((view<dims<2, 4>>(top))(1, 3), 7);
  Eigen::VectorXf vector(3);
  vector << 1, 2, 3;
  BOOST_CHECK((elements(view<dims<3>>(vector)) == floats{1, 2, 3}));
  BOOST_CHECK((elements(view<dims<3, 1>>(vector)) == floats{1, 2, 3}));
  Eigen::Map<Eigen::VectorXf, 0, Eigen::InnerStride<2>> strided(memory, 3);
  BOOST_CHECK_THROW((view<dims<3>>(strided)), error);
  BOOST_CHECK_THROW((view<dims<3, 1>>(strided)), error);
  static_assert(correct<detail::view_mistake<row_major&, float, dims<2, 3>>>);
  static_assert(!correct<detail::view_mistake<Eigen::MatrixXf&, float, dims<2, 3>>>);  // column-major
  static_assert(!correct<detail::view_mistake<Eigen::MatrixXf&, float, dims<6>>>);
  const view<dims<2, 3>> whole(m);
  Eigen::Map<row_major>(whole.data(), 2, 3) *= 2;  // and back
  BOOST_CHECK_EQUAL(whole(0, 0), 2);
  const matrix owned = whole;
  BOOST_CHECK_EQUAL(owned(0, 2), 6);
}

#endif
