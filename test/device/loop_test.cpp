// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
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
  const auto how = dev::reduce_op::store;
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

// Large tensors are computed in other pieces than small ones; the elements do not know.
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
    const float now = sum(a), product_of_ones = prod(a * 10.0f), average = mean(a);
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

namespace {

enum class axes { few, short_ones };

/// A kernel of random axes: in0 has all of them, in1 and each of three results a random subset.
struct random_sums {
  std::mt19937 random;
  shape space;
  std::vector<float> x, y;
  dev::operand in[2], out[3];
  dev::reduce_op how[3];
  const dev::arithmetic* of[3];
  std::size_t outputs;
  std::vector<double> expected[3];
  std::string text;

  static void both(const void* const* from, void* const* to, std::size_t n, const std::uint64_t*) {
    for (std::size_t i = 0; i < n; ++i) {
      const float v = static_cast<const float*>(from[0])[i] + static_cast<const float*>(from[1])[i];
      static_cast<float*>(to[0])[i] = v, static_cast<float*>(to[1])[i] = 2 * v, static_cast<float*>(to[2])[i] = -v;
    }
  }

  static std::size_t results(const shape& s, std::uint32_t kept) {
    std::size_t n = 1;
    for (std::size_t i = 0; i < s.rank; ++i)
      if ((kept >> i) & 1) n *= static_cast<std::size_t>(s[i]);
    return n;
  }
  dev::operand operand_of(std::uint32_t kept) const {
    bool keeps[max_rank];
    for (std::size_t i = 0; i < max_rank; ++i) keeps[i] = (kept >> i) & 1;
    return dev::reduced_operand(dtype::float32, space, keeps);
  }

  /// `whole`: of small whole numbers, whose sums are exact. Rows of several short axes are maxima and minima, too.
  random_sums(unsigned seed, bool whole, axes kind = axes::few) : random(seed) {
    constexpr std::int64_t extents[] = {1, 2, 3, 7, 16, 17, 40, 300, 1100, 5000, 20000, 70000};
    const bool many = kind == axes::short_ones;
    const auto rank = many ? 3 + random() % 6 : 1 + random() % 4;
    for (std::size_t left = 200'000; space.rank < rank;) {
      const std::int64_t n = many ? std::int64_t{1} + random() % 9 : extents[random() % 12];
      if (static_cast<std::size_t>(n) > left) continue;
      space.push_back(n);
      left /= static_cast<std::size_t>(n);
    }
    const std::uint32_t all = (1u << rank) - 1, some = static_cast<std::uint32_t>(random()) & all;
    x.resize(results(space, all)), y.resize(results(space, some));
    const auto number = [&] {
      return whole ? static_cast<float>(random() % 3) : static_cast<float>(random() % 4096 + 1) / 4096;
    };
    for (float& v : x) v = number();
    for (float& v : y) v = number();
    in[0] = operand_of(all), in[1] = operand_of(some);
    outputs = 3;
    text = to_string(space);
    for (std::size_t k = 0; k < outputs; ++k) {
      const std::uint32_t kept = random() % 5 == 0 ? all : static_cast<std::uint32_t>(random()) & all;
      out[k] = operand_of(kept);
      const bool stored = results(space, kept) == space.elements();
      how[k] = stored ? dev::reduce_op::store : random() % 6 == 0 ? dev::reduce_op::discard : dev::reduce_op::sum;
      if (many && how[k] == dev::reduce_op::sum && random() % 3 == 0)
        how[k] = random() % 2 == 0 ? dev::reduce_op::maximum : dev::reduce_op::minimum;
      of[k] = &dev::arithmetic_of<float>;
      const double infinity = std::numeric_limits<double>::infinity();
      expected[k].assign(results(space, kept), how[k] == dev::reduce_op::maximum   ? -infinity
                                               : how[k] == dev::reduce_op::minimum ? infinity
                                                                                   : 0);
      text += ", " + std::to_string(kept) + (stored ? " stored" : how[k] == dev::reduce_op::discard ? " dropped" : "");
    }
    std::size_t index[max_rank]{}, at[5]{};
    for (std::size_t i = 0; i < space.elements(); ++i) {
      const double v = double{x[at[0]]} + double{y[at[1]]};
      for (std::size_t k = 0; k < 3; ++k) {
        double& result = expected[k][at[2 + k]];
        const double term = k == 0 ? v : k == 1 ? 2 * v : -v;
        result = how[k] == dev::reduce_op::maximum   ? std::max(result, term)
                 : how[k] == dev::reduce_op::minimum ? std::min(result, term)
                                                     : result + term;
      }
      for (std::size_t axis = rank; axis-- > 0;) {
        const auto step = [&](std::int64_t by) {
          const dev::operand* operands[] = {&in[0], &in[1], &out[0], &out[1], &out[2]};
          for (int o = 0; o < 5; ++o) at[o] += static_cast<std::size_t>(operands[o]->stride[axis] * by);
        };
        step(1);
        if (++index[axis] < static_cast<std::size_t>(space[axis])) break;
        step(-space[axis]);
        index[axis] = 0;
      }
    }
  }

