// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <utility>
#include <weft/control_flow.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"

using namespace weft;

// The compiler tests what the compiler decides.

namespace {

template <class A, class B>
constexpr bool same = std::is_same_v<A, B>;

constexpr auto n = dyn<"n">;
constexpr auto m = dyn<"m">;

static_assert(dims<>::rank == 0 && dims<2, 3>::rank == 2);
static_assert(dims<2, 3>::is_static && !dims<n, 3>::is_static && dims<>::is_static);
static_assert(dims<2, 3>::spec == shape(2, 3));
static_assert(dims<n, 3>::spec[0] < 0 && dims<n>::spec[0] == dims<3, n>::spec[1] &&
              dims<n>::spec[0] != dims<m>::spec[0]);
static_assert(dims<n, 3>::names[1] == nullptr && dims<n, 3>::names[0][0] == 'n');
static_assert(shape(2, 3, 4).elements() == 24 && shape().elements() == 1 && shape(2, 0).elements() == 0);

// Extents that are computed: one normal form for all ways to write one.
template <auto... E>
constexpr shape spec_of = dims<E...>::spec;
static_assert(spec_of<n + m> == spec_of<m + n> && spec_of<n + m> != spec_of<n + n>);
static_assert(spec_of<n + n> == spec_of<n * extent<2>> && spec_of<n + m - m> == spec_of<n>);
static_assert(spec_of<(n + m) * (n + m)> == spec_of<n * n + extent<2>*(m* n) + m * m>);
static_assert(spec_of<(n * m) / m> == spec_of<n> &&
              spec_of<(n * extent<6> + extent<9>) / extent<3>> == spec_of<extent<2> * n + extent<3>>);
static_assert(spec_of<floor_quotient(n, extent<2>)> != spec_of<ceil_quotient(n, extent<2>)>);
static_assert(spec_of<floor_quotient(n, extent<2>) + extent<1>> == spec_of<extent<1> + floor_quotient(n, extent<2>)>);
static_assert(spec_of<n + extent<3> - n> == shape(3) && dims<n + extent<3> - n>::is_static);
static_assert(!dims<n + m>::is_static && dims<n + m>::is_computed && !dims<n>::is_computed && !dims<3>::is_computed);
static_assert(same<broadcast_dims<dims<n + m, 1>, dims<m + n, 4>>, dims<n + m, 4>>);
static_assert(Broadcastable<dims<n + m>, dims<m + n>> && !Broadcastable<dims<n + m>, dims<n>>);

// Each extent has one type, whatever it is written as.
enum sizes { eight = 8 };
static_assert(same<dims_t<dims<8u, 8ul, 8l, 8ll, short{8}, eight, extent<8>, extent<4> * extent<2>>>,
                   dims<8, 8, 8, 8, 8, 8, 8, 8>>);
static_assert(same<dims_t<dims<extent_of<dims<8u>, 0>(), n + extent<8> - n>>, dims<8, 8>>);
static_assert(same<dims_t<dims<0x80000000u, 0x80000000l>>, dims<0x80000000ll, 0x80000000ll>>);
static_assert(same<dims_t<dims<8>>, dims<8>> && same<dims_t<dims<n, 8>>, dims<n, 8>> && same<dims_t<dims<>>, dims<>>);
static_assert(same<dims<n + m>, dims<m + n>> && same<dims<extent<1> + n>, dims<n + extent<1>>>);
static_assert(same<dims<n * extent<2> - extent<1>>, dims<n - extent<1> + n>>);
static_assert(same<dims<(n + m) * (n - m)>, dims<n * n - m * m>> && same<dims<n + m - m>, dims<n>>);
static_assert(same<dims<floor_quotient(m + n, extent<2>) + n>, dims<n + floor_quotient(n + m, extent<2>)>>);
static_assert(same<dims<(n / m) * m>, dims<n>> && same<dims<n * m / extent<1>>, dims<m * n>>);
static_assert(same<dims_t<dims<computed_extent<'+', dyn_extent<"n">, dyn_extent<"m">>{}>>, dims<n + m>>);

static_assert(static_extent<dims<n, 784u>, 1>() == 784 && static_extent<tensor<float, dims<3, 4>>&, -2>() == 3);
static_assert(same<decltype(static_extent<dims<8ul>, 0>()), int>);
static_assert(extent<8> / 2 == 4 && shape(extent<8>) == shape(8));

// Broadcasting, from the last axis on.
static_assert(same<broadcast_dims<dims<2, 3>, dims<2, 3>>, dims<2, 3>>);
static_assert(same<broadcast_dims<dims<2, 3>, dims<3>>, dims<2, 3>>);
static_assert(same<broadcast_dims<dims<3>, dims<2, 3>>, dims<2, 3>>);
static_assert(same<broadcast_dims<dims<2, 1>, dims<1, 3>>, dims<2, 3>>);
static_assert(same<broadcast_dims<dims<2, 1, 4>, dims<3, 1>>, dims<2, 3, 4>>);
static_assert(same<broadcast_dims<dims<>, dims<n, 3>>, dims<n, 3>>);
static_assert(same<broadcast_dims<dims<n, 1>, dims<3>>, dims<n, 3>>);
static_assert(same<broadcast_dims<dims<1>, dims<n>>, dims<n>>);

static_assert(Broadcastable<dims<2, 3>, dims<3>> && Broadcastable<dims<n, 3>, dims<n, 1>> &&
              Broadcastable<dims<>, dims<7>>);
static_assert(!Broadcastable<dims<2, 3>, dims<2>> && !Broadcastable<dims<n>, dims<3>> &&
              !Broadcastable<dims<n>, dims<m>>);

static_assert(Multipliable<dims<2, 3>, dims<3, 4>> && Multipliable<dims<n, 3>, dims<3, m>>);
static_assert(!Multipliable<dims<2, 3>, dims<2, 3>> && !Multipliable<dims<3>, dims<3, 4>> &&
              !Multipliable<dims<2, n>, dims<m, 2>>);

static_assert(!matmul_shapes_differ<dims<3, 2>, dims<3, 4>, transpose_of::a>::value);
static_assert(!matmul_shapes_differ<dims<2, 3>, dims<4, 3>, transpose_of::b>::value);
static_assert(!matmul_shapes_differ<dims<3, 2>, dims<4, 3>, transpose_of::both>::value);
static_assert(matmul_shapes_differ<dims<2, 3>, dims<3, 4>, transpose_of::a>::value);

// Axes: kept, reduced, and named wrongly.
static_assert(same<without_axes<dims<2, 3, 4>, 0b010>, dims<2, 4>> && same<without_axes<dims<2, n>, 0b11>, dims<>>);
static_assert(!axis_out_of_range<dims<2, 3>, 0, 1>::value && !axis_out_of_range<dims<2, 3>, -1>::value);
static_assert(axis_out_of_range<dims<2, 3>, 2>::value && axis_out_of_range<dims<2, 3>, -3>::value);
static_assert(axis_out_of_range<dims<2, 3>, 1, 1>::value && axis_out_of_range<dims<2, 3>, 1, -1>::value);
static_assert(!axes_not_a_permutation<dims<2, 3>, 1, 0>::value && axes_not_a_permutation<dims<2, 3>, 1>::value);
static_assert(axes_not_a_permutation<dims<2, 3>, 1, 1>::value);

static_assert(!reshape_changes_elements<dims<2, 6>, dims<3, 4>>::value &&
              reshape_changes_elements<dims<2, 6>, dims<3, 5>>::value);
static_assert(!reshape_changes_elements<dims<n, 6>, dims<2, 3, n>>::value &&
              reshape_changes_elements<dims<n, 6>, dims<m, 6>>::value);
static_assert(reshape_changes_elements<dims<n, n>, dims<n>>::value &&
              !reshape_changes_elements<dims<1>, dims<>>::value);

// The types of results.
template <class... E>
struct types;
using matrix = tensor<float, dims<2, 3>>;
using batched = tensor<float, dims<n, 3>>;
template <class E>
using dims_of = dims_t<std::remove_cvref_t<E>>;

static_assert(same<dims_of<decltype(sum<0>(std::declval<matrix>()))>, dims<3>>);
static_assert(same<dims_of<decltype(sum<-1>(std::declval<batched>()))>, dims<n>>);
static_assert(same<dims_of<decltype(mean(std::declval<matrix>()))>, dims<>>);
static_assert(same<dims_of<decltype(argmax<0>(std::declval<batched>()))>, dims<3>>);
static_assert(same<value_t<decltype(argmax<1>(std::declval<matrix>()))>, std::int32_t>);
static_assert(same<dims_of<decltype(transpose(std::declval<batched>()))>, dims<3, n>>);
static_assert(
    same<dims_of<decltype(matmul(std::declval<batched>(), std::declval<tensor<float, dims<3, 5>>>()))>, dims<n, 5>>);
static_assert(same<dims_of<decltype(one_hot<4>(std::declval<tensor<std::int32_t, dims<n>>>()))>, dims<n, 4>>);
static_assert(same<value_t<decltype(std::declval<matrix>() < 1)>, bool>);
static_assert(same<value_t<decltype(cast<double>(std::declval<matrix>()))>, double>);

// Values of extents in different forms stand in for each other.
template <auto... E>
constexpr std::size_t rank_of_node(const node<float, dims<E...>>&) {
  return sizeof...(E);
}
template <class D>
D same_extents(const node<float, D>&, const node<float, D>&) {
  return {};
}
const node<float, dims<8>>& returned(const node<float, dims<8>>& x) { return x; }
node<float, dims<8u>> returned_unsigned(const node<float, dims<8u>>& x) { return x; }
tensor<float, dims<8>> returned(const tensor<float, dims<8u>>& x, int) { return x; }
tensor<float, dims<8u>> returned_unsigned(const tensor<float, dims<8>>& x, int) { return x; }

}  // namespace

