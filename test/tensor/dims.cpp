#include <boost/test/unit_test.hpp>
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
static_assert(spec_of<(n + m) * (n + m)> == spec_of<n * n + extent<2> * (m * n) + m * m>);
static_assert(spec_of<(n * m) / m> == spec_of<n> && spec_of<(n * extent<6> + extent<9>) / extent<3>> ==
                                                        spec_of<extent<2> * n + extent<3>>);
static_assert(spec_of<floor_quotient(n, extent<2>)> != spec_of<ceil_quotient(n, extent<2>)>);
static_assert(spec_of<floor_quotient(n, extent<2>) + extent<1>> == spec_of<extent<1> + floor_quotient(n, extent<2>)>);
static_assert(spec_of<n + extent<3> - n> == shape(3) && dims<n + extent<3> - n>::is_static);
static_assert(!dims<n + m>::is_static && dims<n + m>::is_computed && !dims<n>::is_computed && !dims<3>::is_computed);
static_assert(same<broadcast_dims<dims<n + m, 1>, dims<m + n, 4>>, dims<m + n, 4>> ||
              same<broadcast_dims<dims<n + m, 1>, dims<m + n, 4>>, dims<n + m, 4>>);
static_assert(Broadcastable<dims<n + m>, dims<m + n>> && !Broadcastable<dims<n + m>, dims<n>>);

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

}  // namespace

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
