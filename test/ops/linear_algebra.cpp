// SPDX-License-Identifier: BSL-1.0
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>
#include <weft/ops/linear_algebra/lu.hpp>

#include "errors.hpp"
#include "gradient_check.hpp"
#include "session_on_cpu.hpp"

using namespace weft;

// Products of many matrices, inverses, determinants, linear systems.

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

/// Checks a product by its definition; `then` is done to each element.
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
  check_form<float, t::a, dims<batch{}, 2, 7, rows{}>, dims<7, 5>>(shape(3, 2, 7, 4), shape(7, 5));
  check_form<double, t::both, dims<batch{}, 7, rows{}>, dims<5, 7>>(shape(30, 7, 64), shape(5, 7));
  check_form<bfloat16, t::a, dims<batch{}, 7, rows{}>, dims<7, 5>>(shape(2, 7, 3), shape(7, 5));
  check_form<float, t::both, dims<batch{}, 7, rows{}>, dims<5, 7>>(shape(0, 7, 6), shape(5, 7));
  static_assert(std::is_same_v<dims_t<decltype(matmul(tensor<float, dims<4, 3, 7>>(), tensor<float, dims<7, 5>>()))>,
                               dims<4, 3, 5>>);
  static_assert(
      std::is_same_v<dims_t<decltype(matmul<t::a>(tensor<float, dims<2, 3, 4>>(), tensor<float, dims<3, 5>>()))>,
                     dims<2, 4, 5>>);
  // Symbols, in which gradients are written.
  graph g;
  const auto x = placeholder<float, dims<2, 3, 4>>(g);
  const auto w = placeholder<float, dims<3, 5>>(g);
  BOOST_CHECK((matmul<float>(x.erased(), w.erased(), true).extents() == shape(2, 4, 5)));
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
#if !WEFT_COMPILES_FOR_GPU
  CHECK_SAYS(step.explain(), "matmul 40 of 64x8x64, then map");
  CHECK_SAYS(step.explain(), "matmul 2560x8x64, then map");
#endif
  check_product(a, b, found, false, false, each);
  check_product(a, w, found_one, false, false, each);
  // The gradients that arrive at the products, and what the products and the sums make of them.
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

// The gradients are added to the variables by the products that make them, in float.
template <class T>
void check_descent() {
  const auto a = filled<float, dims<5, 4, 6>>(shape(5, 4, 6), 1);
  const auto up = filled<float, dims<5, 4, 3>>(shape(5, 4, 3), 2);
  const auto one = filled<float, dims<6, 3>>(shape(6, 3), 3);
  const auto many = filled<float, dims<5, 6, 3>>(shape(5, 6, 3), 4);
  graph g;
  const auto x = placeholder<float, dims<5, 4, 6>>(g);
  const auto weight = placeholder<float, dims<5, 4, 3>>(g);
  const auto w = variable<float, dims<6, 3>>(g, "one", one);
  const auto v = variable<float, dims<5, 6, 3>>(g, "many", many);
  const auto times = [](const auto& left, const auto& right) {
    return cast<float>(matmul(cast<T>(left), cast<T>(right)));
  };
  const auto loss = sum(times(x, w) * weight) + sum(times(x, v) * weight);
  const auto train = gradient_descent{.learning_rate = 0.5}.minimize(loss);
  session s{g, {.threads = 2}};
  s.run(fetch(train), with(x, a), with(weight, up));
  const auto found = s.get(w);
  const auto found_many = s.get(v);
  std::size_t wrong = 0;
  for (int k = 0; k < 6; ++k)
    for (int n = 0; n < 3; ++n) {
      float all = 0;
      for (int i = 0; i < 5; ++i) {
        float sum = 0;
        for (int row = 0; row < 4; ++row) sum += a(i, row, k) * up(i, row, n);
        wrong += found_many(i, k, n) != many(i, k, n) - 0.5f * sum;
        all += sum;
      }
      wrong += found(k, n) != one(k, n) - 0.5f * all;
    }
  BOOST_CHECK_EQUAL(wrong, 0u);
}

