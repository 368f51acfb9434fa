// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <string>
#include <vector>
#include <weft/ops/linear_algebra/cholesky.hpp>
#include <weft/ops/linear_algebra/eigen.hpp>
#include <weft/ops/linear_algebra/matrix_functions.hpp>
#include <weft/ops/linear_algebra/qr.hpp>
#include <weft/ops/linear_algebra/svd.hpp>

#include "errors.hpp"
#include "gradient_check.hpp"
#include "ops/values_of.hpp"
#include "session_on_cpu.hpp"

using namespace weft;

// The factorizations of ops/linear_algebra, against PyTorch (make_factorizations_values.py) and by their definitions,
// with LAPACK if there is one and without it.

namespace {

using batch = dyn_extent<"batch">;
using extent_n = dyn_extent<"n">;
using squares = dims<batch{}, extent_n{}, extent_n{}>;

const values_of& right() {
  static const values_of all(TEST_DATA "/ops/factorizations_values.txt");
  return all;
}

/// Over tensors at once, in a graph, and its gradient there.
template <class T, class Known, class Named, class F>
void check_in(const std::string& name, const char* operand, double tolerance, F f) {
  const auto x = right().tensor<T, Known>(operand);
  right().check(name, f(x), tolerance);
  graph g;
  const auto p = placeholder<T, Named>(g, "p");
  const auto y = let(f(p));
  const auto [d] = gradients(sum(square(y + 1)), p);
  session s{g, {.threads = 1}};
  const auto [value, gradient] = s.run(fetch(y, d), with(p, x));
  right().check(name, value, tolerance);
  right().check(name + ".gradient", gradient, 10 * tolerance);
}
/// `condition` multiplies the error that is allowed.
template <class Known, class Named = Known, class F>
void check(const std::string& name, const char* operand, F f, double condition = 1) {
  check_in<double, Known, Named>(name, operand, 1e-11 * condition, f);
  check_in<float, Known, Named>(name, operand, 2e-3 * condition, f);
}
template <class F>
void of_square(const std::string& name, F f, double condition = 1) {
  check<dims<2, 3, 3>, squares>(name, "square", f, condition);
}
/// The four kinds of matrices, of which the type shows that one is wide.
template <class F>
void of_all(const std::string& name, F f) {
  of_square(name + "_square", f);
  check<dims<2, 4, 3>, dims<batch{}, dyn<"rows">, 3>>(name + "_tall", "tall", f);
  check<dims<2, 3, 5>, dims<batch{}, 3, 5>>(name + "_wide", "wide", f);
  check<dims<1, 1, 1>, squares>(name + "_one", "one", f);
}

/// An operand of the element type of x.
template <class D, class X>
auto operand(const X&, const char* name) {
  return right().tensor<value_t<X>, D>(name);
}

template <class T>
std::vector<T> random_numbers(std::size_t n, std::uint64_t seed) {
  const random_stream r(seed, 1);
  std::vector<T> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<T>(2 * r.uniform(i) - 1);
  return v;
}

/// The largest element of the difference between two matrices, over `scale`.
template <class T>
void check_equal(const char* what, const std::vector<T>& a, const std::vector<T>& b, double scale = 1,
                 double roundings = 0) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double error = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])) / scale;
    worst = error <= worst ? worst : error;
  }
  const double unit = std::numeric_limits<T>::epsilon();
  BOOST_CHECK_MESSAGE(a.size() == b.size() && worst <= roundings * unit,
                      what << " is off by " << worst / unit << " roundings, of " << a.size() << " elements");
}
template <class T>
std::vector<T> product(std::size_t m, std::size_t k, std::size_t n, const std::vector<T>& a, const std::vector<T>& b,
                       bool ta = false, bool tb = false) {
  std::vector<T> c(m * n);
  if (c.empty() || k == 0) return c;
  weft::matmul<library::best>({m, n, k, ta, tb}, T(1), a.data(), b.data(), T(0), c.data());
  return c;
}
template <class T>
std::vector<T> identity(std::size_t n) {
  std::vector<T> x(n * n);
  for (std::size_t i = 0; i < n; ++i) x[i * (n + 1)] = 1;
  return x;
}

