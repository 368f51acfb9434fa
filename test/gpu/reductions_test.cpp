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
  std::vector<std::vector<std::byte>> aligned, elsewhere;
  compare::options o;
  o.tolerance = 1e-4;
  o.low = -1;
  o.high = 1;
  o.written = &aligned;
  compare::run(g, o);
  o.offset = 8;  // of doubles one element, of floats two
  o.written = &elsewhere;
  compare::run(g, o);
  BOOST_TEST((aligned == elsewhere));
}

BOOST_AUTO_TEST_CASE(maxima_keep_nan) {
  graph g;
  auto x = input<float, 40, 30>(g, "x");
  recorded(max<1>(x), min<1>(x), max(x), max<0>(x));
  compare::options o;
  o.values["x"] = {1, 2, -3, std::numeric_limits<double>::quiet_NaN(), 5, 7, 8};
  compare::run(g, o);
}