BOOST_AUTO_TEST_CASE(factors_are_trained) {
  check_descent<float>();
  check_descent<weft::half>();
  check_descent<bfloat16>();
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
  form("of the transposed with one", std::integral_constant<t, t::a>{}, dims<2, 1, 3, 2>{}, dims<3, 2>{});
  form("of both transposed with one", std::integral_constant<t, t::both>{}, dims<2, 3, 2>{}, dims<2, 3>{});
}

BOOST_AUTO_TEST_CASE(matrices_that_do_not_fit) {
  const tensor<float, dims<batch{}, 2, 3>> a(shape(4, 2, 3));
  const tensor<float, dims<batch{}, 3, 2>> b(shape(5, 3, 2));
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { static_cast<void>(eval(matmul(a, b))); }),
             "the extent batch is 4 in [4, 2, 3] and 5 in [5, 3, 2]");
}

// ---- inverses, determinants, linear systems ----

namespace {

using extent_n = dyn_extent<"n">;
using extent_m = dyn_extent<"m">;
using squares = dims<batch{}, extent_n{}, extent_n{}>;
using right_sides = dims<batch{}, extent_n{}, extent_m{}>;

/// A line of numbers.
template <class T, class D>
tensor<T, D> read(std::istream& in, const shape& extents) {
  std::string line, word;
  std::getline(in, line);
  std::istringstream words(line);
  tensor<T, D> x(extents);
  for (std::size_t i = 0; i < x.elements(); ++i) {
    words >> word;
    x.data()[i] = static_cast<T>(std::stod(word));
  }
  BOOST_REQUIRE(words && !(words >> word));
  return x;
}

template <class Tensor>
void check_close(const char* what, const Tensor& found, const Tensor& right, double tolerance) {
  BOOST_REQUIRE(found.extents() == right.extents());
  double worst = 0;
  for (std::size_t i = 0; i < found.elements(); ++i) {
    const double error = std::abs(static_cast<double>(found.data()[i]) - static_cast<double>(right.data()[i]));
    worst = error <= worst ? worst : error / (1 + std::abs(static_cast<double>(right.data()[i])));
  }
  BOOST_CHECK_MESSAGE(worst <= tolerance, what << " is off by " << worst);
}

template <class T>
void check_values(double tolerance) {
  std::ifstream in(TEST_DATA "/ops/linear_algebra_values.txt");
  BOOST_REQUIRE_MESSAGE(in, TEST_DATA "/ops/linear_algebra_values.txt" << " cannot be read");
  std::string word;
  std::getline(in, word);
  graph g;
  const auto x = placeholder<T, squares>(g);
  const auto y = placeholder<T, right_sides>(g);
  session s{g, {.threads = 2}};
  auto step = s.prepare(fetch(inverse(x), determinant(x), solve(x, y), solve<transpose_of::a>(x, y)), feed(x, y));
  int cases = 0;
  for (std::int64_t count, n, m; in >> word >> count >> n >> m; ++cases) {
    BOOST_REQUIRE_EQUAL(word, "case");
    std::getline(in, word);
    const shape square(count, n, n), right_side(count, n, m);
    const auto a = read<T, squares>(in, square);
    const auto b = read<T, right_sides>(in, right_side);
    const auto inverses = read<T, squares>(in, square);
    const auto determinants = read<T, dims<batch{}>>(in, shape(count));
    const auto solutions = read<T, right_sides>(in, right_side), of_transposed = read<T, right_sides>(in, right_side);
    check_close("an inverse", inverse(a), inverses, tolerance);
    check_close("a determinant", determinant(a), determinants, tolerance);
    check_close("a solution", solve(a, b), solutions, tolerance);
    check_close("a solution of the transposed", solve<transpose_of::a>(a, b), of_transposed, tolerance);
    const auto [i, d, of_a, of_at] = step(a, b);
    check_close("an inverse in a step", i, inverses, tolerance);
    check_close("a determinant in a step", d, determinants, tolerance);
    check_close("a solution in a step", of_a, solutions, tolerance);
    check_close("a solution of the transposed in a step", of_at, of_transposed, tolerance);
  }
  BOOST_CHECK_EQUAL(cases, 6);
}

/// Random, in (-1, 1).
template <class T>
std::vector<T> random_numbers(std::size_t n, std::uint64_t seed) {
  const random_stream r(seed, 1);
  std::vector<T> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<T>(2 * r.uniform(i) - 1);
  return v;
}

/// Checks the residual of a right side, over the largest error that rounding explains.
template <class Library, class T>
void check_factorization(std::size_t n, std::size_t m) {
  thread_pool one(1), three(3);
  const auto a = random_numbers<T>(n * n, n), b = random_numbers<T>(n * m, n + 1);
  for (const bool transposed : {false, true}) {
    std::vector<T> x[2];
    for (const int round : {0, 1}) {
      auto lu = a;
      x[round] = b;
      std::vector<std::int32_t> pivots(n);
      thread_pool* const pool = round ? &three : nullptr;
      BOOST_REQUIRE(Library::factorize(n, lu.data(), pivots.data(), pool));
      Library::solve(n, m, lu.data(), pivots.data(), transposed, x[round].data(), pool);
    }
    BOOST_CHECK_MESSAGE(x[0] == x[1], "other bits with three threads, n " << n);
    double worst = 0;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t c = 0; c < m; ++c) {
        double sum = -static_cast<double>(b[i * m + c]), size = std::abs(sum);
        for (std::size_t k = 0; k < n; ++k) {
          const double term = static_cast<double>(transposed ? a[k * n + i] : a[i * n + k]) * x[0][k * m + c];
          sum += term, size += std::abs(term);
        }
        worst = std::max(worst, std::abs(sum) / size);
      }
    const double rounding = std::numeric_limits<T>::epsilon();
    BOOST_CHECK_MESSAGE(worst <= 30 * rounding, n << " by " << m << " is off by " << worst / rounding << " roundings");
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(linear_algebra_is_numpys) {
  check_values<double>(1e-13);
  check_values<float>(3e-5);
}

BOOST_AUTO_TEST_CASE(factorizations_of_many_sizes) {
  for (const auto& [n, m] : {std::pair{1, 1}, {2, 3}, {63, 1}, {64, 5}, {65, 64}, {130, 70}, {260, 3}}) {
    const auto rows = static_cast<std::size_t>(n), columns = static_cast<std::size_t>(m);
    check_factorization<library::reference_lu, float>(rows, columns);
    check_factorization<library::reference_lu, double>(rows, columns);
#if defined(WEFT_HAS_LAPACK)
    check_factorization<library::lapack, float>(rows, columns);
    check_factorization<library::lapack, double>(rows, columns);
#endif
  }
}

// One that threads share, and many that they divide: the same bits with any number of them.
BOOST_AUTO_TEST_CASE(threads_make_no_difference_to_inverses) {
  graph g;
  const auto x = placeholder<double, squares>(g);
  const auto y = let(inverse(x));
  const auto [dx] = gradients(sum(determinant(x * 0.25)) + sum(y * y), x);
  for (const auto& [count, n] : {std::pair{1, 300}, {200, 11}, {0, 4}, {3, 0}}) {
    tensor<double, squares> a(shape(count, n, n));
    const auto numbers = random_numbers<double>(a.elements(), 3);
    std::copy(numbers.begin(), numbers.end(), a.data());
    std::vector<double> first, first_gradient;
    for (const int threads : {1, 2, 4}) {
      session s{g, {.threads = threads}};
      const auto [found, gradient] = s.run(fetch(y, dx), with(x, a));
      const std::vector<double> now(found.data(), found.data() + found.elements());
      const std::vector<double> now_gradient(gradient.data(), gradient.data() + gradient.elements());
      if (threads == 1) first = now, first_gradient = now_gradient;
      BOOST_CHECK(now == first && now_gradient == first_gradient);
    }
    const auto at_once = inverse(a);
    BOOST_CHECK(std::equal(first.begin(), first.end(), at_once.data()));
  }
  check_close("of nothing", determinant(tensor<double, squares>(shape(2, 0, 0))),
              tensor<double, dims<batch{}>>(shape(2), {1, 1}), 0);
}

BOOST_AUTO_TEST_CASE(matrices_that_are_not_invertible) {
  const tensor<float, dims<3, 2, 2>> a{1, 2, 4, 4, 1, 2, 2, 4, 0, 0, 0, 0};
  const tensor<float, dims<3>> determinants = determinant(a);
  BOOST_CHECK_EQUAL(determinants(0), -4);
  BOOST_CHECK_EQUAL(determinants(1), 0);
  BOOST_CHECK_EQUAL(determinants(2), 0);
  const std::string words = "matrix 1 of [3, 2, 2] has a pivot of 0, so it is not invertible";
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { static_cast<void>(inverse(a)); }), words);
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { static_cast<void>(solve(a, a)); }), words);
  graph g;
  const auto x = variable<float, dims<3, 2, 2>>(g, "x", a);
  const auto y = inverse(x);
  session s{g};
  for (int step = 0; step < 2; ++step)
    CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { static_cast<void>(s.eval(y)); }), words);
  s.set(x, tensor<float, dims<3, 2, 2>>{0, 1, 2, 0, 1, 0, 0, 4, 2, 0, 0, 2});
  check_close("what came after", s.eval(y),
              tensor<float, dims<3, 2, 2>>{0, 0.5f, 1, 0, 1, 0, 0, 0.25f, 0.5f, 0, 0, 0.5f}, 0);
}

