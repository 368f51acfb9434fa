// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <gpu/compare.hpp>

using namespace weft;
using compare::input;
using compare::recorded;

namespace {

template <int... Extents>
void reductions() {
  graph g;
  auto x = input<float, Extents...>(g, "x");
  recorded(sum(x), mean(x), max(x), min(x), prod(x));
  recorded(sum<0>(x), sum<1>(x), sum<2>(x), sum<0, 1>(x), sum<1, 2>(x), sum<0, 2>(x));
  recorded(mean<0, 2>(x), max<1>(x), min<2>(x), max<0>(x), mean<0>(x * x), sum<1>(exp(x) + 1.0f));
  compare::options o;
  o.low = -1;
  o.high = 1;
  o.tolerance = 2e-5;
  compare::run(g, o);
}

/// Whether buffers are aligned or not.
void check_the_same_bits_elsewhere(const graph& g) {
  std::vector<std::vector<std::byte>> aligned, elsewhere;
  compare::options o;
  o.tolerance = 1e-4;
  o.low = -1;
  o.high = 1;
  o.written = &aligned;
  compare::run(g, o);
  o.offset = 8;  // one element of doubles, two of floats
  o.written = &elsewhere;
  compare::run(g, o);
  BOOST_TEST((aligned == elsewhere));
}

}  // namespace

BOOST_AUTO_TEST_CASE(reductions_over_any_axes) {
  reductions<1, 1, 1>();
  reductions<3, 4, 5>();
  reductions<31, 33, 2>();
  reductions<2, 1, 257>();
  reductions<257, 3, 1>();
  reductions<5, 100, 64>();
  reductions<0, 3, 4>();
  reductions<3, 0, 4>();
  reductions<3, 4, 0>();
}

BOOST_AUTO_TEST_CASE(reductions_that_many_blocks_share) {
  graph g;
  auto x = input<float, 300001>(g, "x");
  recorded(sum(x), max(x), mean(x * x));
  auto y = input<float, 30011, 10>(g, "y");
  recorded(sum<0>(y), sum<1>(y), max<0>(y));
  auto z = input<std::int32_t, 100003>(g, "z");
  recorded(sum(z), max(z), min(z), prod(z));
  auto d = input<double, 2, 50021>(g, "d");
  recorded(sum<1>(d), min<1>(d));
  compare::options o;
  o.tolerance = 1e-4;
  o.low = -1;
  o.high = 1;
  compare::run(g, o);
}

BOOST_AUTO_TEST_CASE(groups_of_elements_are_loaded_at_once_or_not_with_the_same_bits) {
  graph g;
  auto rows = input<float, 7, 3, 260>(g, "rows");
  auto odd = input<float, 5, 131>(g, "odd");
  auto all = input<float, 200003>(g, "all");
  auto row = input<float, 260>(g, "row");
  auto column = input<float, 7, 3, 1>(g, "column");
  auto halves = input<half, 9, 1024>(g, "halves");
  auto doubles = input<double, 3, 4098>(g, "doubles");
  auto bytes = input<std::int8_t, 4, 512>(g, "bytes");
  recorded(sum<2>(rows), max<2>(rows), sum<0, 2>(rows), sum<1, 2>(rows), mean(rows), sum<0>(rows));
  recorded(sum<2>(rows * row + column), sum<0, 2>(exp(rows) * column), max<2>(rows - row));
  recorded(sum<1>(odd), sum(odd), sum(all), mean(all * all), min(all));
  recorded(sum<1>(cast<float>(halves)), sum<1>(doubles), max<1>(doubles), sum<1>(cast<float>(bytes)));
  check_the_same_bits_elsewhere(g);
}

