#define BOOST_TEST_DYN_LINK
#define BOOST_TEST_MODULE matmul
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>
#include <weft/device/cpu/matmul.hpp>

using weft::matmul_shape;
namespace library = weft::library;

namespace {

template <class T>
std::vector<T> random(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<T> uniform(-1, 1);
  std::vector<T> values(count);
  for (T& value : values) value = uniform(engine);
  return values;
}

// Every element within the error that a sum of k products may have, and nothing written outside C.
template <class Policy, class T>
void check(const matmul_shape& s, T alpha, T beta, weft::thread_pool* pool = nullptr) {
  BOOST_TEST_CONTEXT("m " << s.m << " n " << s.n << " k " << s.k << " transposed " << s.transpose_a << s.transpose_b
                          << " alpha " << alpha << " beta " << beta) {
    const auto a = random<T>(s.m * s.k, 1), b = random<T>(s.k * s.n, 2);
    auto c = random<T>(s.m * s.n, 3), expected = c;
    if (beta == 0) c.assign(c.size(), std::numeric_limits<T>::quiet_NaN());
    c.push_back(42);
    weft::matmul<Policy>(s, alpha, a.data(), b.data(), beta, c.data(), pool);
    weft::matmul_naive(s, alpha, a.data(), b.data(), beta, expected.data());
    const T bound = std::numeric_limits<T>::epsilon() * static_cast<T>(s.k + 2) * (std::abs(alpha) + std::abs(beta));
    bool equal = c.back() == 42;
    for (std::size_t i = 0; i < expected.size(); ++i) equal = equal && std::abs(c[i] - expected[i]) <= bound;
    BOOST_CHECK(equal);
  }
}

template <class Policy, class T>
void check_all() {
  const std::size_t extents[] = {1, 2, 3, 5, 7, 8, 13, 16, 31, 33, 100};
  for (std::size_t m : extents)
    for (std::size_t n : extents)
      for (std::size_t k : {0u, 1u, 2u, 8u, 9u, 10u, 100u})
        for (unsigned form = 0; form < 4; ++form) {
          const matmul_shape s{m, n, k, (form & 1) != 0, (form & 2) != 0};
          check<Policy, T>(s, T(1), T(0));
          check<Policy, T>(s, T(-0.5), T(1));
          check<Policy, T>(s, T(2), T(0.25));
        }
  weft::thread_pool pool(2);
  for (const auto& [m, n, k] : {std::array<std::size_t, 3>{100, 300, 784},
                                {784, 100, 100},
                                {97, 2100, 20},
                                {600, 64, 600},
                                {1, 2000, 1500},
                                {300, 1, 7000}})
    for (unsigned form = 0; form < 4; ++form)
      for (weft::thread_pool* threads : {static_cast<weft::thread_pool*>(nullptr), &pool}) {
        check<Policy, T>({m, n, k, (form & 1) != 0, (form & 2) != 0}, T(1), T(0), threads);
        check<Policy, T>({m, n, k, (form & 1) != 0, (form & 2) != 0}, T(-0.5), T(1), threads);
      }
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_naive_product_is_the_definition) {
  const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, 2, 1, 0, 3};
  float c[] = {1, 1, 1, 1};
  weft::matmul_naive({2, 2, 3}, 2.0f, a, b, 10.0f, c);
  const float expected[] = {20, 32, 38, 56};
  BOOST_TEST(c == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(reference_float) { check_all<library::reference, float>(); }
BOOST_AUTO_TEST_CASE(reference_double) { check_all<library::reference, double>(); }
#if defined(WEFT_HAS_DNNL)
BOOST_AUTO_TEST_CASE(dnnl_float) { check_all<library::dnnl, float>(); }
BOOST_AUTO_TEST_CASE(dnnl_leaves_double_to_others) { check_all<library::dnnl, double>(); }
#endif
#if defined(WEFT_HAS_CBLAS)
BOOST_AUTO_TEST_CASE(cblas_float) { check_all<library::cblas, float>(); }
BOOST_AUTO_TEST_CASE(cblas_double) { check_all<library::cblas, double>(); }
#endif

BOOST_AUTO_TEST_CASE(the_number_of_threads_does_not_change_the_bits) {
  weft::thread_pool two(2), three(3);
  for (const auto& s :
       {matmul_shape{100, 100, 784}, matmul_shape{784, 2000, 100, true, false}, matmul_shape{512, 512, 512},
        matmul_shape{100, 2000, 784, false, true}, matmul_shape{1, 3000, 800}, matmul_shape{1000, 250, 300},
        matmul_shape{130, 128, 128}, matmul_shape{1030, 1025, 300}}) {
    const auto a = random<float>(s.m * s.k, 1), b = random<float>(s.k * s.n, 2);
    std::vector<float> alone(s.m * s.n), shared = alone;
    weft::matmul(s, 1, a.data(), b.data(), 0, alone.data());
    for (weft::thread_pool* pool : {&two, &three}) {
      weft::matmul(s, 1, a.data(), b.data(), 0, shared.data(), pool);
      BOOST_REQUIRE(std::equal(alone.begin(), alone.end(), shared.begin()));
    }
  }
}

// Where the last tile is moved left, each element is still computed as in any other tile.
BOOST_AUTO_TEST_CASE(own_tiles_give_the_same_bits_wherever_the_matrix_is_cut) {
  const matmul_shape whole{50, 90, 70};
  const auto a = random<float>(whole.m * whole.k, 1), b = random<float>(whole.k * whole.n, 2);
  std::vector<float> c(whole.m * whole.n), cut(whole.m * whole.n);
  library::reference::matmul(whole, 1.0f, a.data(), 70, b.data(), 90, 0.0f, c.data(), 90);
  for (std::size_t i = 0, rows = 0; i < whole.m; i += rows)
    for (std::size_t j = 0, columns = 0; j < whole.n; j += columns) {
      rows = std::min<std::size_t>(11, whole.m - i), columns = std::min<std::size_t>(33, whole.n - j);
      library::reference::matmul({rows, columns, whole.k}, 1.0f, &a[i * 70], 70, &b[j], 90, 0.0f, &cut[i * 90 + j], 90);
    }
  BOOST_TEST((c == cut));
}