  /// By a kernel: as a whole on so many threads, or in so many calls for rows, or so many pieces.
  std::vector<std::vector<float>> found(int threads, std::size_t calls, std::size_t pieces) {
    std::vector<std::vector<float>> to;
    const std::uint32_t in_slots[] = {0, 1}, out_slots[] = {2, 3, 4};
    std::size_t elements[3];
    for (std::size_t k = 0; k < 3; ++k) {
      to.emplace_back(expected[k].size(), 77.0f);
      elements[k] = to[k].size();
    }
    dev::loop_kernel kernel(dev::loop(space, 2, in, 3, out, how, of, both, nullptr), {in_slots, out_slots, elements},
                            {}, {});
    std::byte* buffers[5] = {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(y.data())};
    for (std::size_t k = 0; k < 3; ++k) buffers[2 + k] = reinterpret_cast<std::byte*>(to[k].data());
    thread_pool pool(threads);
    const kernel_context f{buffers, &pool};
    const auto rows = static_cast<std::size_t>(space[0]);
    if (calls > 0) {
      BOOST_REQUIRE(kernel.prepare_pieces(dev::loop_kernel::max_parts, calls));
      for (std::size_t c = 0; c < calls; ++c) kernel.run_part(f, rows * c / calls, rows * (c + 1) / calls, rows);
    } else if (pieces > 0) {
      BOOST_REQUIRE(kernel.prepare_pieces(pieces));
      kernel.clear_pieces(f);
      for (std::size_t p = 0; p < pieces; ++p) kernel.run_piece(f, p, rows * p / pieces, rows * (p + 1) / pieces, rows);
      kernel.merge_pieces(f, pieces);
    } else {
      kernel.run(f);
    }
    return to;
  }

  void check(const std::vector<std::vector<float>>& to, double tolerance, const std::string& what) const {
    for (std::size_t k = 0; k < 3; ++k) {
      if (how[k] == dev::reduce_op::discard) continue;
      std::size_t wrong = 0, first = 0;
      for (std::size_t i = 0; i < to[k].size(); ++i)
        if (!(std::abs(double{to[k][i]} - expected[k][i]) <= tolerance * std::abs(expected[k][i])) && wrong++ == 0)
          first = i;
      BOOST_REQUIRE_MESSAGE(wrong == 0, what << " of " << text << ", result " << k << ": " << wrong << " elements, "
                                             << first << " is " << to[k][first] << ", not " << expected[k][first]);
    }
  }
};

}  // namespace

