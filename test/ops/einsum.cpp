// SPDX-License-Identifier: BSL-1.0
#include <weft/ops/products/tensordot.hpp>

#include "errors.hpp"
#include "gradient_check.hpp"
#include "ops/values_of.hpp"

using namespace weft;

// einsum against PyTorch (make_einsum_values.py), its plans, and its gradients.

namespace {

const values_of& right() {
  static const values_of all(TEST_DATA "/ops/einsum_values.txt");
  return all;
}

template <class T, class D>
tensor<T, D> operand(std::size_t n, double unit = 0.5) {
  tensor<T, D> x;
  for (std::size_t e = 0; e < x.elements(); ++e)
    x.data()[e] = static_cast<T>(static_cast<float>((static_cast<double>((7 * e + 5 * n) % 11) - 5) * unit));
  return x;
}

template <class T, fixed_string S, class... D, std::size_t... N>
auto result(std::index_sequence<N...>, double unit = 0.5) {
  return einsum<S>(operand<T, D>(N, unit)...);
}

/// Over tensors and in a step.
template <fixed_string S, class... D, std::size_t... N>
void check(std::index_sequence<N...> numbers) {
  const auto found = result<double, S, D...>(numbers);
  right().check(S.text, found, 0);
  graph g;
  const std::tuple x{placeholder<double, D>(g)...};
  const auto y = einsum<S>(std::get<N>(x)...);
  static_assert(std::is_same_v<dims_t<decltype(y)>, dims_t<decltype(found)>>);
  session s{g, {.threads = 1}};
  right().check(S.text, s.eval(y, with(std::get<N>(x), operand<double, D>(N))...), 0);
}
template <fixed_string S, class... D>
void check() {
  check<S, D...>(std::index_sequence_for<D...>());
}

template <fixed_string S, class... D>
constexpr auto plan_of() {
  return weft::detail::plan_einsum<S, true, D...>();
}
template <fixed_string S, class A, class B>
constexpr bool copies_nothing() {
  constexpr auto step = plan_of<S, A, B>().steps[0];
  return step.a == step.arranged_a && step.b == step.arranged_b && step.product == step.result;
}

}  // namespace

BOOST_AUTO_TEST_CASE(products_of_matrices) {
  check<"bhqd,bhkd->bhqk", dims<2, 2, 3, 4>, dims<2, 2, 5, 4>>();
  check<"bhqk,bhkd->bhqd", dims<2, 2, 3, 5>, dims<2, 2, 5, 4>>();
  check<"bqhd,bkhd->bhqk", dims<2, 3, 2, 4>, dims<2, 5, 2, 4>>();
  check<"bhqk,bkhd->bqhd", dims<2, 2, 3, 5>, dims<2, 5, 2, 4>>();
  check<"ij,jk->ik", dims<2, 3>, dims<3, 4>>();
  check<"ij,kj", dims<2, 3>, dims<4, 3>>();
  check<"ki,kj->ji", dims<3, 2>, dims<3, 4>>();
  check<"bij,bjk->bik", dims<2, 3, 4>, dims<2, 4, 2>>();
  check<"bij,bkj->bki", dims<2, 3, 4>, dims<2, 5, 4>>();
  check<"ijkl,klm->mij", dims<2, 3, 2, 4>, dims<2, 4, 3>>();
  check<"ijkl,lkm->ijm", dims<2, 3, 2, 4>, dims<4, 2, 3>>();
}

BOOST_AUTO_TEST_CASE(several_operands) {
  check<"ij,jk,kl->il", dims<2, 3>, dims<3, 4>, dims<4, 2>>();
  check<"bi,ijk,bk->bj", dims<2, 3>, dims<3, 4, 2>, dims<2, 2>>();
  check<"i,j,k,l,m,n->nmlkji", dims<2>, dims<1>, dims<2>, dims<3>, dims<1>, dims<2>>();
  check<"ab,bc,cd,de->ae", dims<2, 3>, dims<3, 2>, dims<2, 4>, dims<4, 2>>();
}

BOOST_AUTO_TEST_CASE(elementwise_products) {
  check<"i,j->ji", dims<3>, dims<4>>();
  check<"bi,bj->bij", dims<2, 3>, dims<2, 4>>();
  check<"i,i", dims<5>, dims<5>>();
  check<"i,i->i", dims<5>, dims<5>>();
  check<"ij,j->i", dims<3, 4>, dims<4>>();
  check<"ij,i->j", dims<3, 4>, dims<3>>();
  check<"bij,bj->ib", dims<2, 3, 4>, dims<2, 4>>();
  check<"ij,ji", dims<3, 4>, dims<4, 3>>();
  check<"ij,kl->", dims<2, 3>, dims<2, 2>>();
  check<",ij->ij", dims<>, dims<2, 3>>();
  check<"abcdefgh,abcdefgh->ha", dims<2, 1, 2, 1, 2, 1, 1, 3>, dims<2, 1, 2, 1, 2, 1, 1, 3>>();
}

