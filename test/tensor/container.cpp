// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <concepts>
#include <iterator>
#include <limits>
#include <list>
#include <numeric>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>
#include <weft/weft.hpp>

#include "errors.hpp"
#include "list.hpp"

using namespace weft;
using test::floats;
using test::list;
using test::says;

namespace {

using matrix = tensor<float, dims<2, 3>>;
using vec = tensor<float, dims<3>>;
using ints = std::vector<int>;
using open_rows = tensor<float, dims<dyn<"n">, 2>>;

static_assert(std::ranges::contiguous_range<matrix> && std::ranges::contiguous_range<const matrix>);
static_assert(std::ranges::sized_range<matrix> && std::ranges::common_range<matrix>);
static_assert(std::same_as<std::ranges::range_reference_t<matrix>, float&>);
static_assert(std::same_as<std::ranges::range_reference_t<const matrix>, const float&>);
static_assert(std::equality_comparable<matrix>);
static_assert(std::same_as<matrix::value_type, float> && std::same_as<matrix::iterator, float*>);
static_assert(std::same_as<matrix::const_iterator, const float*> && std::same_as<matrix::size_type, std::size_t>);
static_assert(std::convertible_to<matrix&, std::span<float>> &&
              std::convertible_to<const matrix&, std::span<const float>>);
static_assert(!std::convertible_to<const matrix&, std::span<float>>);
static_assert(!std::convertible_to<floats, vec>);  // from a range by name alone

// Elements whose type says what the row of a value may be used for.
static_assert(std::same_as<decltype(std::declval<matrix&>()[0]), const tensor_view<float, dims<3>>>);
static_assert(std::same_as<decltype(std::declval<const matrix&>()[0]), tensor_view<const float, dims<3>>>);
static_assert(std::same_as<decltype(std::declval<matrix>()[0]), vec>);  // of a temporary: its own
static_assert(std::same_as<decltype(std::declval<vec&>()[0]), float&>);
static_assert(std::same_as<decltype(std::declval<const vec&>()[0]), const float&>);
static_assert(std::same_as<decltype(std::declval<vec>()[0]), float>);

}  // namespace

BOOST_AUTO_TEST_CASE(algorithms_of_the_standard_library) {
  matrix t{3, 1, 2, 6, 5, 4};
  const matrix before = t;
  std::sort(t.begin(), t.end());
  BOOST_CHECK(list(t) == (floats{1, 2, 3, 4, 5, 6}));
  BOOST_CHECK(list(before) == (floats{3, 1, 2, 6, 5, 4}));  // shared until the sort wrote
  std::ranges::reverse(t);
  BOOST_CHECK(list(t) == (floats{6, 5, 4, 3, 2, 1}));
  for (float& v : t) v *= 2;
  BOOST_CHECK_EQUAL(std::accumulate(t.cbegin(), t.cend(), 0.f), 42);
  BOOST_CHECK_EQUAL(*std::ranges::max_element(t), 12);
  BOOST_CHECK_EQUAL(t.size(), 6u);
  BOOST_CHECK(!t.empty() && open_rows().empty());
  t.fill(7);
  BOOST_CHECK(list(t) == floats(6, 7));
  vec v{1, 2, 3};
  v.fill(v(1));
  BOOST_CHECK(list(v) == (floats{2, 2, 2}));
  const matrix copy = t;
  t.fill(0);
  BOOST_CHECK(list(copy) == floats(6, 7));
  BOOST_CHECK(list(std::as_const(copy)) == floats(copy.begin(), copy.end()));
  open_rows none(shape(0, 2));
  for (float& e : none) e = 1;
  std::ranges::sort(none);
}