namespace {

void check_random_sums(unsigned seeds, axes kind) {
  for (unsigned seed = 0; seed < seeds; ++seed) {
    random_sums r(seed, seed % 2 == 0, kind);
    const double tolerance = seed % 2 == 0 ? 0 : 1e-6;
    const auto whole = r.found(1, 0, 0);
    r.check(whole, tolerance, "whole");
    const auto shared = r.found(3, 0, 0);
    for (std::size_t k = 0; k < 3; ++k)
      if (r.how[k] != dev::reduce_op::discard) BOOST_REQUIRE_MESSAGE(whole[k] == shared[k], r.text << ", result " << k);
    const auto rows = static_cast<std::size_t>(r.space[0]);
    r.check(r.found(2, std::min<std::size_t>(rows, 40), 0), tolerance, "in calls");
    r.check(r.found(1, 0, std::min<std::size_t>(rows, 5)), tolerance, "in pieces");
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(sums_along_any_axes) { check_random_sums(150, axes::few); }
BOOST_AUTO_TEST_CASE(reductions_along_any_short_axes) { check_random_sums(300, axes::short_ones); }

namespace {

std::size_t calls = 0;

void counted_sum(const void* const* in, void* const* out, std::size_t n, const std::uint64_t*) {
  ++calls;
  for (std::size_t i = 0; i < n; ++i)
    static_cast<float*>(out[0])[i] = static_cast<const float*>(in[0])[i] + static_cast<const float*>(in[1])[i];
}

}  // namespace

BOOST_AUTO_TEST_CASE(broadcasts_over_any_axes_of_every_short_extent) {
  const bool all[max_rank] = {true, true, true};
  const auto how = dev::reduce_op::store;
  const auto* elements = &dev::arithmetic_of<float>;
  for (int middle = 1; middle <= 40; ++middle)
    for (int last = 1; last <= 40; ++last)
      for (int kept = 0; kept < 8; ++kept) {
        const shape space(3, middle, last);
        const bool some[max_rank] = {(kept & 1) != 0, (kept & 2) != 0, (kept & 4) != 0};
        const dev::operand in[] = {dev::reduced_operand(dtype::float32, space, all),
                                   dev::reduced_operand(dtype::float32, space, some)};
        const std::size_t n = space.elements();
        std::vector<float> x(n), b((some[0] ? 3 : 1) * (some[1] ? middle : 1) * (some[2] ? last : 1)), y(n);
        for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i);
        for (std::size_t i = 0; i < b.size(); ++i) b[i] = 0.5f + static_cast<float>(i % 7);
        const void* from[] = {x.data(), b.data()};
        void* to = y.data();
        const dev::loop loop(space, 2, in, 1, &in[0], &how, &elements, counted_sum, nullptr);
        std::vector<std::byte> scratch(loop.scratch_bytes());
        loop.run(from, &to, nullptr, 0, 1, scratch.data());
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < n; ++i) {
          const std::size_t row = i / static_cast<std::size_t>(last);
          const std::size_t index[] = {row / static_cast<std::size_t>(middle), row % static_cast<std::size_t>(middle),
                                       i % static_cast<std::size_t>(last)};
          std::int64_t at = 0;
          for (std::size_t axis = 0; axis < 3; ++axis)
            at += static_cast<std::int64_t>(index[axis]) * in[1].stride[axis];
          wrong += y[i] != x[i] + b[static_cast<std::size_t>(at)];
        }
        BOOST_REQUIRE_MESSAGE(wrong == 0, middle << " x " << last << ", axes " << kept << ": " << wrong << " elements");
      }
}

// Group normalization of images broadcasts over some of the short last axes.
BOOST_AUTO_TEST_CASE(one_call_of_the_function_covers_many_short_rows) {
  const shape space(4, 1024, 2, 8);
  const std::size_t n = space.elements();
  const bool all[max_rank] = {true, true, true, true}, of_groups[max_rank] = {true, false, true, false};
  std::vector<float> x(n), mean(8), y(n), sums(8);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 5);
  for (std::size_t i = 0; i < 8; ++i) mean[i] = static_cast<float>(i);
  const dev::operand in[] = {dev::reduced_operand(dtype::float32, space, all),
                             dev::reduced_operand(dtype::float32, space, of_groups)};
  const void* from[] = {x.data(), mean.data()};
  for (const auto how : {dev::reduce_op::store, dev::reduce_op::sum}) {
    const bool stores = how == dev::reduce_op::store;
    const auto* elements = &dev::arithmetic_of<float>;
    const dev::loop loop(space, 2, in, 1, stores ? &in[0] : &in[1], &how, &elements, counted_sum, nullptr);
    std::vector<std::byte> scratch(loop.scratch_bytes());
    void* to = stores ? y.data() : sums.data();
    calls = 0;
    loop.run(from, &to, nullptr, 0, 1, scratch.data());
    BOOST_CHECK_EQUAL(calls, n / 1024);
  }
  std::vector<float> expected(8);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t group = i / 16384 * 2 + i / 8 % 2;
    wrong += y[i] != x[i] + mean[group];
    expected[group] += x[i] + mean[group];
  }
  BOOST_CHECK_EQUAL(wrong, 0u);
  BOOST_CHECK_EQUAL_COLLECTIONS(sums.begin(), sums.end(), expected.begin(), expected.end());
}