detail::matrix_extents extents_of_matrix(std::size_t m, std::size_t n) {
  return detail::matrix_extents({dtype::float32, shape(m, n)});
}
/// Runs a task, with memory of its own.
template <class T, class Task>
bool run(const Task& task, const std::vector<T>& a, std::vector<T*> results) {
  const detail::matrix_needs needs = task.needs();
  std::vector<T> elements(needs.elements + 1);
  std::vector<int> integers(needs.integers + 1);
  const T* operand = a.data();
  results.resize(8);
  return task.run(
      &operand, results.data(),
      {elements.data(), integers.data(), static_cast<int>(needs.elements), static_cast<int>(needs.integers)});
}

template <class Library, class T>
void check_svd(std::size_t m, std::size_t n, const std::vector<T>& a, double scale) {
  const std::size_t k = std::min(m, n);
  std::vector<T> u(m * k), s(k), vt(k * n), values(k);
  BOOST_REQUIRE(
      (run(detail::svd_task<T, Library>{extents_of_matrix(m, n), false}, a, {u.data(), s.data(), vt.data()})));
  BOOST_REQUIRE((run(detail::svd_task<T, Library>{extents_of_matrix(m, n), true}, a, {values.data()})));
  const double roundings = 20 * std::sqrt(static_cast<double>(m + n)) + 10;
  check_equal("the singular values alone", values, s, scale, roundings);
  BOOST_CHECK(std::is_sorted(s.rbegin(), s.rend()) && (k == 0 || s.back() >= 0));
  check_equal("u' u", product(k, m, k, u, u, true), identity<T>(k), 1, roundings);
  check_equal("v' v", product(k, n, k, vt, vt, false, true), identity<T>(k), 1, roundings);
  for (std::size_t i = 0; i < m * k; ++i) u[i] *= s[i % k];
  check_equal("u s v'", product(m, k, n, u, vt), a, scale, roundings);
}

template <class Library, class T>
void check_library(std::size_t n) {
  const std::size_t m = n + n / 2 + 1;
  const double root = std::sqrt(static_cast<double>(n)), roundings = 20 * root + 10;
  BOOST_TEST_CONTEXT("n " << n << ", " << sizeof(T) << " bytes") {
    const auto square = random_numbers<T>(n * n, n), tall = random_numbers<T>(m * n, n + 1);
    const detail::matrix_extents nn = extents_of_matrix(n, n);

    auto positive = product(n, n, n, square, square, false, true);
    for (std::size_t i = 0; i < n; ++i) positive[i * (n + 1)] += 1;
    std::vector<T> l(n * n);
    BOOST_CHECK((run(detail::cholesky_task<T, Library>{nn}, positive, {l.data()})));
    check_equal("l l'", product(n, n, n, l, l, false, true), positive, static_cast<double>(n), roundings);

    for (const std::size_t columns : {n, m}) {
      std::vector<T> q(m * columns), r(columns * n);
      BOOST_CHECK((run(detail::qr_task<T, Library>{extents_of_matrix(m, n), columns}, tall, {q.data(), r.data()})));
      check_equal("q r", product(m, columns, n, q, r), tall, root, roundings);
      check_equal("q' q", product(columns, m, columns, q, q, true), identity<T>(columns), 1, roundings);
      for (std::size_t e = 0; e < r.size(); ++e) BOOST_REQUIRE(e % n >= e / n || r[e] == 0);
    }

    check_svd<Library>(n, n, square, root);
    check_svd<Library>(m, n, tall, root);
    check_svd<Library>(n, m, random_numbers<T>(n * m, n + 2), root);
    check_svd<Library>(m, n, product(m, 2, n, random_numbers<T>(m * 2, 1), random_numbers<T>(n * 2, 2)),
                       2 * root);  // of rank 2
    check_svd<Library>(n, m, std::vector<T>(n * m), 1);

    std::vector<T> symmetric(n * n), w(n), v(n * n), alone(n), imaginary(n);
    for (std::size_t i = 0; i < n * n; ++i) symmetric[i] = square[i] + square[i % n * n + i / n];
    auto lower = symmetric;  // the upper triangle is not read
    for (std::size_t i = 0; i < n * n; ++i) lower[i] = i % n > i / n ? std::numeric_limits<T>::quiet_NaN() : lower[i];
    BOOST_CHECK((run(detail::eigh_task<T, Library>{nn}, lower, {w.data(), v.data()})));
    BOOST_CHECK((run(detail::eigh_task<T, Library>{nn}, lower, {alone.data()})));
    check_equal("the eigenvalues alone", alone, w, root, roundings);
    BOOST_CHECK(std::is_sorted(w.begin(), w.end()));
    check_equal("v' v", product(n, n, n, v, v, true), identity<T>(n), 1, roundings);
    auto scaled = v;
    for (std::size_t i = 0; i < n * n; ++i) scaled[i] *= w[i % n];
    check_equal("a v", product(n, n, n, symmetric, v), scaled, root, roundings);

    BOOST_CHECK((run(detail::eigvals_task<T, Library>{{nn}}, symmetric, {alone.data(), imaginary.data()})));
    std::sort(alone.begin(), alone.end());
    check_equal("the eigenvalues of any matrix", alone, w, root, 3 * roundings);
    check_equal("their imaginary parts", imaginary, std::vector<T>(n), 1, 0);
    // The sums of powers of eigenvalues are the traces of powers.
    BOOST_CHECK((run(detail::eigvals_task<T, Library>{{nn}}, square, {alone.data(), imaginary.data()})));
    const auto squared = product(n, n, n, square, square), cubed = product(n, n, n, squared, square);
    std::complex<double> sums[3];
    double traces[3] = {};
    for (std::size_t i = 0; i < n; ++i) {
      const std::complex<double> z(static_cast<double>(alone[i]), static_cast<double>(imaginary[i]));
      sums[0] += z, sums[1] += z * z, sums[2] += z * z * z;
      traces[0] += square[i * (n + 1)], traces[1] += squared[i * (n + 1)], traces[2] += cubed[i * (n + 1)];
    }
    for (int power = 0; power < 3; ++power)
      BOOST_CHECK_SMALL(std::abs(sums[power] - traces[power]) / std::pow(root, power + 2),
                        200 * double{std::numeric_limits<T>::epsilon()} * root);
  }
}