BOOST_AUTO_TEST_CASE(spans) {
  matrix t{1, 2, 3, 4, 5, 6};
  const matrix other = t;
  const std::span<float> s = t;
  s[5] = 9;
  BOOST_CHECK_EQUAL(t(1, 2), 9);
  BOOST_CHECK_EQUAL(other(1, 2), 6);
  const std::span<const float> read = other;
  BOOST_CHECK_EQUAL(read.data(), other.data());
  BOOST_CHECK_EQUAL(read.size(), 6u);
  BOOST_CHECK((tensor<float, dims<3, 2>>(s) == tensor<float, dims<3, 2>>{1, 2, 3, 4, 5, 9}));
  const std::span<float> row = t[1];
  row[0] = 0;
  BOOST_CHECK_EQUAL(t(1, 0), 0);
}

BOOST_AUTO_TEST_CASE(rows) {
  matrix a{1, 2, 3, 4, 5, 6};
  const matrix b{10, 20, 30, 40, 50, 60}, shared = a;
  a[0][2] = 7;
  a[1] = b[0];
  BOOST_CHECK(list(a) == (floats{1, 2, 7, 10, 20, 30}));
  BOOST_CHECK(list(shared) == (floats{1, 2, 3, 4, 5, 6}));
  a[0] = a[1];
  BOOST_CHECK(list(a) == (floats{10, 20, 30, 10, 20, 30}));
  a[0] = vec{1, 2, 3};
  a[1] = a[0] * 2.f + b[1];
  BOOST_CHECK(list(a) == (floats{1, 2, 3, 42, 54, 66}));
  auto row = a[1];
  row = a[0];  // writes the elements
  BOOST_CHECK(list(a) == (floats{1, 2, 3, 1, 2, 3}));
  a[1].fill(5);
  BOOST_CHECK_EQUAL(a(1, 1), 5);
  BOOST_CHECK_EQUAL(std::accumulate(a[1].begin(), a[1].end(), 0.f), 15);
  std::ranges::copy(a[0], a[1].begin());
  BOOST_CHECK(bool(a[0] == a[1]));

  tensor<int, dims<2, 2, 2>> deep{1, 2, 3, 4, 5, 6, 7, 8};
  deep[1][0][1] = 60;
  deep[0] = deep[1];
  BOOST_CHECK(list(deep) == (ints{5, 60, 7, 8, 5, 60, 7, 8}));
  vec v{1, 2, 3};
  v[1] = 9;
  BOOST_CHECK_EQUAL(v(1), 9);
  BOOST_CHECK_EQUAL((matrix{1, 2, 3, 4, 5, 6})[1][2], 6);
  const vec kept = matrix{1, 2, 3, 4, 5, 6}[1];
  BOOST_CHECK(list(kept) == (floats{4, 5, 6}));

  open_rows open(shape(3, 2), {1, 2, 3, 4, 5, 6});
  open[2] = open[0];
  BOOST_CHECK(list(open) == (floats{1, 2, 3, 4, 1, 2}));
  tensor<float, dims<2, dyn<"m">>> wide(shape(2, 2), {1, 2, 3, 4}), narrow(shape(2, 1));
  BOOST_CHECK_EXCEPTION(
      wide[0] = narrow[0], error,
      says(error_code::invalid_argument, "the value has the extents [1], but the elements to write have [2]"));
}

#if WEFT_CHECKED
BOOST_AUTO_TEST_CASE(rows_are_checked) {
  matrix a;
  const matrix shared = a;
  const float* before = std::as_const(a).data();
  const auto refuses = [](auto access, const std::string& words) {
    BOOST_CHECK_EXCEPTION(access(), error, says(error_code::out_of_range, words));
  };
  refuses([&] { a[2][0] = 1; }, "(2) is outside of [2]");
  refuses([&] { a[-1][0] = 1; }, "(-1)");
  BOOST_CHECK_EQUAL(std::as_const(a).data(), before);
  refuses([&] { a[1][3] = 1; }, "(3) is outside of [3]");
  refuses([&] { static_cast<void>(shared[7]); }, "(7) is outside of [2]");
  refuses([&] { static_cast<void>(open_rows()[0]); }, "(0) is outside of [0]");
}
#endif