BOOST_AUTO_TEST_CASE(short_rows_of_every_element_type) {
  const auto check = [](auto one) {
    using T = decltype(one);
    tensor<T, dims<999, 3>> x;
    tensor<T, dims<999, 1>> factor;
    tensor<T, dims<3>> shift{T(1), T(2), T(3)};
    for (int r = 0; r < 999; ++r) {
      factor(r, 0) = T(r % 4);
      for (int c = 0; c < 3; ++c) x(r, c) = T((r + c) % 3);
    }
    const tensor<T, dims<999, 3>> y = x * factor + shift;
    const tensor<T, dims<999>> rows = sum<1>(y), largest = max<1>(y);
    const tensor<T, dims<3>> columns = max<0>(y), product = prod<0>(x - x + T(1));
    for (int r = 0; r < 999; ++r) {
      T total = 0, most = 0;
      for (int c = 0; c < 3; ++c) {
        const T expected = T(T((r + c) % 3) * T(r % 4) + T(c + 1));
        BOOST_REQUIRE(y(r, c) == expected);
        total = T(total + expected), most = std::max(most, expected);
      }
      BOOST_REQUIRE(rows(r) == total && largest(r) == most);
    }
    for (int c = 0; c < 3; ++c) BOOST_REQUIRE(columns(c) == T(2 * 3 + c + 1) && product(c) == T(1));
  };
  check(float{}), check(double{}), check(std::int64_t{}), check(std::int32_t{}), check(std::int16_t{}),
      check(std::uint8_t{});
}

namespace {

using matrix = tensor<float, dims<dyn<"n">, dyn<"c">>>;

void close_to(const char* what, const float* found, std::size_t n, double expected) {
  double worst = 0;
  for (std::size_t i = 0; i < n; ++i) worst = std::max(worst, std::abs(double{found[i]} / expected - 1));
  BOOST_CHECK_MESSAGE(worst < 1.5e-6, what << ": off by " << worst << " of " << expected);
}

}  // namespace