BOOST_AUTO_TEST_CASE(extents_in_any_form_are_those_of_one_type) {
  graph g;
  const auto a = placeholder<float, dims<8>>(g, "a");
  const auto b = placeholder<float, dims<std::size_t{8}>>(g, "b");
  const auto c = placeholder<float, dims<extent_of<dims_t<decltype(a)>, 0>()>>(g, "c");
  const auto d = placeholder<float, dims<eight>>(g, "d");
  static_assert(same<decltype(a), decltype(b)> && same<decltype(a), decltype(c)> && same<decltype(a), decltype(d)>);
  static_assert(same<decltype(same_extents(a, c)), dims<8>>);
  node<float, dims<8l>> e = a;
  e = b * c;
  node<float, dims<8>> f = e;
  f = e;
  e = returned_unsigned(returned(e));
  const auto chosen = g.size() > 0 ? e : f;  // of one type, so that ?: takes both
  static_assert(same<decltype(chosen), const node<float, dims<8>>>);
  BOOST_CHECK(rank_of_node(a) == 1 && rank_of_node(c) == 1 && rank_of_node(e) == 1);
  const auto branch = cond(sum(a) > 0.0f, [](auto x, auto) { return x; }, [](auto, auto y) { return y; }, e, f + d);
  static_assert(same<dims_t<decltype(branch)>, dims<8>>);
  const auto rows = placeholder<float, dims<n + extent<1>, 2u>>(g, "rows");
  node<float, dims<extent<1> + n, 2>> more = rows;
  more = more + rows;
  variable_node<float, dims<8u>> v = variable<float, dims<8>>(g, "v");
  variable_node<float, dims<8>> w = variable<float, dims<8l>>(g, "w");
  w = v;
  v = w;
  const auto written = assign(v, branch);

  tensor<float, dims<8u>> t{1, 2, 3, 4, 5, 6, 7, 8};
  tensor<float, dims<8>> u = t;
  BOOST_CHECK(std::as_const(u).data() == std::as_const(t).data());  // shared, not computed
  t = u;
  u = returned(returned_unsigned(u, 0), 0);
  BOOST_CHECK(std::as_const(u).data() == std::as_const(t).data());
  u = t + u;
  t = 2.0f * t;
  BOOST_CHECK_EQUAL(u(7), 16);
  BOOST_CHECK_EQUAL(t(7), 16);
  tensor_view<const float, dims<8u>> view(u);
  tensor_view<const float, dims<8>> same_view = view;
  view = same_view;
  session s{g};
  auto step = s.prepare(fetch(chosen, branch, more, written), feed(a, b, c, d, rows));
  const auto [x, y, z, _] = step(t, u, view, same_view, tensor<float, dims<4, 2ul>>());
  u = x;
  t = y;
  BOOST_CHECK_EQUAL(u(0), 4);
  BOOST_CHECK_EQUAL(t(0), 4);
  BOOST_CHECK_EQUAL(z.extent(0), 4);
  s.set(v, t);
  t = s.get(w);
}