BOOST_AUTO_TEST_CASE(arithmetic_in_place) {
  matrix a{1, 2, 3, 4, 5, 6};
  const matrix before = a;
  const float* own = a.data();
  a += 1;
  a -= vec{1, 2, 3};
  a *= a;
  a /= 2.f;
  BOOST_CHECK(list(a) == (floats{0.5f, 0.5f, 0.5f, 8, 8, 8}));
  BOOST_CHECK_EQUAL(std::as_const(a).data(), own);  // where it was
  BOOST_CHECK(list(before) == (floats{1, 2, 3, 4, 5, 6}));
  a = before;
  a += a;
  BOOST_CHECK(list(a) == (floats{2, 4, 6, 8, 10, 12}));
  a += a * a - a;
  BOOST_CHECK(list(a) == (floats{4, 16, 36, 64, 100, 144}));
  a = before;
  a -= a[1];  // the row is read before it is written
  BOOST_CHECK(list(a) == (floats{-3, -3, -3, 0, 0, 0}));
  a = before;
  a[1] -= a[0];
  BOOST_CHECK(list(a) == (floats{1, 2, 3, 3, 3, 3}));
  a[0] += a[1] * 2.f;
  BOOST_CHECK(list(a) == (floats{7, 8, 9, 3, 3, 3}));
  a += tensor<float, dims<2, 1>>{100, 200};
  BOOST_CHECK(list(a) == (floats{107, 108, 109, 203, 203, 203}));
  (a += 1) *= 2;
  BOOST_CHECK_EQUAL(a(0, 0), 216);
  a[0][1] += 1;
  BOOST_CHECK_EQUAL(a(0, 1), 219);
  tensor<int, dims<3>> n{7, 8, 9};
  n /= 2;
  n -= n[0];
  BOOST_CHECK(list(n) == (ints{0, 1, 1}));
  tensor<double> scalar = 2;
  scalar *= 3;
  BOOST_CHECK_EQUAL(static_cast<double>(scalar), 6);
  a = before;
  BOOST_CHECK(list(a *= exp(a * 0.f)) == list(before));
}

// Elements beside those that are written, before and behind, are read as they were: also where a loop runs over many.
BOOST_AUTO_TEST_CASE(overlapping_elements) {
  constexpr int n = 5000;
  std::vector<float> memory(n + 1), expected(n + 1);
  for (const int shift : {0, 1}) {
    std::iota(memory.begin(), memory.end(), 0.f);
    const tensor_view<float, dims<n>> to(memory.data() + shift), from(memory.data() + 1 - shift);
    to += from;
    std::iota(expected.begin(), expected.end(), 0.f);
    for (int i = 0; i < n; ++i) expected[i + shift] = static_cast<float>(2 * i + 1);
    BOOST_CHECK(memory == expected);
  }
  std::iota(memory.begin(), memory.end(), 0.f);
  const tensor_view<float, dims<n>> head(memory.data()), tail(memory.data() + 1);
  tail = head;
  BOOST_CHECK_EQUAL(memory[n], n - 1);
  tensor<float, dims<3000, 3>> rows;
  std::iota(rows.begin(), rows.end(), 0.f);
  rows[0].fill(1);
  rows -= rows[0];
  for (int i = 1; i < 3000; ++i) BOOST_REQUIRE_EQUAL(rows(i, 2), static_cast<float>(3 * i + 1));
  tensor<float, dims<dyn<"k">>> t(shape(4), {1, 2, 3, 4});
  const tensor_view<const float, dims<2>> middle(t.data() + 1);
  t = middle;  // other extents
  BOOST_CHECK(list(t) == (floats{2, 3}));
  const tensor_view<const float, dims<1>> last(t.data() + 1);
  t = last * 2.f;
  BOOST_CHECK(list(t) == (floats{6}));
}