template <class Library>
void check_library(std::size_t largest) {
  for (const std::size_t n : {1u, 2u, 3u, 5u, 64u, 65u})
    check_library<Library, double>(n), check_library<Library, float>(n);
  check_library<Library, double>(largest);
  // Far from 1, where squares overflow or vanish.
  for (const double scale : {1e-200, 1e200}) {
    auto a = random_numbers<double>(30, 1);
    for (double& x : a) x *= scale;
    check_svd<Library>(6, 5, a, scale);
    std::vector<double> q(30), r(25), w(5), v(25);
    BOOST_CHECK((run(detail::qr_task<double, Library>{extents_of_matrix(6, 5), 5}, a, {q.data(), r.data()})));
    check_equal("q r", product(6, 5, 5, q, r), a, scale, 20);
    a.resize(25);
    BOOST_CHECK((run(detail::eigh_task<double, Library>{extents_of_matrix(5, 5)}, a, {w.data(), v.data()})));
    double trace = 0;
    for (std::size_t i = 0; i < 5; ++i) trace += a[i * 6] / scale - w[i] / scale;
    BOOST_CHECK_SMALL(trace, 1e-14);
  }
}

/// The solutions of random triangular systems, of all kinds.
template <class Library, class T>
void check_triangles(std::size_t n, std::size_t m) {
  for (int kind = 0; kind < 8; ++kind) {
    const bool upper = kind & 1, transposed = kind & 2, unit = kind & 4;
    auto a = random_numbers<T>(n * n, n);
    const auto x = random_numbers<T>(n * m, 2);
    for (std::size_t e = 0; e < n * n; ++e) a[e] = e % (n + 1) == 0 ? 2 + a[e] : a[e] / static_cast<T>(n);
    auto used = a;
    for (std::size_t e = 0; e < n * n; ++e)
      used[e] = e % (n + 1) == 0 ? (unit ? T(1) : a[e]) : (e % n > e / n) == upper ? a[e] : T(0);
    auto b = product(n, n, m, used, x, transposed);
    Library::template solve_triangle<T>({n, n, upper, transposed, unit}, a.data(), m, b.data(), m, nullptr);
    check_equal("the solution of a triangle", b, x, 1, 100);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(built_in_factorizations) {
  check_library<library::reference_factorizations>(100);
  for (const std::size_t n : {1u, 5u, 64u, 65u, 200u}) check_triangles<library::reference_lu, double>(n, 3);
}

#if defined(WEFT_HAS_LAPACK)
BOOST_AUTO_TEST_CASE(factorizations_of_lapack) {
  check_library<library::lapack_factorizations>(200);
  for (const std::size_t n : {1u, 5u, 64u, 65u, 200u}) check_triangles<library::lapack, float>(n, 3);
}
#endif

BOOST_AUTO_TEST_CASE(choleskys_and_triangles_are_pytorchs) {
  check<dims<2, 3, 3>, squares>("cholesky", "positive", [](const auto& x) { return cholesky(x); });
  check<dims<1, 1, 1>, squares>("cholesky_one", "one", [](const auto& x) { return cholesky(x); });
  check_in<double, dims<1, 2, 2>, squares>("cholesky_ill", "ill", 1e-9, [](const auto& x) { return cholesky(x); });
  check<dims<2, 3, 3>>("cholesky_solve", "positive",
                       [](const auto& x) { return cholesky_solve(cholesky(x), operand<dims<2, 3, 2>>(x, "b3")); });
  for (int kind = 0; kind < 8; ++kind) {
    const bool upper = kind & 4, adjoint = kind & 2, unit = kind & 1;
    const std::string name = std::string("triangular_") + "01"[upper] + "01"[adjoint] + "01"[unit];
    check<dims<2, 3, 3>>(
        name, "square",
        [&](const auto& x) {
          return triangular_solve(x, operand<dims<2, 3, 2>>(x, "b3"),
                                  {.lower = !upper, .adjoint = adjoint, .unit_diagonal = unit});
        },
        10);
  }
}

BOOST_AUTO_TEST_CASE(qrs_are_pytorchs) {
  of_all("q", [](const auto& x) { return std::get<0>(qr(x)); });
  of_all("r", [](const auto& x) { return std::get<1>(qr(x)); });
  check<dims<2, 3, 5>>("complete_wide", "wide", [](const auto& x) { return std::get<1>(qr<qr_mode::complete>(x)); });
  const auto x = right().tensor<double, dims<2, 4, 3>>("tall");
  const auto [q, r] = qr<qr_mode::complete>(x);
  static_assert(std::is_same_v<dims_t<decltype(q)>, dims<2, 4, 4>>);
  right().check("complete_q_tall", q);
  right().check("complete_r_tall", r);
  check<dims<2, 4, 3>>(
      "lstsq_tall", "tall", [](const auto& a) { return lstsq(a, operand<dims<2, 4, 2>>(a, "b4")); }, 10);
  check<dims<2, 3, 5>>("lstsq_wide", "wide", [](const auto& a) { return lstsq(a, operand<dims<2, 3, 2>>(a, "b3")); });
}

BOOST_AUTO_TEST_CASE(singular_values_are_pytorchs) {
  of_all("svd", [](const auto& x) {
    const auto [u, s, vt] = svd(x);
    return matmul(u * expand_dims<1>(square(s)), vt);
  });
  of_all("u", [](const auto& x) { return square(std::get<0>(svd(x))); });
  of_all("vt", [](const auto& x) { return square(std::get<2>(svd(x))); });
  of_all("svdvals", [](const auto& x) { return svdvals(x); });
  of_all("pinv", [](const auto& x) { return pinv(x); });
  check<dims<2, 4, 3>>("nuclear", "tall", [](const auto& x) { return nuclear_norm(x); });
  check<dims<2, 3, 5>>("spectral", "wide", [](const auto& x) { return spectral_norm(x); });
  check<dims<3, 4, 3>, dims<batch{}, dyn<"rows">, 3>>("pinv_deficient", "deficient",
                                                      [](const auto& x) { return pinv(x); });
  const auto x = right().tensor<double, dims<3, 4, 3>>("deficient");
  right().check("svdvals_deficient", svdvals(x));
  right().check("rank_deficient", matrix_rank(x));
  right().check("rank_deficient", matrix_rank(cast<float>(x)));
  const tensor<double, dims<2, 2>> small{1, 0, 0, 1e-3};
  BOOST_CHECK_EQUAL(matrix_rank(small)(), 2);
  BOOST_CHECK_EQUAL(matrix_rank(small, 1e-2)(), 1);
  BOOST_CHECK_EQUAL(pinv(small, 1e-2)(1, 1), 0);
}

BOOST_AUTO_TEST_CASE(eigenvalues_are_pytorchs) {
  const auto of_symmetric = [](const std::string& name, auto f) {
    check<dims<2, 4, 4>, squares>(name, "symmetric", f, 10);
  };
  of_symmetric("eigh", [](const auto& x) {
    const auto [values, v] = eigh(x);
    return matmul<transpose_of::b>(v * expand_dims<1>(square(values)), v);
  });
  of_symmetric("eigenvectors", [](const auto& x) { return square(std::get<1>(eigh(x))); });
  of_symmetric("eigvalsh", [](const auto& x) { return eigvalsh(x); });
  right().check("eigvalsh_repeated", eigvalsh(right().tensor<double, dims<3, 3, 3>>("repeated")));
  const auto [real, imaginary] = eigvals(right().tensor<double, dims<3, 3, 3>>("general"));
  std::vector<double> found;
  for (std::size_t i = 0; i < 9; i += 3) {
    std::vector<std::pair<double, double>> each;
    for (std::size_t k = i; k < i + 3; ++k)  // real parts that differ by rounding are equal
      each.emplace_back(std::round(real.data()[k] * 1e6) / 1e6, std::round(imaginary.data()[k] * 1e6) / 1e6 + 0.0);
    std::sort(each.begin(), each.end());
    for (const auto& [re, im] : each) found.push_back(re), found.push_back(im);
  }
  right().check("eigvals", tensor<double, dims<18>>(shape(18), found), 1e-5);
}

BOOST_AUTO_TEST_CASE(functions_of_matrices_are_pytorchs) {
  of_square("sign", [](const auto& x) { return std::get<0>(slogdet(x)) + sum<1, 2>(0 * x); });
  of_square("slogdet", [](const auto& x) { return std::get<1>(slogdet(x)); });
  of_square("exp", [](const auto& x) { return matrix_exp(x); }, 100);
  check_in<double, dims<2, 3, 3>, squares>("exp_large", "large", 1e-8,
                                           [](const auto& x) { return matrix_exp(x / 16); });
  check<dims<1, 1, 1>, squares>("exp_one", "one", [](const auto& x) { return matrix_exp(x); });
  of_square("power_-2", [](const auto& x) { return matrix_power<-2>(x); }, 10);
  of_square("power_0", [](const auto& x) { return matrix_power<0>(x) + 0 * x; });
  of_square("power_1", [](const auto& x) { return matrix_power<1>(x); });
  of_square("power_5", [](const auto& x) { return matrix_power<5>(x); }, 100);
  const tensor<double, dims<2, 2>> singular{1, 2, 2, 4}, large{0, 1e300, 1e300, 0}, turn{0, -1, 1, 0};
  const auto [sign, log_magnitude] = slogdet(singular);
  BOOST_CHECK(sign() == 0 && log_magnitude() == -std::numeric_limits<double>::infinity());
  const auto [negative, log_large] = slogdet(large);
  BOOST_CHECK_EQUAL(negative(), -1);
  BOOST_CHECK_CLOSE(log_large(), 600 * std::log(10.0), 1e-12);
  BOOST_CHECK_CLOSE(matrix_exp(turn)(0, 0), std::cos(1.0), 1e-12);
  BOOST_CHECK(std::isnan(matrix_exp(turn / 0.0)(0, 1)));
}

BOOST_AUTO_TEST_CASE(second_derivatives_of_factorizations) {
  gradient_check check;
  check.tolerance = 2e-5;
  tensor<double, dims<3, 3>> apart;
  for (int i = 0; i < 3; ++i) apart(i, i) = 3 * (i + 1);
  const auto x = check.input<dims<2, 3, 3>>();
  const auto tall = check.input<dims<2, 4, 3>>();
  const auto wide = check.input<dims<2, 2, 3>>();
  const auto b = check.input<dims<2, 3, 2>>();
  const auto spread = constant(check.g, apart);
  const auto symmetric = let(x + transpose<0, 2, 1>(x) + spread), a = let(x + spread);
  const auto positive = let(matmul<transpose_of::b>(x, x) + spread);
  check("cholesky", cholesky(positive));
  check("cholesky_solve", cholesky_solve(cholesky(positive), b));
  check("lower", triangular_solve(a, b));
  check("upper, adjoint", triangular_solve(a, b, {.lower = false, .adjoint = true}));
  check("unit", triangular_solve(0.3 * x, b, {.unit_diagonal = true}));
  const auto more = let(pad<1, 1, 0>(a) + 0.3 * tall);
  const auto fewer = let(0.3 * wide + constant(check.g, eval(slice<0, 0, 2>(apart))));
  const auto [q, r] = qr(more);
  check("q and r", matmul(q * 0.5, r * r));
  const auto [wide_q, wide_r] = qr(fewer);
  check("wide q and r", matmul(wide_q, wide_r * wide_r) * 0.1);
  check("lstsq", lstsq(more, pad<1, 1, 0>(b)));
  check("lstsq of wide", lstsq(fewer, slice<1, 0, 2>(b)));
  const auto [u, s, vt] = svd(more);
  check("svd", square(matmul(u, square(vt))) + pad<1, 1, 0>(0.1 * expand_dims<1>(s) * x));
  const auto [wide_u, wide_s, wide_vt] = svd(fewer);
  check("wide svd", matmul(square(wide_u), square(wide_vt)));
  check("svdvals", svdvals(more));
  check("pinv", pinv(more));
  check("wide pinv", pinv(fewer));
  const auto [values, v] = eigh(symmetric);
  check("eigh", square(v) * expand_dims<1>(values) * 0.1);
  check("eigvalsh", eigvalsh(symmetric));
  check("slogdet", std::get<1>(slogdet(a)));
  check("matrix_exp", matrix_exp(0.3 * x), 3);
  check("matrix_power", matrix_power<3>(x) * 0.1 + matrix_power<-1>(a));
}

BOOST_AUTO_TEST_CASE(matrices_without_factorizations) {
  const auto says = [](auto f, const char* words) {
    CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { static_cast<void>(f()); }), words);
  };
  const tensor<float, dims<3, 2, 2>> a{2, 1, 1, 2, 1, 2, 2, 1, NAN, 0, 0, 1};
  says([&] { return cholesky(a); }, "cholesky: matrix 1 of [3, 2, 2] is not positive definite");
  const tensor<float, dims<3, 2, 2>> zero{1, 0, 5, 1, 1, 1, 1, 1, 1, 0, 1, 0};
  says([&] { return triangular_solve(zero, zero); }, "triangular_solve: matrix 2 of [3, 2, 2] has a 0 on its diagonal");
  BOOST_CHECK_EQUAL(triangular_solve(zero, zero, {.unit_diagonal = true})(2, 1, 0), 0);
  says([&] { return svd(a); }, "svd: matrix 2 of [3, 2, 2] has an element that is not finite");
  says([&] { return svdvals(a); }, "is not finite");
  says([&] { return pinv(a); }, "pinv: matrix 2 of [3, 2, 2] has an element that is not finite");
  says([&] { return eigh(a); }, "eigh: matrix 2 of [3, 2, 2] has an element that is not finite");
  says([&] { return eigvals(a); }, "eigvals: matrix 2");
  BOOST_CHECK(std::isnan(std::get<1>(qr(a))(2, 0, 0)));
  const tensor<double, dims<dyn<"m">, dyn<"n">>> wide(shape(2, 3));
  says([&] { return qr(wide); }, "the matrices are 2x3");
  says([&] { return svd(wide); }, "the matrices are 2x3");
  BOOST_CHECK((pinv(wide).extents() == shape(3, 2)));
  says([&] { return lstsq(tensor<double, dims<3, 2>>(), tensor<double, dims<3, 1>>()); }, "has a 0 on its diagonal");
  graph g;
  const auto x = placeholder<double, dims<3, 2>>(g);
  CHECK_SAYS(test::failure(error_code::unimplemented,
                           [&] { static_cast<void>(gradients(sum(std::get<0>(qr<qr_mode::complete>(x))), x)); }),
             "use qr_mode::reduced");
}

