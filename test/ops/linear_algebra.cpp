#include <cmath>
#include <vector>

#include "errors.hpp"
#include "gradient_check.hpp"

using namespace weft;

// Products of many matrices.

namespace {

using batch = dyn_extent<"batch">;
using rows = dyn_extent<"rows">;

/// Small whole numbers: sums of their products are exact in any order and in any type.
template <class Tensor>
void fill(Tensor& x, std::size_t seed) {
  for (std::size_t i = 0; i < x.elements(); ++i)
    x.data()[i] = value_t<Tensor>(static_cast<float>((i * 7 + i / 11 + seed) % 5) - 2);
}
template <class T, class D>
tensor<T, D> filled(const shape& extents, std::size_t seed) {
  tensor<T, D> x(extents);
  fill(x, seed);
  return x;
}

/// What a product is by definition; `then` is done to each element.
template <class A, class B, class C, class Then>
void check_product(const A& a, const B& b, const C& c, bool ta, bool tb, Then then) {
  const auto last = [](const auto& x, bool second) {
    const shape& s = x.extents();
    return static_cast<std::size_t>(s[s.rank - (second ? 1 : 2)]);
  };
  const std::size_t m = last(a, ta), k = last(a, !ta), n = last(b, !tb);
  const bool one = b.extents().rank == 2;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < c.elements(); ++i) {
    const std::size_t which = i / n / m, row = i / n % m, column = i % n;
    double sum = 0;
    for (std::size_t l = 0; l < k; ++l)
      sum += static_cast<double>(a.data()[which * m * k + (ta ? l * m + row : row * k + l)]) *
             static_cast<double>(b.data()[(one ? 0 : which * n * k) + (tb ? column * k + l : l * n + column)]);
    wrong += std::abs(static_cast<double>(c.data()[i]) - then(sum, column)) > 1e-6;
  }
  BOOST_CHECK_EQUAL(wrong, 0u);
}

const auto nothing = [](double x, std::size_t) { return x; };

