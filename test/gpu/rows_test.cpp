// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <gpu/compare.hpp>
#include <weft/ops/index/sort.hpp>
#include <weft/ops/reduce/cummax.hpp>
#include <weft/ops/reduce/cumprod.hpp>
#include <weft/ops/reduce/logcumsumexp.hpp>

using namespace weft;
using compare::input;
using compare::recorded;

// Operations along an axis, by the emulation of the kernels for GPUs: by threads, by warps and by blocks, tile by
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
  o.tolerance = 1e-4;  // for sums of thousands
  o.low = -1;
  o.high = 1;
  return o;
}

template <class T>
void sums_of(int first, int middle, int last, const compare::options& o = options()) {
  graph g;
  sums(input<T>(g, "x", first, middle, last));
  compare::run(g, o);
}

/// An axis first, in the middle and last, with few rows and with many.
template <class T>
void axis_of(int n) {
  sums_of<T>(n, 2, 3);
  sums_of<T>(3, n, 2);
  sums_of<T>(2, 3, n);
}

}  // namespace

BOOST_AUTO_TEST_CASE(running_sums_of_every_length) {
  for (const int n : {0, 1, 16, 17, 31, 32, 33, 255, 256, 257, 1000, 2048, 2049, 5000}) axis_of<float>(n);
  graph g;  // extents that are known when compiled
  sums(input<float, 2, 257, 3>(g, "x"));
  compare::run(g, options());
}

// Few long rows are cut into parts: the last one whole, or shorter.
BOOST_AUTO_TEST_CASE(running_sums_of_long_rows_by_many_blocks) {
  axis_of<float>(8193);
  axis_of<double>(16384);
  axis_of<std::int32_t>(40961);
  compare::options o = options();
  o.tolerance = 1e-2;
  sums_of<weft::half>(2, 20000, 3, o);
  graph g;
  recorded(cumsum<0>(input<float, 300001>(g, "x")));
  compare::run(g, o);
  gpu::emulated_platform gpus;
  const node_def& c = g[static_cast<std::uint32_t>(g.size() - 1)].def;
  const std::uint32_t slots[] = {0, 1};
  const auto prepare = [&] {
    return std::unique_ptr<kernel>(
        c.op->gpu->prepare({c, &c.outputs[0], c.outputs.data(), slots, slots + 1}, gpus.device(0)));
  };
  const auto k = prepare();
  const auto q = gpus.device(0).make_queue();
  std::byte* buffers[] = {gpus.device(0).allocate(4 * 300001), gpus.device(0).allocate(4 * 300001)};
  k->run({buffers, nullptr, q.get()});
  q->synchronize();
  BOOST_TEST(gpus.device(0).count().launches == 3u);
  for (std::byte* b : buffers) gpus.device(0).deallocate(b);
  gpus.fail_allocation(1);  // that of the workspace
  BOOST_CHECK_THROW(prepare(), error);
}