BOOST_AUTO_TEST_CASE(extents_of_a_sum_in_place) {
  open_rows a(shape(3, 2)), b(shape(2, 2));
  BOOST_CHECK_EXCEPTION(a += b, error,
                        says(error_code::invalid_argument, "the extent n is 3 in [3, 2] and 2 in [2, 2]"));
  a += tensor<float, dims<1, 2>>{1, 2};
  BOOST_CHECK(list(a) == (floats{1, 2, 1, 2, 1, 2}));
  open_rows single(shape(1, 2));  // a broadcast would make it larger
  BOOST_CHECK_THROW(single += b, error);
  BOOST_CHECK(list(single) == floats(2));
  open_rows none(shape(0, 2));
  none += 1;
  none -= tensor<float, dims<2>>{1, 2};
}

BOOST_AUTO_TEST_CASE(equality) {
  const matrix a{1, 2, 3, 4, 5, 6};
  matrix b = a;
  const auto equal = [](const auto& x, const auto& y) -> bool { return x == y; };
  BOOST_CHECK(equal(a, b));
  if (a != b) BOOST_ERROR("equal");
  b(1, 2) = 0;
  BOOST_CHECK(!equal(a, b));
  BOOST_CHECK(bool(a != b));
  BOOST_CHECK(bool(a == a && b == b && !(a == b)));
  BOOST_CHECK(bool(a == b || a == a));
  BOOST_CHECK(list(a == b) == (std::vector<bool>{true, true, true, true, true, false}));  // and elementwise, as ever
  BOOST_CHECK(equal(a * 2.f, a + a));
  vec nan{1, std::numeric_limits<float>::quiet_NaN(), 3};
  BOOST_CHECK(!equal(nan, nan));
  BOOST_CHECK(equal(vec{0, 0, 0}, vec{0, -0.f, 0}));
  const open_rows two(shape(2, 2)), three(shape(3, 2)), none(shape(0, 2));
  BOOST_CHECK(!equal(two, three));  // other extents
  BOOST_CHECK(!equal(two, none));
  BOOST_CHECK(equal(none, none));
  // A static and a dynamic extent in one expression.
  const tensor<float, dims<2, 2>> fixed{0, 0, 0, 1};
  open_rows same(fixed);
  static_assert(std::is_same_v<decltype(same == fixed), bool>);
  BOOST_CHECK(same == fixed && a == a && fixed == same && !(same != fixed));
  BOOST_CHECK(!(three == fixed) && three != fixed && fixed + fixed != same * 2.f + 1.f);
  same(0, 1) = 2;
  BOOST_CHECK(fixed != same || a != a);
  BOOST_CHECK(equal(a[0], vec{1, 2, 3}));
  std::vector<matrix> all{a, b};
  BOOST_CHECK(std::ranges::find(all, b) == all.begin() + 1);
  BOOST_CHECK((all == std::vector<matrix>{a, b}));
}

// As std::pair and users' operator== write it, and std::tuple.
BOOST_AUTO_TEST_CASE(equality_of_several) {
  const vec v{1, 2, 3}, w{1, 2, 4};
  const matrix a{1, 2, 3, 4, 5, 6};
  const tensor<float, dims<2>> two{1, 2}, other{1, 0};
  const auto check = [](const auto& first, const auto& second, const auto& changed) {
    const std::pair equal(first, second), differs(first, changed);
    BOOST_CHECK(equal == equal);
    BOOST_CHECK(equal != differs && !(equal == differs));
    BOOST_CHECK(std::pair(equal, equal) == std::pair(equal, equal));
    BOOST_CHECK(std::tuple(first, second) != std::tuple(first, changed));
    BOOST_CHECK(bool(first != first || second == second));
    BOOST_CHECK(!bool(first == first && second == changed));
  };
  check(v, two, other);  // extents that do not broadcast
  check(two, v, w);
  check(a, v, w);  // that do
  check(v, a, eval(a * 2.f));
  check(open_rows(shape(3, 2)), a, eval(a + 1.f));
  BOOST_CHECK(bool(v == v && two == two && a == a && !(v == w)));
  BOOST_CHECK((list(a == a && v == w) == std::vector<bool>{true, true, false, true, true, false}));
}

