// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <random>
#include <vector>
#include <weft/device/cpu/definitions.hpp>
#include <weft/device/cpu/matmul.hpp>
#include <weft/device/cpu/matmul_kernel.hpp>

using weft::matmul_shape;
namespace library = weft::library;

namespace {

template <class T>
std::vector<T> random(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<weft::accumulator<T>> uniform(-1, 1);
  std::vector<T> values(count);
  for (T& value : values) value = uniform(engine);
  return values;
}

// The distance between two neighbours, relative to the larger one at most.
template <class T>
inline constexpr float spacing = std::is_same_v<T, weft::half>       ? 0x1p-10f
                                 : std::is_same_v<T, weft::bfloat16> ? 0x1p-7f
                                                                     : 0;

struct coefficients {
  float alpha, beta;
};

// Every element within the error that a sum of k products may have and, where it is rounded once more, a neighbour; and
// nothing written outside C.
template <class Policy, class T, class N = weft::accumulator<T>>
void check(const matmul_shape& s, std::initializer_list<coefficients> all,
           std::initializer_list<weft::thread_pool*> pools = {nullptr}) {
  const auto a = random<T>(s.m * s.k, 1), b = random<T>(s.k * s.n, 2), c = random<T>(s.m * s.n, 3);
  std::vector<N> product(c.size());
  weft::matmul_naive<N>(s, 1, std::vector<N>(a.begin(), a.end()).data(), std::vector<N>(b.begin(), b.end()).data(), 0,
                        product.data());
  for (const auto [alpha, beta] : all)
    for (weft::thread_pool* pool : pools) {
      auto found = c;
      if (beta == 0) found.assign(c.size(), T(std::numeric_limits<N>::quiet_NaN()));
      found.push_back(T(42));
      weft::matmul<Policy>(s, N(alpha), a.data(), b.data(), N(beta), found.data(), pool);
      const N bound = std::numeric_limits<N>::epsilon() * static_cast<N>(s.k + 2) * (std::abs(alpha) + std::abs(beta));
      bool equal = found.back() == 42;
      for (std::size_t i = 0; i < c.size(); ++i) {
        const N right = N(alpha) * product[i] + N(beta) * N(c[i]);
        equal = equal && std::abs(N(found[i]) - right) <= bound + spacing<T> * std::abs(right);
      }
      BOOST_CHECK_MESSAGE(equal, "m " << s.m << " n " << s.n << " k " << s.k << " transposed " << s.transpose_a
                                      << s.transpose_b << " alpha " << alpha << " beta " << beta);
    }
}

template <class Policy, class T>
void check_all() {
  const std::size_t extents[] = {1, 2, 3, 5, 7, 8, 13, 16, 31, 33, 100};
  for (std::size_t m : extents)
    for (std::size_t n : extents)
      for (std::size_t k : {0u, 1u, 2u, 8u, 9u, 10u, 100u})
        for (unsigned form = 0; form < 4; ++form)
          check<Policy, T>({m, n, k, (form & 1) != 0, (form & 2) != 0}, {{1, 0}, {-0.5, 1}, {2, 0.25}});
  for (std::size_t n : {32u, 64u, 96u, 128u, 192u, 256u})  // rows that fit into registers
    for (unsigned form = 0; form < 4; ++form)
      for (std::size_t m : {1u, 2u})
        check<Policy, T>({m, n, 70, (form & 1) != 0, (form & 2) != 0}, {{1, 0}, {2, 0.25}});
  weft::thread_pool pool(2);
  for (const auto& [m, n, k] : {std::array<std::size_t, 3>{100, 300, 784},
                                {784, 100, 100},
                                {97, 2100, 20},
                                {600, 64, 600},
                                {61, 1100, 801},
                                {1, 2000, 1500},
                                {300, 1, 7000}})
    for (unsigned form = 0; form < 4; ++form)
      check<Policy, T>({m, n, k, (form & 1) != 0, (form & 2) != 0}, {{1, 0}, {-0.5, 1}}, {nullptr, &pool});
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

BOOST_AUTO_TEST_CASE(half) { check_all<library::best, weft::half>(); }
BOOST_AUTO_TEST_CASE(bfloat16) { check_all<library::best, weft::bfloat16>(); }

// Summed in its own type, 1 + 1 + ... ends at 256 where the next number is 258, and at 2048 where it is 2050.
BOOST_AUTO_TEST_CASE(storage_types_are_summed_in_float) {
  const std::size_t k = 4098;
  const std::vector<weft::bfloat16> ones(k, weft::bfloat16(1));
  weft::bfloat16 sum;
  weft::matmul({1, 1, k}, 1, ones.data(), ones.data(), 0, &sum);
  BOOST_CHECK_EQUAL(static_cast<float>(sum), 4096);
  const std::vector<weft::half> halves(k, weft::half(1));
  weft::half total;
  weft::matmul({1, 1, k}, 1, halves.data(), halves.data(), 0, &total);
  BOOST_CHECK_EQUAL(static_cast<float>(total), 4096);  // 4098 lies between 4096 and 4100: to even
  weft::matmul({1, 1, k}, 0.5f, halves.data(), halves.data(), 1, &total);
  BOOST_CHECK_EQUAL(static_cast<float>(total), 6144);  // rounded from 6145
}

template <class T>
void check_threads() {
  weft::thread_pool two(2), three(3);
  for (const auto& s :
       {matmul_shape{100, 100, 784}, matmul_shape{784, 2000, 100, true, false}, matmul_shape{512, 512, 512},
        matmul_shape{100, 2000, 784, false, true}, matmul_shape{1, 3000, 800}, matmul_shape{1, 256, 9000},
        matmul_shape{1000, 250, 300}, matmul_shape{130, 128, 128}, matmul_shape{1030, 1025, 300}}) {
    const auto a = random<T>(s.m * s.k, 1), b = random<T>(s.k * s.n, 2);
    std::vector<T> alone(s.m * s.n), shared = alone;
    weft::matmul(s, 1, a.data(), b.data(), 0, alone.data());
    for (weft::thread_pool* pool : {&two, &three}) {
      weft::matmul(s, 1, a.data(), b.data(), 0, shared.data(), pool);
      BOOST_REQUIRE(std::equal(alone.begin(), alone.end(), shared.begin()));
    }
  }
}

BOOST_AUTO_TEST_CASE(the_number_of_threads_does_not_change_the_bits) {
  check_threads<float>();
  check_threads<weft::half>();
  check_threads<weft::bfloat16>();
}

// The kernel that a graph has, which may be oneDNN's: near the definition, and the same bits on any number of threads.
BOOST_AUTO_TEST_CASE(kernels_of_bfloat16) {
  using weft::bfloat16;
  weft::thread_pool one(1), three(3);
  for (const auto& [m, n, k] : {std::array<std::size_t, 3>{100, 300, 784},
                                {784, 10, 100},
                                {1, 2000, 1500},
                                {300, 1, 700},
                                {33, 17, 15},
                                {600, 640, 65},
                                {700, 400, 300}})
    for (unsigned form = 0; form < 4; ++form) {
      const matmul_shape s{m, n, k, (form & 1) != 0, (form & 2) != 0};
      auto a = random<bfloat16>(m * k, 1), b = random<bfloat16>(k * n, 2);
      std::vector<bfloat16> alone(m * n + 1, bfloat16(42)), shared = alone, expected = alone;
      weft::matmul_naive(s, 1, a.data(), b.data(), 0, expected.data());
      weft::kernel* const product = weft::device::make_matmul_kernel<bfloat16>(s, 0, 1, 2);
      for (auto* c : {&alone, &shared}) {
        std::byte* const buffers[] = {reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<std::byte*>(b.data()),
                                      reinterpret_cast<std::byte*>(c->data())};
        const weft::storage workspace(product->workspace_bytes());
        product->run({buffers, c == &alone ? &one : &three, nullptr, workspace.data()});
      }
      delete product;
      bool close = true, equal = true;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const float right = expected[i], found = alone[i];
        close = close && std::abs(found - right) <= spacing<bfloat16> * std::abs(right) + 1e-6f * static_cast<float>(k);
        equal = equal && alone[i].bits == shared[i].bits;
      }
      BOOST_CHECK_MESSAGE(close && equal, m << " " << n << " " << k << " form " << form << " " << close << equal);
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