BOOST_AUTO_TEST_CASE(matrices_without_elements) {
  for (const auto& [count, n] : {std::pair{0, 3}, {2, 0}}) {
    const tensor<double, squares> a(shape(count, n, n));
    const auto size = [&](const auto& x) { return static_cast<int>(eval(x).elements()); };
    BOOST_CHECK_EQUAL(size(cholesky(a)) + size(triangular_solve(a, a)) + size(std::get<0>(qr(a))), 0);
    BOOST_CHECK_EQUAL(size(std::get<0>(svd(a))) + size(svdvals(a)) + size(std::get<1>(eigh(a))) + size(eigvalsh(a)), 0);
    BOOST_CHECK_EQUAL(size(std::get<0>(eigvals(a))) + size(pinv(a)) + size(matrix_exp(a)) + size(lstsq(a, a)), 0);
    const auto [sign, log_magnitude] = slogdet(a);
    BOOST_REQUIRE_EQUAL(size(sign), count);
    BOOST_CHECK(count == 0 || (sign(0) == 1 && log_magnitude(0) == 0 && matrix_rank(a)(1) == 0));
  }
  const auto [q, r] = qr<qr_mode::complete>(tensor<float, dims<3, 0>>());
  BOOST_CHECK((q.extents() == shape(3, 3)) && q(0, 0) == 1 && q(2, 1) == 0 && r.elements() == 0);
  BOOST_CHECK((pinv(tensor<float, dims<3, 0>>()).extents() == shape(0, 3)));
  const auto [u, s, vt] = svd(tensor<float, dims<0, 3>>());
  BOOST_CHECK((vt.extents() == shape(0, 3)));
}