BOOST_AUTO_TEST_CASE(copies_in_braces) {
  matrix a{1, 2, 3, 4, 5, 6};
  const matrix b{a}, of_const{b};
  BOOST_CHECK(list(b) == (floats{1, 2, 3, 4, 5, 6}));
  BOOST_CHECK_EQUAL(of_const.data(), b.data());
  tensor<float, dims<1>> one{5};
  const tensor<float, dims<1>> same{one};
  BOOST_CHECK(list(same) == floats{5});
  const vec row{a[1]}, sum{a[0] + a[1]};
  BOOST_CHECK(list(row) == (floats{4, 5, 6}) && list(sum) == (floats{5, 7, 9}));
  tensor<float, dims<dyn<"n">, 3>> open{a}, by_name(a);  // neither is const
  BOOST_CHECK_EQUAL(open.extent(0) + by_name.extent(0), 4);
  const matrix known{open};
  BOOST_CHECK(bool(known == a));
  BOOST_CHECK_EXCEPTION((tensor<float, dims<3, 3>>{tensor<float, dims<dyn<"n">, 3>>(open)}), error,
                        says(error_code::invalid_argument, "[2, 3]"));
  BOOST_CHECK_EXCEPTION((matrix{a, b}), error, says(error_code::invalid_argument, "2 tensors in braces"));
  const tensor<float> scalar = 2;
  BOOST_CHECK(list(vec{scalar, 1, scalar}) == (floats{2, 1, 2}));
  tensor<float, dims<std::size_t{2}, 3>> other_type{a};
  const matrix back{other_type};
  BOOST_CHECK(bool(back == a));
}

BOOST_AUTO_TEST_CASE(moved_tensors) {
  using row = tensor<float, dims<dyn<"n">>>;
  row a(shape(1000));
  a.fill(3);
  const float* const elements = std::as_const(a).data();
  row b = std::move(a);
  b(0) = 2;  // without a copy
  BOOST_CHECK_EQUAL(std::as_const(b).data(), elements);
  BOOST_CHECK(a.empty() && a.extents() == shape(0) && a.begin() == a.end());
  a = std::move(b);
  std::vector<row> all;
  all.push_back(std::move(a));
  all.emplace_back(shape(2));  // moves the first
  all[0](1) = 2;
  BOOST_CHECK_EQUAL(std::as_const(all[0]).data(), elements);
  row& same = all[0];
  all[0] = std::move(same);
  BOOST_CHECK_EQUAL(all[0].size(), 1000u);

  // Static extents: what is read is refused, and what is assigned is there again.
  vec c{1, 2, 3}, d = std::move(c);
  BOOST_CHECK_EXCEPTION(eval(c + 1), error, says(error_code::invalid_argument, "[0]"));
  BOOST_CHECK_EXCEPTION(eval(d * c), error, says(error_code::invalid_argument, "[0]"));
  c = d * 2;
  BOOST_CHECK(list(c) == (floats{2, 4, 6}) && list(d) == (floats{1, 2, 3}));
  std::swap(c, d);
  BOOST_CHECK(list(c) == (floats{1, 2, 3}) && list(d) == (floats{2, 4, 6}));
  tensor<float> e = 3, f = std::move(e);
  BOOST_CHECK(e() == 3 && f() == 3);
}

BOOST_AUTO_TEST_CASE(swapped_rows) {
  matrix a{1, 2, 3, 4, 5, 6};
  auto first = a[0], second = a[1];
  std::swap(first, second);
  BOOST_CHECK(list(a) == (floats{4, 5, 6, 1, 2, 3}));
  std::ranges::swap(first, second);
  BOOST_CHECK(list(a) == (floats{1, 2, 3, 4, 5, 6}));
  std::iter_swap(&first, &second);
  swap(a[1], a[0]);
  BOOST_CHECK(list(a) == (floats{1, 2, 3, 4, 5, 6}));
  const matrix b{6, 5, 4, 3, 2, 1};
  auto reads = b[0], other = b[1];
  std::swap(reads, other);  // two looks at elements
  BOOST_CHECK_EQUAL(reads.data(), b.data() + 3);
  tensor<float, dims<dyn<"n">>> two(shape(2)), three(shape(3));
  using view = tensor_view<float, dims<dyn<"n">>>;
  BOOST_CHECK_EXCEPTION(swap(view(two), view(three)), error, says(error_code::invalid_argument, "swap"));
}