BOOST_AUTO_TEST_CASE(diagonals_sums_and_transposes) {
  check<"ii", dims<3, 3>>();
  check<"ii->i", dims<3, 3>>();
  check<"iij->ji", dims<3, 3, 2>>();
  check<"ijij->ij", dims<2, 3, 2, 3>>();
  check<"iijj", dims<2, 2, 3, 3>>();
  check<"ba", dims<2, 3>>();
  check<"ijk->ki", dims<2, 3, 4>>();
  check<"ii,ij->j", dims<3, 3>, dims<3, 2>>();
}

BOOST_AUTO_TEST_CASE(ellipses_broadcast) {
  check<"...ij,...jk->...ik", dims<2, 1, 2, 3>, dims<4, 3, 2>>();
  check<"...ij,...jk", dims<3, 2, 3>, dims<3, 2>>();
  check<"i...,i...->...", dims<2, 3, 2>, dims<2, 3, 1>>();
  check<"...ij->...ji", dims<2, 2, 3>>();
  check<"...i->i", dims<2, 2, 3>>();
}

BOOST_AUTO_TEST_CASE(common_patterns_copy_nothing) {
  using q = dims<dyn<"batch">, 8, 256, 64>;
  static_assert(copies_nothing<"bhqd,bhkd->bhqk", q, dims<dyn<"batch">, 8, 100, 64>>());
  static_assert(copies_nothing<"bhqk,bhkd->bhqd", dims<dyn<"batch">, 8, 256, 100>, dims<dyn<"batch">, 8, 100, 64>>());
  static_assert(copies_nothing<"ij,jk->ik", dims<2, 3>, dims<3, 4>>());
  static_assert(copies_nothing<"ij,kj->ik", dims<2, 3>, dims<4, 3>>());
  static_assert(copies_nothing<"ki,kj->ji", dims<3, 2>, dims<3, 4>>());
  static_assert(copies_nothing<"bij,bjk->bik", dims<2, 3, 4>, dims<2, 4, 2>>());
  static_assert(copies_nothing<"bij,bkj->bki", dims<2, 3, 4>, dims<2, 5, 4>>());
  static_assert(copies_nothing<"ijkl,klm->mij", dims<2, 3, 2, 4>, dims<2, 4, 3>>());
  static_assert(copies_nothing<"btd,df->btf", dims<dyn<"b">, dyn<"t">, 8>, dims<8, 3>>());
  // A long chain of matrices is multiplied where it is narrow.
  constexpr auto chain = plan_of<"ij,jk,kl->il", dims<100, 100>, dims<100, 100>, dims<100, 1>>();
  static_assert(chain.steps[0].first + chain.steps[0].second == 3);
}

BOOST_AUTO_TEST_CASE(other_types) {
  const auto check = []<class T>(T) {
    using numbers = std::make_index_sequence<2>;
    const auto same = [](const char* name, const auto& found) {
      const auto t = eval(cast<float>(found));
      BOOST_REQUIRE_EQUAL(t.elements(), right()[name].size());
      for (std::size_t i = 0; i < t.elements(); ++i) BOOST_CHECK_EQUAL(t.data()[i], 4 * right()[name][i]);
    };
    same("ij,jk->ik", result<T, "ij,jk->ik", dims<2, 3>, dims<3, 4>>(numbers(), 1));
    same("bhqk,bkhd->bqhd", result<T, "bhqk,bkhd->bqhd", dims<2, 2, 3, 5>, dims<2, 5, 2, 4>>(numbers(), 1));
    same("ij,i->j", result<T, "ij,i->j", dims<3, 4>, dims<3>>(numbers(), 1));
    same("ij,kl->", result<T, "ij,kl->", dims<2, 3>, dims<2, 2>>(numbers(), 1));
  };
  check(float{}), check(weft::half{}), check(bfloat16{});
  check(std::int32_t{}), check(std::int64_t{}), check(std::int16_t{});
}