namespace {

/// By the first row; `minor` is the matrix without some rows and columns.
double determinant_by_minors(const std::vector<std::vector<double>>& minor) {
  if (minor.empty()) return 1;
  double sum = 0;
  for (std::size_t j = 0; j < minor.size(); ++j) {
    std::vector<std::vector<double>> smaller(minor.begin() + 1, minor.end());
    for (auto& row : smaller) row.erase(row.begin() + static_cast<std::ptrdiff_t>(j));
    sum += (j % 2 ? -1 : 1) * minor[0][j] * determinant_by_minors(smaller);
  }
  return sum;
}

/// The cofactors of matrices of small whole numbers, which are exact.
template <class T>
tensor<T, squares> cofactors_by_minors(const tensor<T, squares>& a) {
  const auto n = static_cast<std::size_t>(a.extents()[1]);
  tensor<T, squares> result{a.extents()};
  for (std::size_t e = 0; e < a.elements(); ++e) {
    const std::size_t first = e / (n * n) * n * n, row = e / n % n, column = e % n;
    std::vector<std::vector<double>> minor;
    for (std::size_t i = 0; i < n; ++i) {
      if (i == row) continue;
      minor.emplace_back();
      for (std::size_t j = 0; j < n; ++j)
        if (j != column) minor.back().push_back(double{a.data()[first + i * n + j]});
    }
    result.data()[e] = static_cast<T>(((row + column) % 2 ? -1 : 1) * determinant_by_minors(minor));
  }
  return result;
}

template <class T>
void check_cofactors(double tolerance) {
  graph g;
  const auto x = placeholder<T, squares>(g);
  const auto d = let(determinant(x));
  const auto [dx] = gradients(sum(d), x);
  session s{g, {.threads = 2}};
  auto step = s.prepare(fetch(d, dx), feed(x));
  for (std::int64_t n = 1; n <= 5; ++n)
    for (std::int64_t rank = 0; rank <= n; ++rank) {
      // Products of n by rank and rank by n whole numbers, some of which have columns and rows of zeros.
      tensor<T, squares> a{shape(20, n, n)};
      const random_stream numbers(static_cast<std::uint64_t>(n * 10 + rank), 1);
      std::uint64_t next = 0;
      for (std::int64_t i = 0; i < 20; ++i) {
        std::vector<double> left, right;
        for (std::int64_t e = 0; e < n * rank; ++e) {
          left.push_back(std::floor(numbers.uniform(next++) * 5) - 2);
          right.push_back(std::floor(numbers.uniform(next++) * 5) - 2);
        }
        for (std::int64_t e = 0; e < n * n; ++e) {
          double sum = 0;
          for (std::int64_t k = 0; k < rank; ++k)
            sum += left[static_cast<std::size_t>(e / n * rank + k)] * right[static_cast<std::size_t>(k * n + e % n)];
          a.data()[i * n * n + e] = static_cast<T>(sum);
        }
      }
      const auto [found, gradient] = step(a);
      check_close("the gradient of a determinant", gradient, cofactors_by_minors(a), tolerance);
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_gradient_of_a_determinant_is_its_cofactors) {
  check_cofactors<double>(1e-11);
  check_cofactors<float>(2e-3);
  graph g;
  const auto x = placeholder<double, dims<3, 3>>(g);
  const auto [dx] = gradients(determinant(x), x);
  const auto [ddx] = gradients(sum(dx * dx), x);
  session s{g};
  const auto last = s.eval(dx, with(x, tensor<double, dims<3, 3>>{1e300, 0, 0, 0, 1e-300, 0, 0, 0, 0}));
  BOOST_CHECK_CLOSE(last(2, 2), 1.0, 1e-10);
  BOOST_CHECK_EQUAL(last(0, 0), 0);
  const tensor<double, dims<3, 3>> singular{1, 2, 3, 2, 4, 6, 1, 0, 1};
  CHECK_SAYS(test::failure(error_code::invalid_argument,
                           [&, &ddx = ddx] { static_cast<void>(s.eval(ddx, with(x, singular))); }),
             "second gradient of determinant: matrix 0 of");
}

BOOST_AUTO_TEST_CASE(determinants_of_any_size) {
  const tensor<double, dims<4, 4>> a{1e300, 0, 0, 0, 0, 0, 1e300, 0, 0, 1e-300, 0, 0, 0, 0, 0, 1e-299};
  BOOST_CHECK_CLOSE(determinant(a)(), -10.0, 1e-12);
  const tensor<float, dims<2, 2>> b{INFINITY, 0, 0, 1}, c{NAN, 1, 1, 1};
  BOOST_CHECK_EQUAL(determinant(b)(), INFINITY);
  BOOST_CHECK(std::isnan(determinant(c)()));
  BOOST_CHECK(std::isnan(inverse(c)(0, 0)));
}

BOOST_AUTO_TEST_CASE(derivatives_of_linear_algebra) {
  gradient_check check;
  tensor<double, dims<3, 3>> far;
  for (int i = 0; i < 3; ++i) far(i, (i + 1) % 3) = 4;
  const auto a = check.input<dims<2, 3, 3>>() + constant(check.g, far);
  const auto b = check.input<dims<2, 3, 2>>();
  check.tolerance = 1e-5;
  check("inverse", inverse(a), 3);
  check("determinant", determinant(a) * 0.1, 3);
  check("solve", solve(a, b), 3);
  check("solve the transposed", solve<transpose_of::a>(a, b), 3);
  check("determinant of one", determinant(sum<0>(a)) * 0.01, 2);
}

#if WEFT_COMPILES_FOR_GPU
// They run on the CPU there unless the program asks for a GPU.
BOOST_AUTO_TEST_CASE(a_gpu_has_no_factorizations) {
  graph g;
  const auto x = placeholder<float, dims<2, 2>>(g, "x");
  const device_scope there(g, weft::cuda{0});
  const auto y = inverse(x);
  session_on_cpu s{g};
  CHECK_SAYS(test::failure(error_code::unimplemented,
                           [&] { static_cast<void>(s.eval(y, with(x, tensor<float, dims<2, 2>>{1, 2, 3, 4}))); }),
             "inverse is placed on");
}
#endif