BOOST_AUTO_TEST_CASE(filled_tensors) {
  static_assert(std::same_as<decltype(zeros<float, dims<2, 3>>()), matrix>);
  BOOST_CHECK(list(zeros<float, dims<2, 3>>()) == floats(6));
  BOOST_CHECK(list(ones<int, dims<2>>()) == (ints{1, 1}));
  BOOST_CHECK(list(fill<double, dims<3>>(0.5)) == std::vector<double>(3, 0.5));
  BOOST_CHECK(list(eye<int, dims<3, 3>>()) == (ints{1, 0, 0, 0, 1, 0, 0, 0, 1}));
  BOOST_CHECK(list(eye<int, dims<2, 3>>()) == (ints{1, 0, 0, 0, 1, 0}));
  BOOST_CHECK(list(eye<bool, dims<3, 1>>()) == (std::vector<bool>{true, false, false}));
  BOOST_CHECK(list(ones<float, dims<dyn<"n">, 2>>(shape(3, 2))) == floats(6, 1));
  BOOST_CHECK(list(eye<int, dims<dyn<"n">, dyn<"n">>>(shape(2, 2))) == (ints{1, 0, 0, 1}));
  BOOST_CHECK_EXCEPTION((zeros<float, dims<dyn<"n">, 2>>(shape(3, 3))), error,
                        says(error_code::invalid_argument, "[3, 3] do not fit the declared [n, 2]"));
  BOOST_CHECK_THROW((eye<int, dims<dyn<"n">, dyn<"n">>>(shape(2, 3))), error);
  BOOST_CHECK_EQUAL(static_cast<float>(ones<float>()), 1);
  graph g;
  const auto e = eye<float, dims<2, 3>>(g);
  const auto x = placeholder<float, dims<dyn<"n">, 2>>(g, "x");
  const auto open = matmul(x, eye<float, dims<2, 2>>(g)) + eye<float, dims<dyn<"n">, 2>>(g);
  session s(g);
  BOOST_CHECK(list(s.eval(e)) == (floats{1, 0, 0, 0, 1, 0}));
  BOOST_CHECK(list(s.eval(open, with(x, ones<float, dims<3, 2>>()))) == (floats{2, 1, 1, 2, 1, 1}));
}

BOOST_AUTO_TEST_CASE(rows_in_braces) {
  const matrix a{{1, 2, 3}, {4, 5, 6}};
  BOOST_CHECK(list(a) == (floats{1, 2, 3, 4, 5, 6}));
  const tensor<float, dims<1, 3>> row{{1, 2, 3}};
  BOOST_CHECK(list(row) == (floats{1, 2, 3}));
  const tensor<int, dims<3, 1>> column{{1}, {2}, {3}};
  BOOST_CHECK(list(column) == (ints{1, 2, 3}));
  const tensor<int, dims<2, 1, 2>> deep{{{1, 2}}, {{3, 4}}};
  BOOST_CHECK(list(deep) == (ints{1, 2, 3, 4}));
  const tensor<int, dims<2, 2, 1, 2>> deeper{{{{1, 2}}, {{3, 4}}}, {{{5, 6}}, {{7, 8}}}};
  BOOST_CHECK(list(deeper) == (ints{1, 2, 3, 4, 5, 6, 7, 8}));
  const open_rows open{{1, 2}, {3, 4}, {5, 6}};
  BOOST_CHECK_EQUAL(open.extent(0), 3);
  BOOST_CHECK(list(open) == (floats{1, 2, 3, 4, 5, 6}));
  using square = tensor<float, dims<dyn<"n">, dyn<"n">>>;
  BOOST_CHECK_EQUAL((square{{1, 2}, {3, 4}}).extent(1), 2);
  BOOST_CHECK_EXCEPTION((square{{1, 2, 3}, {4, 5, 6}}), error,
                        says(error_code::invalid_argument, "[2, 3] do not fit the declared [n, n]"));
  const tensor<bool, dims<2, 2>> bools{{true, false}, {false, true}};
  BOOST_CHECK(bools(1, 1) && !bools(1, 0));
}