BOOST_AUTO_TEST_CASE(named_extents) {
  graph g;
  const auto x = placeholder<double, dims<dyn<"b">, dyn<"t">, 2, 3>>(g);
  const auto w = placeholder<double, dims<2, 3, 4>>(g);
  const auto y = einsum<"bthd,hdf->fbt">(x, w);
  static_assert(std::is_same_v<dims_t<decltype(y)>, dims<4, dyn<"b">, dyn<"t">>>);
  const auto scores = einsum<"bthd,bshd->bhts">(x * 2.0, x);
  static_assert(std::is_same_v<dims_t<decltype(einsum<"bthd,hdf->btf">(x, w))>, dims<dyn<"b">, dyn<"t">, 4>>);
  static_assert(std::is_same_v<dims_t<decltype(einsum<"bthd,bthe->de">(x, x))>, dims<3, 3>>);
  session s{g};
  for (const int b : {2, 0, 1})
    for (const int t : {5, 1, 0}) {
      tensor<double, dims<dyn<"b">, dyn<"t">, 2, 3>> a(shape(b, t, 2, 3));
      for (std::size_t i = 0; i < a.elements(); ++i) a.data()[i] = static_cast<double>(i % 7) - 3;
      const auto v = operand<double, dims<2, 3, 4>>(1);
      const auto of_pairs = einsum<"bthd,bthe->de">(x, x);
      const auto [found, pairs] = s.run(fetch(y, of_pairs), with(x, a), with(w, v));
      const auto now = einsum<"bthd,hdf->fbt">(a, v);
      BOOST_REQUIRE(found.extents() == shape(4, b, t) && now.extents() == shape(4, b, t));
      double wrong = 0, all[3][3]{};
      for (int i = 0; i < b; ++i)
        for (int j = 0; j < t; ++j) {
          for (int f = 0; f < 4; ++f) {
            double sum = 0;
            for (int h = 0; h < 2; ++h)
              for (int d = 0; d < 3; ++d) sum += a(i, j, h, d) * v(h, d, f);
            wrong += std::abs(found(f, i, j) - sum) + std::abs(now(f, i, j) - sum);
          }
          for (int h = 0; h < 2; ++h)
            for (int d = 0; d < 3; ++d)
              for (int e = 0; e < 3; ++e) all[d][e] += a(i, j, h, d) * a(i, j, h, e);
        }
      for (int d = 0; d < 3; ++d)
        for (int e = 0; e < 3; ++e) wrong += std::abs(pairs(d, e) - all[d][e]);
      BOOST_CHECK_EQUAL(wrong, 0);
      BOOST_CHECK(s.eval(scores, with(x, a)).extents() == shape(b, 2, t, t));
    }
  const tensor<double, dims<dyn<"b">, 3>> two(shape(2, 3)), four(shape(4, 3));
  BOOST_CHECK_EXCEPTION((void)(einsum<"bi,bi->b">(two, four)), error, test::says(error_code::invalid_argument));
}

BOOST_AUTO_TEST_CASE(empty_sums_are_zero) {
  const auto y = einsum<"ij,jk->ik">(tensor<float, dims<2, 0>>(), tensor<float, dims<0, 3>>());
  BOOST_REQUIRE_EQUAL(y.elements(), 6u);
  for (const float v : y) BOOST_CHECK_EQUAL(v, 0);
  BOOST_CHECK_EQUAL((einsum<"i,i->">(tensor<float, dims<0>>(), tensor<float, dims<0>>())).data()[0], 0);
}

BOOST_AUTO_TEST_CASE(gradients_of_every_kind) {
  gradient_check check;
  const auto a = check.input<dims<2, 3, 2>>();
  const auto b = check.input<dims<2, 2, 3>>();
  const auto m = check.input<dims<3, 3>>();
  check("a copied product", square(einsum<"bij,bjk->kib">(a, b)));
  check("merged axes", square(einsum<"bij,bjk->ik">(a, b)));
  check("a diagonal and a sum", square(einsum<"ii,bik->b">(m, a)));
  check("three operands", square(einsum<"bij,bjk,kl->bil">(a, b, m)), 1);
  check("an outer product", square(einsum<"bij,kl->bkil">(a, m)), 1);
}

BOOST_AUTO_TEST_CASE(products_by_other_names) {
  const auto a = operand<double, dims<2, 3, 4>>(0);
  const auto b = operand<double, dims<3, 4, 2>>(1);
  const auto same = []<class D>(const tensor<double, D>& x, const tensor<double, D>& y) {
    for (std::size_t i = 0; i < x.elements(); ++i) BOOST_CHECK_EQUAL(x.data()[i], y.data()[i]);
  };
  same(tensordot(a, b), einsum<"ijk,jkl->il">(a, b));
  same(tensordot<1>(a, transpose(a)), einsum<"ijk,klm->ijlm">(a, transpose(a)));
  same(tensordot<0>(slice<0, 0, 1>(a), b), einsum<"ijk,lmn->ijklmn">(slice<0, 0, 1>(a), b));
  same(tensordot<axis_numbers<-1, 0>, axis_numbers<1, 2>>(a, b), einsum<"ijk,lki->jl">(a, b));
  const auto u = operand<double, dims<4>>(2);
  const auto rows = operand<double, dims<3, 4>>(2);
  same(vecdot(a, rows), einsum<"bij,ij->bi">(a, rows));
  same(matvec(a, u), einsum<"bij,j->bi">(a, u));
  same(inner(a, rows), einsum<"bij,kj->bik">(a, rows));
  same(outer(u, rows), einsum<"i,bj->bij">(u, rows));
  same(broadcast_matmul(a, transpose(rows)), einsum<"bij,kj->bik">(a, rows));
}