template <class T, transpose_of Form, class A, class B>
void check_form(const shape& a_extents, const shape& b_extents) {
  const auto a = filled<T, A>(a_extents, 0);
  const auto b = filled<T, B>(b_extents, 3);
  constexpr bool ta = detail::takes(Form, transpose_of::a), tb = detail::takes(Form, transpose_of::b);
  check_product(a, b, eval(matmul<Form>(a, b)), ta, tb, nothing);
  graph g;
  const auto x = placeholder<T, A>(g);
  const auto w = placeholder<T, B>(g);
  for (const int threads : {1, 3}) {
    session s{g, {.threads = threads}};
    check_product(a, b, s.eval(matmul<Form>(x, w), with(x, a), with(w, b)), ta, tb, nothing);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(products_of_many_matrices) {
  using t = transpose_of;
  using all = dims<batch{}, 2, rows{}, 7>;
  check_form<float, t::none, all, dims<batch{}, 2, 7, 5>>(shape(3, 2, 4, 7), shape(3, 2, 7, 5));
  check_form<double, t::a, dims<batch{}, 7, 4>, dims<batch{}, 7, rows{}>>(shape(9, 7, 4), shape(9, 7, 3));
  check_form<weft::half, t::b, all, dims<batch{}, 2, rows{}, 7>>(shape(5, 2, 3, 7), shape(5, 2, 3, 7));
  check_form<bfloat16, t::both, dims<batch{}, 7, 4>, dims<batch{}, 6, 7>>(shape(2, 7, 4), shape(2, 6, 7));
  // Many that threads share, few that are shared themselves, none.
  for (const auto& [n, m] : {std::pair{700, 40}, {3, 600}, {0, 5}, {2, 0}})
    check_form<float, t::b, all, all>(shape(n, 2, m, 7), shape(n, 2, m, 7));
}

BOOST_AUTO_TEST_CASE(products_of_many_matrices_and_one) {
  using t = transpose_of;
  check_form<float, t::none, dims<batch{}, 2, rows{}, 7>, dims<7, 5>>(shape(3, 2, 4, 7), shape(7, 5));
  check_form<double, t::b, dims<batch{}, rows{}, 7>, dims<5, 7>>(shape(30, 64, 7), shape(5, 7));
  check_form<weft::half, t::none, dims<batch{}, rows{}, 7>, dims<7, 5>>(shape(0, 6, 7), shape(7, 5));
  static_assert(std::is_same_v<dims_t<decltype(matmul(tensor<float, dims<4, 3, 7>>(), tensor<float, dims<7, 5>>()))>,
                               dims<4, 3, 5>>);
}

// So large that it runs in panels.
BOOST_AUTO_TEST_CASE(an_expression_follows_products_of_many_matrices) {
  const auto a = filled<float, dims<batch{}, rows{}, 8>>(shape(40, 64, 8), 1);
  const auto b = filled<float, dims<batch{}, 8, 64>>(shape(40, 8, 64), 2);
  const auto w = filled<float, dims<8, 64>>(shape(8, 64), 2);
  tensor<float, dims<64>> v;
  fill(v, 4);
  graph g;
  const auto x = placeholder<float, dims<batch{}, rows{}, 8>>(g);
  const auto y = placeholder<float, dims<batch{}, 8, 64>>(g);
  const auto bias = variable<float, dims<64>>(g, "bias", v);
  const auto one = variable<float, dims<8, 64>>(g, "one", w);
  session s{g, {.threads = 2}};
  const auto each = [&](double e, std::size_t i) { return std::max(e * 0.5 + static_cast<double>(v.data()[i]), 0.0); };
  const auto with_each = let(relu(matmul(x, y) * 0.5f + bias)), with_one = let(relu(matmul(x, one) * 0.5f + bias));
  const auto [dx, dy, d_bias, d_one] = gradients(sum(with_each * with_each) + sum(with_one), x, y, bias, one);
  auto step = s.prepare(fetch(with_each, with_one, dx, dy, d_bias, d_one), feed(x, y));
  const auto [found, found_one, gx, gy, g_bias, g_one] = step(a, b);
  check_product(a, b, found, false, false, each);
  check_product(a, w, found_one, false, false, each);
  // What arrives at the products, and what they and the sums make of it.
  tensor<float, dims<batch{}, rows{}, 64>> up(found.extents()), up_one(found.extents());
  std::vector<double> sums(64);
  for (std::size_t i = 0; i < up.elements(); ++i) {
    up.data()[i] = found.data()[i], up_one.data()[i] = found_one.data()[i] > 0 ? 0.5f : 0;
    sums[i % 64] += 2 * static_cast<double>(found.data()[i]) + (found_one.data()[i] > 0 ? 1 : 0);
  }
  for (std::size_t i = 0; i < 64; ++i) BOOST_CHECK_EQUAL(static_cast<double>(g_bias.data()[i]), sums[i]);
  tensor<float, dims<batch{}, rows{}, 8>> both = matmul<transpose_of::b>(up, b) + matmul<transpose_of::b>(up_one, w);
  BOOST_CHECK(std::equal(both.data(), both.data() + both.elements(), gx.data()));
  const auto of_y = matmul<transpose_of::a>(a, up);
  BOOST_CHECK(std::equal(of_y.data(), of_y.data() + of_y.elements(), gy.data()));
  const auto of_one = sum<0>(matmul<transpose_of::a>(a, up_one));
  const tensor<float, dims<8, 64>> right = of_one;
  BOOST_CHECK(std::equal(right.data(), right.data() + right.elements(), g_one.data()));
}

BOOST_AUTO_TEST_CASE(derivatives_of_products) {
  const auto form = []<transpose_of T, class A, class B>(const char* name, std::integral_constant<transpose_of, T>, A,
                                                         B) {
    gradient_check check;
    const auto a = check.input<A>();
    check(name, matmul<T>(a, check.input<B>()), 3);
  };
  using t = transpose_of;
  form("plain", std::integral_constant<t, t::none>{}, dims<2, 2, 3>{}, dims<2, 3, 2>{});
  form("of the transposed", std::integral_constant<t, t::a>{}, dims<2, 1, 3, 2>{}, dims<2, 1, 3, 2>{});
  form("by the transposed", std::integral_constant<t, t::b>{}, dims<2, 2, 3>{}, dims<2, 2, 3>{});
  form("of both transposed", std::integral_constant<t, t::both>{}, dims<2, 3, 2>{}, dims<2, 2, 3>{});
  form("with one", std::integral_constant<t, t::none>{}, dims<2, 2, 3>{}, dims<3, 2>{});
  form("with one transposed", std::integral_constant<t, t::b>{}, dims<2, 2, 3>{}, dims<2, 3>{});
}

BOOST_AUTO_TEST_CASE(matrices_that_do_not_fit) {
  const tensor<float, dims<batch{}, 2, 3>> a(shape(4, 2, 3));
  const tensor<float, dims<batch{}, 3, 2>> b(shape(5, 3, 2));
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { static_cast<void>(eval(matmul(a, b))); }),
             "the extent batch is 4 in [4, 2, 3] and 5 in [5, 3, 2]");
}