BOOST_AUTO_TEST_CASE(ranges_of_values) {
  using wide = tensor<float, dims<2, 3>>;
  BOOST_CHECK(list(wide(floats{1, 2, 3, 4, 5, 6})) == (floats{1, 2, 3, 4, 5, 6}));
  BOOST_CHECK(list(wide(std::list<int>{1, 2, 3, 4, 5, 6})) == (floats{1, 2, 3, 4, 5, 6}));
  BOOST_CHECK(list(wide(std::set<double>{6, 5, 4, 3, 2, 1})) == (floats{1, 2, 3, 4, 5, 6}));
  BOOST_CHECK(list(vec(std::array{1.f, 2.f, 3.f})) == (floats{1, 2, 3}));
  const float array[3] = {1, 2, 3};
  BOOST_CHECK(list(vec(array)) == (floats{1, 2, 3}));
  const float rows[2][3] = {{1, 2, 3}, {4, 5, 6}};
  BOOST_CHECK(list(wide(rows)) == (floats{1, 2, 3, 4, 5, 6}));
  BOOST_CHECK(list(tensor<bool, dims<3>>(std::vector<bool>{true, false, true})) ==
              (std::vector<bool>{true, false, true}));
  BOOST_CHECK_EQUAL((tensor<float, dims<dyn<"n">>>(floats{1, 2})).extent(0), 2);
  BOOST_CHECK(list(open_rows(shape(2, 2), floats{1, 2, 3, 4})) == (floats{1, 2, 3, 4}));
  BOOST_CHECK_EXCEPTION((wide(floats(5))), error,
                        says(error_code::invalid_argument, "5 values given for extents [2, 3]"));
  BOOST_CHECK_EXCEPTION((open_rows(shape(2, 2), floats(5))), error,
                        says(error_code::invalid_argument, "5 values given for extents [2, 2]"));

  using nested = std::vector<floats>;
  BOOST_CHECK(list(wide(nested{{1, 2, 3}, {4, 5, 6}})) == (floats{1, 2, 3, 4, 5, 6}));
  BOOST_CHECK_EQUAL((open_rows(nested{{1, 2}, {3, 4}, {5, 6}})).extent(0), 3);
  BOOST_CHECK_EQUAL(open_rows(nested{}).elements(), 0u);
  using cube = tensor<int, dims<dyn<"a">, dyn<"b">, dyn<"c">>>;
  const cube c(std::vector<std::vector<ints>>{{{1, 2, 3}}, {{4, 5, 6}}});
  BOOST_CHECK(c.extents() == shape(2, 1, 3) && list(c) == (ints{1, 2, 3, 4, 5, 6}));
  BOOST_CHECK_EXCEPTION((wide(nested{{1, 2}, {3, 4}})), error,
                        says(error_code::invalid_argument, "[2, 2] do not fit the declared [2, 3]"));
  BOOST_CHECK_EXCEPTION((open_rows(nested{{1, 2}, {3, 4}, {5}})), error,
                        says(error_code::invalid_argument, "row 2 has 1 values and the first row has 2"));
  BOOST_CHECK_EXCEPTION((cube(std::vector<std::vector<ints>>{{{1}, {2}}, {{3}, {4, 5}}})), error,
                        says(error_code::invalid_argument, "row 1, 1 has 2 values and the first row has 1"));
  BOOST_CHECK_EXCEPTION((cube(std::vector<std::vector<ints>>{{{1}, {2}}, {{3}}})), error,
                        says(error_code::invalid_argument, "row 1 has 1 values and the first row has 2"));
}