BOOST_AUTO_TEST_CASE(running_sums_of_every_type) {
  compare::options o = options();
  o.low = -9;
  o.high = 9;
  o.tolerance = 1e-2;  // a narrow type may round the other way
  const auto all = [&]<class T>(T) {
    sums_of<T>(40, 3, 300, o);
    sums_of<T>(1, 4100, 2, o);
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

namespace {

template <class T, int N>
void scans_of() {
  graph g;
  const auto x = input<T, 2, N, 3>(g, "x");
  const auto y = input<T, 3, N>(g, "y");
  const auto [values, indices] = cummax<1>(x);
  recorded(cumprod<1>(x), cumprod<1>(y, {.exclusive = true, .reverse = true}), logcumsumexp<1>(x),
           logcumsumexp<1>(y, {.reverse = true}), values, indices, cummin<1>(y).indices);
  recorded(gradients(sum(square(cumprod<1>(x))), x), gradients(sum(square(cumprod<1>(y, {.reverse = true}))), y),
           gradients(sum(logcumsumexp<1>(x)), x), gradients(sum(values * values), x));
  compare::options o = options();
  o.low = -2;
  o.high = 2;
  compare::run(g, o);
}

}  // namespace

BOOST_AUTO_TEST_CASE(other_scans) {
  scans_of<double, 1>();
  scans_of<float, 17>();
  scans_of<double, 200>();
  scans_of<double, 3000>();
  scans_of<double, 20001>();
}

namespace {

const std::vector<double> with_equals = {3,
                                         -1,
                                         0,
                                         -0.0,
                                         7,
                                         std::numeric_limits<double>::quiet_NaN(),
                                         3,
                                         2.5,
                                         -1,
                                         -8,
                                         -3,
                                         7,
                                         64,
                                         -0.0,
                                         0,
                                         std::numeric_limits<double>::infinity(),
                                         3,
                                         -std::numeric_limits<double>::quiet_NaN(),
                                         -std::numeric_limits<double>::infinity()};

compare::options exactly() {
  compare::options o;
  o.exact = {"sort", "gather_along", "scatter_along"};
  return o;
}

/// Sorts along each axis, and the K largest elements of rows.
template <class T, int... K>
void sorts(int first, int middle, int last) {
  graph g;
  const auto x = input<T>(g, "x", first, middle, last);
  for (const direction d : {direction::ascending, direction::descending})
    recorded(sort<0>(x, d), sort<1>(x, d), sort<2>(x, d));
  recorded(top_k<K>(x)...);
  compare::options o = exactly();
  compare::run(g, o);
  o.values["x"] = with_equals;
  compare::run(g, o);
}

template <class T, int N, int A = 2, int B = 3>
void sorted_axis_of() {
  sorts<T, (B < 2 ? B : 2)>(N, A, B);
  sorts<T, (A < 1 ? A : 1)>(B, N, A);
  sorts<T, (N < 33 ? N : 33)>(A, B, N);
  sorts<T, N>(1, 1, N);
}

}  // namespace

BOOST_AUTO_TEST_CASE(sorts_of_every_length) {
  sorted_axis_of<float, 0>();
  sorted_axis_of<float, 1>();
  sorted_axis_of<float, 4>();
  sorted_axis_of<float, 31>();
  sorted_axis_of<float, 32>();
  sorted_axis_of<float, 33>();
  sorted_axis_of<float, 64>();
  sorted_axis_of<float, 65>();
  sorted_axis_of<float, 255>();
  sorted_axis_of<float, 256>();
  sorted_axis_of<float, 257>();
  sorted_axis_of<float, 1000>();
  sorted_axis_of<float, 1024>();
  sorted_axis_of<float, 1025>();
  sorted_axis_of<float, 4096>();
  sorted_axis_of<float, 4097>();
  sorted_axis_of<float, 5000>();
}

BOOST_AUTO_TEST_CASE(sorts_of_many_short_rows) {
  sorted_axis_of<float, 3, 40, 50>();
  sorted_axis_of<float, 10, 33, 7>();
  sorted_axis_of<std::int32_t, 40, 20, 9>();
}

BOOST_AUTO_TEST_CASE(sorts_of_every_type) {
  const auto all = []<class T>(T) {
    sorted_axis_of<T, 20>();
    sorted_axis_of<T, 300>();
    sorted_axis_of<T, 2000, 1, 2>();
    sorted_axis_of<T, 4500, 1, 3>();
  };
  all(double{}), all(std::int32_t{}), all(std::int64_t{}), all(std::uint8_t{});
  all(weft::half{}), all(bfloat16{});
}

BOOST_AUTO_TEST_CASE(gradients_of_sorts) {
  graph g;
  g.use(primitives<float>);
  const auto check = [&](const auto& x, const auto& y) {
    const auto [d] = gradients(sum(y * y), x);
    recorded(gradients(sum(d * d * d), x));
  };
  auto a = input<float, 20, 3, 7>(g, "a");
  check(a, sort<0>(a)), check(a, sort<1>(a)), check(a, sort<2>(a)), check(a, top_k<4>(a).values);
  auto b = input<float, 2, 5000>(g, "b");
  check(b, sort(b, direction::descending)), check(b, top_k<70>(b).values), check(b, top_k<0>(b).values);
  auto c = input<double, 3, 0>(g, "c");
  g.use(primitives<double>);
  check(c, sort(c)), check(c, sort<0>(c)), check(c, top_k<0>(c).values);
  compare::run(g);
}
