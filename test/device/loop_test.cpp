#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>
#include <weft/weft.hpp>

using namespace weft;
namespace dev = weft::device;

namespace {

// Elements of which an operand and a result of the same size just exceed the caches, and do not.
template <class T>
constexpr std::size_t beyond = (std::size_t{32} << 20) / sizeof(T) + 1;
template <class T>
constexpr std::size_t within = beyond<T> - 1;

template <class T>
T sample(std::size_t i) {
  return static_cast<T>(i * 7 % 101);
}

template <class T>
void twice_plus_one(const void* const* in, void* const* out, std::size_t n, const std::uint64_t*) {
  for (std::size_t i = 0; i < n; ++i)
    static_cast<T*>(out[0])[i] = static_cast<T>(2 * static_cast<const T*>(in[0])[i] + 1);
}

template <class T>
dev::loop map_of(std::size_t n) {
  const dev::operand one{dtype_of<T>, {1}};
  const auto how = dev::combine::store;
  return dev::loop(shape(n), 1, &one, 1, &one, &how, nullptr, twice_plus_one<T>, nullptr);
}

// The result begins `shift` elements behind an aligned address; what stands around it must stay.
template <class T>
void check_map(std::size_t n, std::size_t shift, std::size_t chunks = 1) {
  BOOST_TEST_CONTEXT("elements of " << sizeof(T) << " bytes, " << n << " of them, shifted by " << shift) {
    constexpr std::size_t guard = 64;
    const T mark = T(99);
    std::vector<T> x(n + shift), y(n + shift + 2 * guard, mark);
    for (std::size_t i = 0; i < n; ++i) x[shift + i] = sample<T>(i);
    const void* in = x.data() + shift;
    void* out = y.data() + guard + shift;
    const auto loop = map_of<T>(n);
    for (std::size_t c = 0; c < chunks; ++c) loop.run(&in, &out, nullptr, c, chunks);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < n; ++i) wrong += y[guard + shift + i] != static_cast<T>(2 * sample<T>(i) + 1);
    for (std::size_t i = 0; i < guard + shift; ++i) wrong += y[i] != mark;
    for (std::size_t i = guard + shift + n; i < y.size(); ++i) wrong += y[i] != mark;
    BOOST_CHECK_EQUAL(wrong, 0u);
  }
}

using vec = tensor<float, dims<dyn<"n">>>;
using rows = tensor<float, dims<dyn<"n">, 7>>;

vec numbers(std::size_t n, float scale) {
  vec v{shape(n)};
  float* to = v.data();
  for (std::size_t i = 0; i < n; ++i) to[i] = scale * static_cast<float>(i % 1021) - 3;
  return v;
}

}  // namespace

BOOST_AUTO_TEST_CASE(maps_on_both_sides_of_what_the_caches_hold) {
  BOOST_CHECK(!dev::exceeds_caches(2 * sizeof(float) * within<float>));
  BOOST_CHECK(dev::exceeds_caches(2 * sizeof(float) * beyond<float>));
  for (const std::size_t n : {within<float>, beyond<float>, beyond<float> + 255}) check_map<float>(n, 0);
  for (const std::size_t shift : {1u, 3u, 4u, 15u}) check_map<float>(beyond<float> + 3, shift);
  check_map<float>(beyond<float> + 1, 1, 16);
  check_map<double>(beyond<double> + 1, 1);
  check_map<std::uint8_t>(beyond<std::uint8_t> + 5, 13);
  check_map<std::int16_t>(beyond<std::int16_t> + 5, 1);
}

BOOST_AUTO_TEST_CASE(a_large_map_in_place) {
  const std::size_t n = beyond<float> + 9;
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = sample<float>(i);
  const void* in = x.data();
  void* out = x.data();
  map_of<float>(n).run(&in, &out, nullptr);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) wrong += x[i] != 2 * sample<float>(i) + 1;
  BOOST_CHECK_EQUAL(wrong, 0u);
}

// What is large is computed in other pieces than what is small; the elements do not know.
BOOST_AUTO_TEST_CASE(large_expressions) {
  const std::size_t n = beyond<float> + 77;
  const vec a = numbers(n, 0.5f), b = numbers(n, 0.25f);
  const vec product = a * b + 1.0f;
  vec own = a;
  own = own * b + own;
  const tensor<float> four = 4;
  const vec scaled = a * four;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const float x = a.data()[i], y = b.data()[i];  // small numbers with few bits: nothing is rounded
    wrong += product.data()[i] != x * y + 1 || own.data()[i] != x * y + x || scaled.data()[i] != 4 * x;
  }
  BOOST_CHECK_EQUAL(wrong, 0u);
}