// Rounding of equal terms has one direction, so a running sum is off by parts in a thousand; eager and in a graph.
BOOST_AUTO_TEST_CASE(sums_over_leading_axes_lose_nothing) {
  graph g;
  const auto x = placeholder<float, dims<dyn<"n">, dyn<"c">>>(g);
  for (const auto& [n, c] : {std::pair{2'000'000, 4}, {300'000, 33}, {30'000, 300}, {4000, 2000}, {150, 40'000}}) {
    matrix m(shape(n, c));
    std::fill_n(m.data(), m.elements(), 0.1f);
    const auto now = sum<0>(m), means = mean<0>(m), products = sum<0>(m * tensor<float>(0.5f));
    close_to("sum<0>", now.data(), now.elements(), double{0.1f} * n);
    close_to("mean<0>", means.data(), means.elements(), double{0.1f});
    close_to("sum<0> of an expression", products.data(), products.elements(), double{0.05f} * n);
    for (const int threads : {1, 2}) {
      session s{g, {.threads = threads}};
      const auto step = s.eval(sum<0>(x), with(x, m));
      BOOST_CHECK(std::equal(now.begin(), now.end(), step.begin()));
    }
  }
  tensor<float, dims<64, 64, 32, 3>> images;
  std::fill_n(images.data(), images.elements(), 0.1f);
  const auto of_channels = mean<0, 1, 2>(images);
  close_to("mean<0, 1, 2>", of_channels.data(), 3, double{0.1f});
  const auto of_columns = mean<0, 1, 3>(images);
  close_to("mean<0, 1, 3>", of_columns.data(), 32, double{0.1f});
  const auto of_rows = mean<0, 2, 3>(images);
  close_to("mean<0, 2, 3>", of_rows.data(), 64, double{0.1f});
  const tensor<float, dims<64, 64, 32, 1>> zero;
  const auto outer = sum<0, 2>(images + zero);
  close_to("sum<0, 2>", outer.data(), outer.elements(), double{0.1f} * 64 * 32);
}

BOOST_AUTO_TEST_CASE(gradients_of_what_is_broadcast_lose_nothing) {
  graph g;
  const auto x = placeholder<float, dims<dyn<"n">, dyn<"c">>>(g);
  const auto row = placeholder<float, dims<dyn<"c">>>(g);
  const auto column = placeholder<float, dims<dyn<"n">, 1>>(g);
  const auto one = placeholder<float, dims<>>(g);
  const auto loss = sum((x + row + column + one) * 0.1f);
  const auto [d_x, d_row, d_column, d_one] = gradients(loss, x, row, column, one);
  for (const auto& [n, c] : {std::pair{1'000'000, 4}, {60'000, 33}, {2000, 1500}, {150, 20'000}}) {
    const matrix m(shape(n, c));
    const tensor<float, dims<dyn<"c">>> r{shape(c)};
    const tensor<float, dims<dyn<"n">, 1>> k(shape(n, 1));
    std::vector<float> first;
    for (const int threads : {1, 3}) {
      session s{g, {.threads = threads}};
      auto all = s.prepare(fetch(d_x, d_row, d_column, d_one), feed(x, row, column, one));
      const auto [of_x, of_row, of_column, of_one] = all(m, r, k, 1.0f);
      close_to("of the row", of_row.data(), of_row.elements(), double{0.1f} * n);
      close_to("of the column", of_column.data(), of_column.elements(), double{0.1f} * c);
      close_to("of the number", &of_one, 1, double{0.1f} * n * c);
      close_to("of all", of_x.data(), of_x.elements(), double{0.1f});
      std::vector<float> seen(of_row.begin(), of_row.end());
      seen.insert(seen.end(), of_column.begin(), of_column.end());
      seen.push_back(of_one);
      if (first.empty()) first = seen;
      BOOST_CHECK(first == seen);
    }
  }
}

// The gradient of a bias runs with the product, or the pool, that brings what arrives: panel by panel.
BOOST_AUTO_TEST_CASE(gradients_of_biases_lose_nothing) {
  graph g;
  const auto x = placeholder<float, dims<dyn<"n">, 64>>(g);
  const auto b = variable<float, dims<64>>(g, "b", init::ones{});
  const auto w = variable<float, dims<64, 16>>(g, "w", init::constant{0.1 / 16});
  const auto [of_x, d] = gradients(sum(matmul(relu(x + b), w)), x, b);
  const auto images = placeholder<float, dims<dyn<"images">, 32, 32, 8>>(g);
  const auto channels = variable<float, dims<8>>(g, "channels", init::ones{});
  const auto [of_images, of_channels] = gradients(sum(max_pool2d<2>(relu(images + channels)) * 0.1f), images, channels);
  session s{g, {.threads = 2}};
  auto step = s.prepare(fetch(d, of_x), feed(x));
  const auto [found, of_zeros] = step(tensor<float, dims<dyn<"n">, 64>>(shape(100'000, 64)));
  BOOST_CHECK(explain(step).find("then gradient of") != std::string::npos);
  close_to("of a product's bias", found.data(), 64, 1e4);
  auto pool = s.prepare(fetch(of_channels, of_images), feed(images));
  const auto [sums, of_pixels] = pool(tensor<float, dims<dyn<"images">, 32, 32, 8>>(shape(100, 32, 32, 8)));
  BOOST_CHECK(explain(pool).find("then gradient of") != std::string::npos);
  close_to("of a pool's bias", sums.data(), 8, double{0.1f} * 100 * 256);
}

BOOST_AUTO_TEST_CASE(long_rows_of_a_softmax_lose_nothing) {
  constexpr std::size_t n = 3'000'000;
  vec x{shape(n)};
  std::fill_n(x.data(), n, -2.3025851f);
  x.data()[0] = 0;
  const double all = 1 + (n - 1) * std::exp(double{-2.3025851f});
  const vec p = softmax(x), logarithm = log_softmax(x);
  BOOST_CHECK_CLOSE(double{p.data()[0]}, 1 / all, 1e-4);
  BOOST_CHECK_SMALL(double{logarithm.data()[0]} + std::log(all), 2e-6);
  graph g;
  const auto logits = placeholder<float, dims<dyn<"n">>>(g), labels = placeholder<float, dims<dyn<"n">>>(g);
  session s{g, {.threads = 1}};
  vec even{shape(n)};
  std::fill_n(even.data(), n, 1.0f / n);
  const float loss = s.eval(softmax_cross_entropy(logits, labels), with(logits, x), with(labels, even));
  BOOST_CHECK_CLOSE(double{loss}, std::log(all) + 2.3025851 * (n - 1) / n, 1e-4);
  tensor<float, dims<1, 400, 500, 2>> image;
  std::fill_n(image.data(), image.elements(), 0.1f);
  const auto mean_of_image = avg_pool2d<size2d{400, 500}>(image);
  close_to("avg_pool2d", mean_of_image.data(), 2, double{0.1f});
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
    const float s = sum(a), p = prod(a), m = mean(a * 2.0f);
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