// The same bits with any number of threads, and vectors only if something reads them.
BOOST_AUTO_TEST_CASE(batches_of_factorizations_in_a_step) {
  graph g;
  const auto x = placeholder<double, squares>(g);
  const auto [u, s, vt] = svd(x);
  const auto [q, r] = qr(x);
  const auto y = let(matmul(u, q) + vt * r);
  tensor<double, squares> a(shape(100, 11, 11));
  const auto numbers = random_numbers<double>(a.elements(), 3);
  std::copy(numbers.begin(), numbers.end(), a.data());
  std::vector<double> first;
  for (const int threads : {1, 2, 4}) {
    session_on_cpu on{g, {.threads = threads}};
    const auto found = on.eval(y, with(x, a));
    const std::vector<double> now(found.data(), found.data() + found.elements());
    if (threads == 1) first = now;
    BOOST_CHECK(now == first);
  }
  const auto values = svdvals(x);
  const auto [d] = gradients(sum(values), x);
  session_on_cpu on{g};
  const auto [left, one, gradient] = on.run(fetch(u, values, d), with(x, a));
  check_equal(
      "singular values", std::vector<double>(one.data(), one.data() + one.elements()),
      [&] {
        const auto at_once = svdvals(a);
        return std::vector<double>(at_once.data(), at_once.data() + at_once.elements());
      }(),
      1, 1000);
  const auto of_u = on.eval(u, with(x, a));
  BOOST_CHECK(std::equal(of_u.data(), of_u.data() + of_u.elements(), left.data()));
  BOOST_CHECK_EQUAL(on.eval(values, with(x, a)).elements(), 1100u);
  const auto [w, v] = eigh(x);
  BOOST_CHECK_EQUAL(on.eval(v, with(x, a)).elements(), a.elements());
}

// What rounding leaves of equal rows stays parallel to them.
BOOST_AUTO_TEST_CASE(matrices_with_equal_rows_have_singular_values) {
  for (int seed = 0; seed < 60; ++seed) {
    tensor<double, dims<5, 4>> a;
    for (int i = 0; i < 20; ++i) {
      const int row = i / 4, column = i % 4;
      const double u = std::sin(seed + 1.3 * row), w = std::cos(0.7 * seed + column / 2);
      a.data()[i] = 8 * (seed % 3 == 0 ? std::sin(seed + 0.5) : seed % 3 == 1 ? u : u * w);
    }
    const auto [u, s, vt] = svd(a);
    const auto back = eval(matmul(u * expand_dims<0>(s), vt) - a);
    const auto unit = eval(matmul<transpose_of::a>(u, u));
    for (std::size_t i = 0; i < 20; ++i) BOOST_CHECK_SMALL(back.data()[i], 1e-13 * 40);
    for (std::size_t i = 0; i < 4; ++i)
      for (std::size_t j = 0; j < 4; ++j) BOOST_CHECK_SMALL(unit(i, j) - (i == j), 1e-13);
    BOOST_CHECK_SMALL(s(3), 1e-13 * 40);
  }
}