BOOST_AUTO_TEST_CASE(large_broadcasts_and_reductions) {
  const std::size_t n = beyond<float> / 7 + 5;
  rows m{shape(n, 7)};
  float* to = m.data();
  for (std::size_t i = 0; i < n * 7; ++i) to[i] = static_cast<float>(i % 5);
  const tensor<float, dims<7>> row{1, 2, 3, 4, 5, 6, 7};
  const rows shifted = m - row;
  const tensor<float, dims<7>> totals = mean<0>(m);
  std::size_t wrong = 0;
  std::vector<double> expected(7);
  for (std::size_t i = 0; i < n * 7; ++i) {
    wrong += shifted.data()[i] != m.data()[i] - row.data()[i % 7];
    expected[i % 7] += m.data()[i];
  }
  BOOST_CHECK_EQUAL(wrong, 0u);
  for (int c = 0; c < 7; ++c)
    BOOST_CHECK_CLOSE(double{totals(c)}, expected[static_cast<std::size_t>(c)] / static_cast<double>(n), 1e-3);
}

BOOST_AUTO_TEST_CASE(large_reductions) {
  for (const std::size_t n : {beyond<float> - 3, 2 * beyond<float> + 1000}) {
    const vec a = numbers(n, 0.125f);
    double total = 0, largest = a.data()[0];
    for (const float x : a) total += double{x} * double{x}, largest = std::max(largest, double{x});
    const float sum_of_squares = sum(square(a)), maximum = max(a);
    BOOST_CHECK_CLOSE(double{sum_of_squares}, total, 1e-3);
    BOOST_CHECK_EQUAL(double{maximum}, largest);
  }
}

// Rounding of equal terms has one direction: a plain running sum of so many is off by parts in ten thousand.
BOOST_AUTO_TEST_CASE(large_sums_lose_nothing) {
  for (const std::size_t n : {std::size_t{1'000'000}, within<float> / 2, 2 * beyond<float> + 1000}) {
    vec a{shape(n)};
    std::fill_n(a.data(), n, 0.1f);
    const double exact = double{0.1f} * static_cast<double>(n);
    const float now = sum(a), product_of_ones = product(a * 10.0f), average = mean(a);
    graph g;
    const auto x = placeholder<float, dims<dyn<"n">>>(g);
    session s{g, {.threads = 2}};
    BOOST_CHECK_CLOSE(double{now}, exact, 1e-4);
    BOOST_CHECK_CLOSE(double{s.eval(sum(x), with(x, a))}, exact, 1e-4);
    BOOST_CHECK_CLOSE(average, 0.1f, 1e-4);
    BOOST_CHECK_EQUAL(product_of_ones, 1.0f);
  }
  tensor<float, dims<50000, 200>> m;  // rows of a result that all share
  std::fill_n(m.data(), m.elements(), 0.3f);
  const float all = sum(m - tensor<float, dims<200>>());
  BOOST_CHECK_CLOSE(double{all}, double{0.3f} * 1e7, 1e-4);
}

// Every length of a tail, and both sides of every block.
BOOST_AUTO_TEST_CASE(reductions_of_any_length) {
  for (std::size_t n = 0; n < 20000; n += n < 300 || n % 64 > 61 || n % 64 < 2 ? 1 : 61) {
    vec a{shape(n)};
    double total = 0, product_of_all = 1;
    for (std::size_t i = 0; i < n; ++i) {
      const float x = i % 3 == 0 ? 2 : i % 3 == 1 ? 0.5f : -1;
      a.data()[i] = x, total += double{x}, product_of_all *= double{x};
    }
    const float s = sum(a), p = product(a), m = mean(a * 2.0f);
    BOOST_REQUIRE_EQUAL(double{s}, total);
    BOOST_REQUIRE_EQUAL(double{p}, product_of_all);
    if (n > 0) BOOST_REQUIRE_CLOSE(double{m}, 2 * total / static_cast<double>(n), 1e-3);
  }
}

BOOST_AUTO_TEST_CASE(a_large_step_has_the_bits_of_a_small_one_on_any_number_of_threads) {
  const std::size_t n = beyond<float> / 2 + 1001;
  graph g;
  const auto x = placeholder<float, dims<dyn<"n">>>(g), y = placeholder<float, dims<dyn<"n">>>(g);
  const auto z = let(sigmoid(x) * y + x);
  const auto dx = gradients(sum(tanh(x * y)), x);
  const vec a = numbers(n, 0.001f), b = numbers(n, -0.002f);
  std::vector<float> first;
  for (const int threads : {1, 2, 3}) {
    session s{g, {.threads = threads}};
    auto step = s.prepare(fetch(z, std::get<0>(dx), sum(square(x - y))), feed(x, y));
    const auto [values, gradient, distance] = step(a, b);
    std::vector<float> seen(values.begin(), values.end());
    seen.insert(seen.end(), gradient.begin(), gradient.end());
    seen.push_back(distance);
    if (first.empty()) {
      first = seen;
      for (std::size_t at = 0; at + 1000 < n; at += n / 7) {
        vec part_a(shape(1000)), part_b(shape(1000));
        std::copy_n(a.data() + at, 1000, part_a.data()), std::copy_n(b.data() + at, 1000, part_b.data());
        const auto [v, d, unused] = step(part_a, part_b);
        BOOST_CHECK(std::equal(v.begin(), v.end(), seen.begin() + static_cast<std::ptrdiff_t>(at)));
        BOOST_CHECK(std::equal(d.begin(), d.end(), seen.begin() + static_cast<std::ptrdiff_t>(n + at)));
      }
    }
    BOOST_CHECK(seen == first);
  }
}