// Where threads of a result are neighbours, in the order of shuffles: halves of a warp onto each other, then the warps.
BOOST_AUTO_TEST_CASE(rows_are_summed_in_the_order_of_shuffles) {
  std::vector<double> numbers(1500);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] =
        static_cast<float>(std::sin(0.7 * static_cast<double>(i)) * std::pow(10.0, static_cast<double>(i % 6)));
  const auto folded = [](std::vector<float> lanes) {
    float all = 0;
    for (std::size_t warp = 0; warp < lanes.size(); warp += 32) {
      for (std::size_t by = std::min<std::size_t>(32, lanes.size()) / 2; by > 0; by /= 2)
        for (std::size_t l = warp; l < warp + by; ++l) lanes[l] += lanes[l + by];
      all = warp == 0 ? lanes[0] : all + lanes[warp];
    }
    return all;
  };
  graph g;
  recorded(sum<1>(input<float, 40, 10>(g, "of 10")));
  recorded(sum<1>(input<float, 23, 64>(g, "of 64")));
  recorded(sum<1>(input<float, 5, 300>(g, "of 300")));
  std::vector<std::vector<std::byte>> written;
  compare::options o;
  o.tolerance = 1;
  for (const char* leaf : {"of 10", "of 64", "of 300"}) o.values[leaf] = numbers;
  o.written = &written;
  compare::run(g, o);
  std::vector<std::vector<float>> sums;
  for (const auto& bytes : written) {
    if (bytes.empty()) continue;
    sums.emplace_back(bytes.size() / sizeof(float));
    std::memcpy(sums.back().data(), bytes.data(), bytes.size());
  }
  BOOST_TEST_REQUIRE(sums.size() == 3u);
  const auto x = [&](std::size_t i) { return static_cast<float>(numbers[i % numbers.size()]); };
  for (std::size_t r = 0; r < 40; ++r) {  // 16 threads
    std::vector<float> lanes(16);
    for (std::size_t k = 0; k < 10; ++k) lanes[k] = x(10 * r + k);
    BOOST_TEST(sums[0][r] == folded(lanes));
  }
  for (std::size_t r = 0; r < 23; ++r) {  // 32 threads, two elements each
    std::vector<float> lanes(32);
    for (std::size_t k = 0; k < 32; ++k) lanes[k] = x(64 * r + k) + x(64 * r + 32 + k);
    BOOST_TEST(sums[1][r] == folded(lanes));
  }
  for (std::size_t r = 0; r < 5; ++r) {  // 128 threads, four neighbours each
    std::vector<float> lanes(128);
    for (std::size_t k = 0; k < 75; ++k)
      for (std::size_t i = 0; i < 4; ++i) lanes[k] += x(300 * r + 4 * k + i);
    BOOST_TEST(sums[2][r] == folded(lanes));
  }
}

BOOST_AUTO_TEST_CASE(sums_of_columns_four_at_a_time_have_the_same_bits_wherever_they_lie) {
  graph g;
  auto x = input<float, 700, 64>(g, "x");
  auto row = input<float, 64>(g, "row");
  auto column = input<float, 700, 1>(g, "column");
  recorded(sum<0>(x), mean<0>(x * row), sum<0>(exp(x) * column), max<0>(x), sum<0>(x * row + column));
  recorded(sum<0>(input<float, 90, 132>(g, "odd blocks")), sum<0>(input<float, 90, 66>(g, "not by four")));
  recorded(sum<0, 1>(input<float, 3, 50, 128>(g, "two axes")), sum<1>(input<float, 3, 50, 128>(g, "middle")));
  recorded(sum<0>(input<double, 33, 100>(g, "d")), sum<0>(cast<float>(input<weft::half, 33, 200>(g, "h"))));
  recorded(sum<0>(input<std::int32_t, 100, 64>(g, "i")), sum<0>(input<float, 20000, 72>(g, "many")));
  recorded(sum<0>(input<float, 1, 4096>(g, "one row")), sum<0>(input<float, 5, 4096>(g, "few rows")));
  check_the_same_bits_elsewhere(g);
}

BOOST_AUTO_TEST_CASE(a_thread_has_four_columns_where_they_are_neighbours) {
  using gpu::plan_reduction;
  const auto shape_of = [](std::int64_t rows, std::int64_t columns, std::uint32_t wide) {
    gpu::iteration over;
    over.space = shape{rows, columns};
    return plan_reduction(over, 0b10, 4, wide);
  };
  const auto bias = shape_of(200704, 64, 4);
  BOOST_TEST(bias.wide == 4u);
  BOOST_TEST(bias.results_log == 4u);
  BOOST_TEST(bias.blocks() == 1u);
  BOOST_TEST(bias.splits <= 512u);
  const auto narrow = shape_of(200704, 64, 1);
  BOOST_TEST(narrow.wide == 1u);
  BOOST_TEST(narrow.blocks() * narrow.splits > bias.blocks() * bias.splits);
  BOOST_TEST(shape_of(1000, 66, 4).wide == 1u);
  BOOST_TEST(shape_of(1000, 32, 4).wide == 1u);  // too few threads side by side
  BOOST_TEST(shape_of(1000, 132, 4).blocks() == 2u);
}

BOOST_AUTO_TEST_CASE(maxima_keep_nan) {
  graph g;
  auto x = input<float, 40, 30>(g, "x");
  recorded(max<1>(x), min<1>(x), max(x), max<0>(x));
  compare::options o;
  o.values["x"] = {1, 2, -3, std::numeric_limits<double>::quiet_NaN(), 5, 7, 8};
  compare::run(g, o);
}