BOOST_AUTO_TEST_CASE(computed_extents_in_words) {
  const auto text = [](auto d) { return std::string(decltype(d)::names[0]); };
  BOOST_CHECK_EQUAL(text(dims<extent<2> * m + n - extent<1>>{}), "2 * m + n - 1");
  BOOST_CHECK_EQUAL(text(dims<n * m - m + n * n>{}), "m * n + n * n - m");
  BOOST_CHECK_EQUAL(text(dims<ceil_quotient(n + extent<1>, extent<2>)>{}), "ceil((n + 1) / 2)");
  BOOST_CHECK_EQUAL(text(dims<n / m>{}), "n / m");
}

BOOST_AUTO_TEST_CASE(extents_print_with_their_names) {
  BOOST_CHECK_EQUAL(to_string(shape(2, 3)), "[2, 3]");
  BOOST_CHECK_EQUAL(to_string(shape()), "[]");
  using d = dims<dyn<"batch">, 784>;
  BOOST_CHECK_EQUAL(to_string(d::spec, d::names), "[batch, 784]");
}

BOOST_AUTO_TEST_CASE(given_extents_are_held_against_the_type) {
  using square = tensor<int, dims<n, n>>;
  BOOST_CHECK_EQUAL(square(shape(3, 3)).elements(), 9u);
  BOOST_CHECK_THROW(square(shape(3, 4)), error);  // one name, two sizes
  BOOST_CHECK_THROW(square(shape(3)), error);
  BOOST_CHECK_THROW((tensor<int, dims<n>>(shape(-1))), error);
  const auto wrong = [] { tensor<int, dims<n, 3>>(shape(2, 4)); };
  BOOST_CHECK_EQUAL(test::failure(error_code::invalid_argument, wrong),
                    "tensor: the extents [2, 4] do not fit the declared [n, 3]");
}
