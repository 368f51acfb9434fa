#define BOOST_TEST_DYN_LINK
#define BOOST_TEST_MODULE rows
#include <boost/test/unit_test.hpp>
#include <gpu/compare.hpp>
#include <weft/ops/scan.hpp>

using namespace weft;
using compare::input;
using compare::recorded;

// What is done along an axis, by the emulation of the kernels for GPUs: by threads, by warps and by blocks, tile by
// tile.

namespace {

template <class X>
void sums(const X& x) {
  for (const bool exclusive : {false, true})
    for (const bool reverse : {false, true}) {
      const cumsum_options o{exclusive, reverse};
      recorded(cumsum<0>(x, o), cumsum<1>(x, o), cumsum<2>(x, o));
    }
}

compare::options options() {
  compare::options o;
  o.tolerance = 1e-4;  // of sums of thousands
  o.low = -1;
  o.high = 1;
  return o;
}

/// An axis first, in the middle and last, with few rows and with many.
template <class T, int N>
void axis_of() {
  graph g;
  sums(input<T, N, 2, 3>(g, "first"));
  sums(input<T, 3, N, 2>(g, "middle"));
  sums(input<T, 2, 3, N>(g, "last"));
  compare::run(g, options());
}

}  // namespace

BOOST_AUTO_TEST_CASE(running_sums_of_every_length) {
  axis_of<float, 0>();
  axis_of<float, 1>();
  axis_of<float, 16>();
  axis_of<float, 17>();
  axis_of<float, 31>();
  axis_of<float, 32>();
  axis_of<float, 33>();
  axis_of<float, 255>();
  axis_of<float, 256>();
  axis_of<float, 257>();
  axis_of<float, 1000>();
  axis_of<float, 2048>();
  axis_of<float, 2049>();
  axis_of<float, 5000>();
}

BOOST_AUTO_TEST_CASE(running_sums_of_every_type) {
  compare::options o = options();
  o.low = -9;
  o.high = 9;
  o.tolerance = 1e-2;  // a narrow type may round the other way
  const auto all = [&]<class T>(T) {
    graph g;
    sums(input<T, 40, 3, 300>(g, "x"));
    sums(input<T, 1, 4100, 2>(g, "long"));
    compare::run(g, o);
  };
  all(double{}), all(std::int32_t{}), all(std::int64_t{}), all(std::int8_t{});
  all(weft::half{}), all(bfloat16{});
}

BOOST_AUTO_TEST_CASE(running_sums_by_threads_side_by_side) {
  graph g;
  recorded(cumsum<1>(input<float, 3, 50, 2000>(g, "x")), cumsum<0>(input<float, 20, 4096>(g, "y")),
           cumsum<1>(input<float, 700, 20>(g, "z")), cumsum<1>(input<float, 300, 5>(g, "short")));
  compare::run(g, options());
}
