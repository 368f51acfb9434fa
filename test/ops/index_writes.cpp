// SPDX-License-Identifier: BSL-1.0
#include <limits>
#include <string>
#include <vector>
#include <weft/ops/index/assign_scatter.hpp>
#include <weft/ops/index/bincount.hpp>
#include <weft/ops/index/nonzero.hpp>
#include <weft/ops/index/one_hot_along.hpp>
#include <weft/ops/index/ragged.hpp>
#include <weft/ops/index/repeat_rows.hpp>
#include <weft/ops/index/sort.hpp>

#include "elements.hpp"
#include "errors.hpp"
#include "gradient_check.hpp"
#include "oracle/compare.hpp"
#include "session_on_cpu.hpp"
#include "values_of.hpp"

using namespace weft;
using test::check_elements;

namespace {

using rows = dyn_extent<"rows">;
using nodes = dyn_extent<"nodes">;

const values_of tensorflow(TEST_DATA "/ops/index_values_tensorflow.txt");
const values_of pytorch(TEST_DATA "/ops/index_values_pytorch.txt");

/// A function of one operand, over tensors and in a step, and its gradient.
template <class T, class D, class F>
void check_one(const values_of& right, const std::string& name, const std::string& operand, F f) {
  const double tolerance = std::is_same_v<T, float> ? 2e-6 : 1e-14;
  const auto x = right.tensor<T, D>(name + "_" + operand);
  right.check(name + "_value", f(x), tolerance);
  graph g;
  const auto v = variable<T, D>(g, "x", x);
  const auto y = f(v);
  const auto [d] = gradients(sum(y * cast<T>(oracle::weight_of(y))), v);
  session s{g, {.threads = 2}};
  const auto [found, found_d] = s.run(fetch(y, d));
  right.check(name + "_value", found, tolerance);
  right.check(name + "_d_" + operand, found_d, tolerance);
}
template <class D, class F>
void check(const values_of& right, const std::string& name, F f, const std::string& operand = "x") {
  BOOST_TEST_CONTEXT(name) {
    check_one<float, D>(right, name, operand, f);
    check_one<double, D>(right, name, operand, f);
  }
}

/// A function of two operands.
template <class D, class R, class F>
void check_pair(const values_of& right, const std::string& name, const std::string& operand, F f) {
  BOOST_TEST_CONTEXT(name) {
    const auto x = right.tensor<double, D>(name + "_x");
    const auto r = right.tensor<double, R>(name + "_" + operand);
    right.check(name + "_value", f(x, r), 1e-14);
    graph g;
    const auto v = variable<double, D>(g, "x", x);
    const auto w = variable<double, R>(g, "r", r);
    const auto y = f(v, w);
    const auto [dv, dw] = gradients(sum(y * cast<double>(oracle::weight_of(y))), v, w);
    session s{g, {.threads = 2}};
    const auto [found, found_v, found_w] = s.run(fetch(y, dv, dw));
    right.check(name + "_value", found, 1e-14);
    right.check(name + "_d_x", found_v, 1e-14);
    right.check(name + "_d_" + operand, found_w, 1e-14);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(segments_of_tensorflow) {
  const tensor<std::int32_t, dims<6>> ids{0, 0, 2, 2, 2, 4};
  const tensor<std::int64_t, dims<6>> mixed{3, -1, 0, 3, 3, 0};
  using D = dims<6, 3>;
  check<D>(tensorflow, "segment_sum", [&](const auto& x) { return segment_sum<5>(x, ids); });
  check<D>(tensorflow, "segment_mean", [&](const auto& x) { return segment_mean<5>(x, ids); });
  check<D>(tensorflow, "segment_max", [&](const auto& x) { return segment_max<5>(x, ids); });
  check<D>(tensorflow, "segment_min", [&](const auto& x) { return segment_min<5>(x, ids); });
  check<D>(tensorflow, "unsorted_sum", [&](const auto& x) { return unsorted_segment_sum<5>(x, mixed); });
  check<D>(tensorflow, "unsorted_mean", [&](const auto& x) { return unsorted_segment_mean<5>(x, mixed); });
  check<D>(tensorflow, "unsorted_prod", [&](const auto& x) { return unsorted_segment_prod<5>(x, mixed); });
  check_one<double, D>(tensorflow, "unsorted_max", "x",
                       [&](const auto& x) { return unsorted_segment_max<5>(x, mixed); });
  check_one<double, D>(tensorflow, "unsorted_min", "x",
                       [&](const auto& x) { return unsorted_segment_min<5>(x, mixed); });
  check<dims<3, 2, 2>>(tensorflow, "matrix_of_ids", [&](const auto& x) {
    return unsorted_segment_sum<3>(x, tensor<std::int32_t, dims<3, 2>>{1, 0, 1, 1, -1, 0});
  });
  const tensor<std::int64_t, dims<5>> splits{0, 2, 2, 5, 6};
  check<dims<6, 2>>(tensorflow, "ragged_sum", [&](const auto& x) { return ragged_sum(x, splits); });
  check_one<double, dims<6, 2>>(tensorflow, "ragged_max", "x", [&](const auto& x) { return ragged_max(x, splits); });
  check<dims<6, 2>>(tensorflow, "ragged_softmax", [&](const auto& x) { return ragged_softmax(x, splits); });
  check<dims<6, 2>>(tensorflow, "ragged_softmax", [&](const auto& x) {
    return segment_softmax<3>(x, tensor<std::int32_t, dims<6>>{2, 2, 0, 0, 0, 1});
  });
}

BOOST_AUTO_TEST_CASE(index_vectors_of_tensorflow) {
  const tensor<std::int32_t, dims<4, 2>> n{2, 3, 0, 0, 2, 3, 1, 2};
  check<dims<3, 4, 2>>(tensorflow, "gather_nd", [&](const auto& x) { return gather_nd(x, n); });
  check<dims<2, 3, 2>>(tensorflow, "gather_nd_batch",
                       [&](const auto& x) { return gather_nd<1>(x, tensor<std::int64_t, dims<2, 2, 1>>{2, 0, 1, 1}); });
  check<dims<4, 2>>(tensorflow, "scatter_nd", [&](const auto& r) { return scatter_nd<dims<3, 4, 2>>(n, r); }, "rows");
  const auto nd = [&](combine how) {
    return [&n, how](const auto& x, const auto& r) { return scatter_nd(x, n, r, how); };
  };
  check_pair<dims<3, 4, 2>, dims<4, 2>>(tensorflow, "nd_add", "rows", nd(combine::add));
  check_pair<dims<3, 4, 2>, dims<4, 2>>(tensorflow, "nd_max", "rows", nd(combine::max));
  check_pair<dims<3, 4, 2>, dims<4, 2>>(tensorflow, "nd_min", "rows", nd(combine::min));
  check_pair<dims<3, 4, 2>, dims<3, 2>>(tensorflow, "nd_update", "rows", [&](const auto& x, const auto& r) {
    return scatter_nd(x, slice<0, 1, 3>(n), r);
  });
}

BOOST_AUTO_TEST_CASE(writes_of_pytorch) {
  const tensor<std::int64_t, dims<2, 3>> at{1, 0, 3, 1, 2, 0};
  const auto along = [&](combine how) {
    return [&at, how](const auto& x, const auto& v) { return scatter_along_axis<0>(x, at, v, how); };
  };
  using D = dims<4, 3>;
  using V = dims<2, 3>;
  check_pair<D, V>(pytorch, "reduce_sum", "values", along(combine::add));
  check_pair<D, V>(pytorch, "reduce_prod", "values", along(combine::mul));
  check_pair<D, V>(pytorch, "reduce_amax", "values", along(combine::max));
  check_pair<D, V>(pytorch, "reduce_amin", "values", along(combine::min));
  check_pair<dims<2, 4>, dims<2, 2>>(pytorch, "scatter", "values", [](const auto& x, const auto& v) {
    return scatter_along_axis<1>(x, tensor<std::int32_t, dims<2, 2>>{1, 0, 1, 2}, v);
  });
  const tensor<std::int32_t, dims<3>> index{2, 0, 2};
  check_pair<dims<2, 4, 2>, dims<2, 3, 2>>(pytorch, "index_add", "rows", [&](const auto& x, const auto& r) {
    return scatter<-2>(x, index, r, combine::add);
  });
  check_pair<dims<3, 2>, dims<2, 2>>(pytorch, "index_copy", "rows", [&](const auto& x, const auto& r) {
    return scatter(x, slice<0, 0, 2>(index), r);
  });
  check<dims<3, 2>>(pytorch, "index_fill", [&](const auto& x) { return scatter<0>(x, index, 0.5f); });
  check<dims<4, 2>>(pytorch, "repeat_counts", [](const auto& x) {
    const tensor<std::int32_t, dims<4>> counts{2, 0, 3, 1};
    if constexpr (std::remove_cvref_t<decltype(x)>::symbolic)
      return weft::repeat<6>(x, counts).values;
    else
      return reshape<dims<6, 2>>(weft::repeat(x, counts), shape(6, 2));
  });
}

BOOST_AUTO_TEST_CASE(places_and_counts) {
  const auto sorted = tensorflow.tensor<float, dims<2, 5>>("sorted");
  const auto values = tensorflow.tensor<float, dims<2, 5>>("values");
  tensorflow.check("places_left", searchsorted(sorted, values));
  tensorflow.check("places_right", searchsorted(sorted, values, side::right));
  tensorflow.check("histogram", histogram<4>(values, -1.0f, 1.5f));
  const auto points = pytorch.tensor<double, dims<9>>("points");
  pytorch.check("histc", histogram<4, outliers::ignore>(points, -1.0, 1.5));
  const tensor<double, dims<3>> boundaries{-1, 0.25, 1.5};
  pytorch.check("buckets_False", bucketize(points, boundaries));
  pytorch.check("buckets_True", bucketize(points, boundaries, side::right));
  const tensor<std::int32_t, dims<8>> ids{1, 4, 1, 9, 0, 3, 4, 4};
  tensorflow.check("bincount", bincount<5>(ids));
  tensorflow.check("weighted", bincount<5>(ids, tensor<float, dims<8>>{0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5}));
  check_elements(bincount(ids), {1, 2, 0, 1, 3, 0, 0, 0, 0, 1});
  tensorflow.check("one_hot", one_hot_along<0, 3>(tensor<std::int32_t, dims<3>>{1, 5, 0}, 2.0f, -1.0f));
  tensor<bool, dims<2, 3, 2>> mask;
  for (int i = 0; i < 12; ++i) mask.data()[i] = i % 5 < 2;
  tensorflow.check("where", nonzero(mask));
  check_elements(eval(masked_fill(tensor<float, dims<2, 2>>{1, 2, 3, 4}, tensor<bool, dims<2>>{true, false}, -1)),
                 {-1, 2, -1, 4});
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const tensor<float, dims<6>> odd{nan, -inf, inf, -0.0f, 1, 0.999f};
  check_elements(searchsorted(tensor<float, dims<4>>{-inf, 0, 1, nan}, odd), {3, 0, 3, 1, 2, 2});
  check_elements(histogram<2>(odd, 0, 1), {2, 3});
  check_elements(histogram<2, outliers::ignore>(odd, 0, 1), {1, 2});
}

// Each part of many ids has its own sums.
BOOST_AUTO_TEST_CASE(integers_of_many_ids_are_added_in_parts) {
  constexpr int n = 300'000;
  tensor<std::int64_t, dims<n>> ids;
  tensor<std::int32_t, dims<7>> counts, to{1, 2, 3, 4, 5, 6, 7};
  for (int i = 0; i < n; ++i) {
    ids(i) = i % 1009 % 9 - 1;
    if (ids(i) >= 0 && ids(i) < 7) ++counts(static_cast<int>(ids(i)));
  }
  graph g;
  const auto given = variable<std::int64_t, dims<n>>(g, "ids", ids);
  const auto valid = let(minimum(maximum(given, 0), 6));
  session s{g, {.threads = 2}};
  const auto [all, added] = s.run(fetch(bincount<7>(given), scatter<0>(to, valid, 2, combine::add)));
  for (int i = 0; i < 7; ++i) {
    BOOST_CHECK_EQUAL(all(i), counts(i));
    int more = counts(i);
    for (int k = 0; k < n; ++k) more += (i == 0 && ids(k) < 0) || (i == 6 && ids(k) > 6);
    BOOST_CHECK_EQUAL(added(i), to(i) + 2 * more);
  }
#if !defined(WEFT_GPU_EMULATION)  // a GPU ignores indices out of range
  BOOST_CHECK_THROW(s.eval(scatter<0>(to, given, 2, combine::add)), error);
#endif
}

// Named extents in a step, twice with different sizes, and no rows.
BOOST_AUTO_TEST_CASE(named_extents) {
  graph g;
  const auto x = placeholder<float, dims<rows{}, 2>>(g, "x");
  const auto ids = placeholder<std::int32_t, dims<rows{}>>(g, "ids");
  const auto to = placeholder<float, dims<nodes{}, 2>>(g, "to");
  const auto splits = placeholder<std::int32_t, dims<nodes{} + extent<1>>>(g, "splits");
  const auto summed = unsorted_segment_sum<nodes{}>(x, ids);
  static_assert(std::is_same_v<dims_t<decltype(summed)>, dims<nodes{}, 2>>);
  const auto [d] = gradients(sum(summed * to), x);
  session s{g, {.threads = 2}};
  auto step = s.prepare(fetch(summed, d, scatter(to, maximum(ids, 0), x, combine::add), bincount<nodes{}>(ids),
                              ragged_mean(x, splits), nonzero(x > 0), weft::repeat<4>(x, abs(ids)),
                              weft::repeat<0, 2>(ids), one_hot_along<-1, 2>(ids, true, false)),
                        feed(x, ids, to, splits));
  {
    const auto [a, b, c, e, f, h, i, j, k] =
        step(tensor<float, dims<3, 2>>{1, 2, 0, 4, 5, 0}, tensor<std::int32_t, dims<3>>{1, -1, 1},
             tensor<float, dims<2, 2>>{1, 2, 3, 4}, tensor<std::int32_t, dims<3>>{0, 1, 3});
    check_elements(a, {0, 0, 6, 2});
    check_elements(b, {3, 4, 0, 0, 3, 4});
    check_elements(c, {1, 6, 9, 6});
    check_elements(e, {0, 2});
    check_elements(f, {1, 2, 2.5, 2});
    check_elements(h, {0, 0, 0, 1, 1, 1, 2, 0});
    check_elements(i, {1, 2, 0, 4, 5, 0});
    check_elements(j, {1, 1, -1, -1, 1, 1});
    check_elements(k, {0, 1, 0, 0, 0, 1});
  }
  {
    const auto [a, b, c, e, f, h, i, j, k] =
        step(tensor<float, dims<rows{}, 2>>(shape(0, 2)), tensor<std::int32_t, dims<rows{}>>(shape(0)),
             tensor<float, dims<1, 2>>{1, 2}, tensor<std::int32_t, dims<2>>{0, 0});
    check_elements(a, {0, 0});
    check_elements(c, {1, 2});
    check_elements(e, {0});
    check_elements(f, {0, 0});
    BOOST_CHECK_EQUAL(b.elements() + h.elements() + i.elements() + j.elements() + k.elements(), 0u);
  }
  const tensor<float, dims<rows{}, 1>> some(shape(3, 1), {1, 2, 3});
  const tensor<std::int32_t, dims<rows{}>> of(shape(3), {0, 2, 2});
  check_elements(segment_sum(some, of), {1, 0, 5});
  check_elements(segment_sum(some, of, 4), {1, 0, 5, 0});
  check_elements(scatter_nd<dims<nodes{}>>(reshape<dims<rows{}, 1>>(of), reshape<dims<rows{}>>(some), shape(4)),
                 {1, 0, 5, 0});
}

// Elements of other types, rank 8, and extents of 0 and 1.
BOOST_AUTO_TEST_CASE(types_and_ranks) {
  const tensor<std::int64_t, dims<4>> ids{1, 1, 0, 1};
  const tensor<std::int64_t, dims<4>> x{std::int64_t{1} << 60, 3, -7, 3};
  check_elements(segment_max<3>(x, sort(ids)), {1099511627776.0 * 1048576, 3, 0});
  check_elements(scatter(x, tensor<std::int32_t, dims<2>>{3, 3}, tensor<std::int64_t, dims<2>>{5, 2}, combine::mul),
                 {1099511627776.0 * 1048576, 3, -7, 30});
  check_elements(scatter(tensor<bool, dims<3>>{true, true, false}, tensor<std::int32_t, dims<2>>{2, 0},
                         tensor<bool, dims<2>>{true, false}),
                 {0, 1, 1});
  check_elements(eval(cast<float>(unsorted_segment_sum<2>(cast<weft::half>(tensor<float, dims<3>>{1, 2, 4}),
                                                          tensor<std::int32_t, dims<3>>{1, 0, 1}))),
                 {2, 5});
  check_elements(scatter(tensor<float, dims<2, 0>>(), tensor<std::int32_t, dims<1>>{1}, 2.0f), {});
  const tensor<float, dims<1, 1, 1, 1, 1, 1, 1, 2>> deep{1, 2};
  check_elements(gather_nd(deep, tensor<std::int32_t, dims<8>>{0, 0, 0, 0, 0, 0, 0, 1}), {2});
  check_elements(scatter_nd(deep, tensor<std::int32_t, dims<1, 8>>{0, 0, 0, 0, 0, 0, 0, 1}, 5.0f, combine::add),
                 {1, 7});
  check_elements(nonzero(deep > 1.0f), {0, 0, 0, 0, 0, 0, 0, 1});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto kept = unsorted_segment_max<2>(tensor<float, dims<3>>{1, nan, 3}, tensor<std::int32_t, dims<3>>{0, 1, 1});
  BOOST_CHECK(kept(0) == 1 && kept(1) != kept(1));
}

// The last of several updates remains, and sums have the same bits, for any number of threads.
BOOST_AUTO_TEST_CASE(the_order_of_the_indices) {
  constexpr int n = 5000, width = 40, segments = 77;
  graph g;
  const auto x = placeholder<float, dims<n, width>>(g, "x");
  const auto ids = placeholder<std::int32_t, dims<n>>(g, "ids");
  const auto to = placeholder<float, dims<segments, width>>(g, "to");
  const auto last = scatter(to, ids, x);
  const auto summed = unsorted_segment_sum<segments>(x, ids);
  const auto sorted = segment_sum<segments>(x, sort(ids));
  tensor<float, dims<n, width>> values;
  tensor<std::int32_t, dims<n>> of;
  tensor<float, dims<segments, width>> before, expected_last, expected_sum, expected_sorted;
  for (int i = 0; i < n * width; ++i) values.data()[i] = static_cast<float>(i * 7919 % 1013) / 37;
  for (int i = 0; i < n; ++i) of.data()[i] = i * 31 % 991 % (segments - 1);  // none is in the last segment
  for (int i = 0; i < segments * width; ++i)
    before.data()[i] = expected_last.data()[i] = -1, expected_sum.data()[i] = expected_sorted.data()[i] = 0;
  const auto ascending = sort(of);
  for (int i = 0; i < n; ++i)
    for (int c = 0; c < width; ++c) {
      expected_last(of(i), c) = values(i, c);
      expected_sum(of(i), c) += values(i, c);
      expected_sorted(ascending(i), c) += values(i, c);
    }
  for (const int threads : {1, 2, 5}) {
    session s{g, {.threads = threads}};
    const auto [a, b, c] = s.run(fetch(last, summed, sorted), with(x, values), with(ids, of), with(to, before));
    std::size_t wrong = 0;
    for (int i = 0; i < segments * width; ++i)
      wrong += (a.data()[i] != expected_last.data()[i]) + (b.data()[i] != expected_sum.data()[i]) +
               (c.data()[i] != expected_sorted.data()[i]);
    BOOST_CHECK_EQUAL(wrong, 0u);
  }
}

BOOST_AUTO_TEST_CASE(derivatives_of_writes) {
  gradient_check check;
  const auto x = check.input<dims<4, 3>>();
  const auto rows_in = check.input<dims<3, 3>>(0.5, 2);
  const tensor<std::int32_t, dims<3>> at{2, 0, 2}, distinct{2, 0, 3};
  check("add", square(scatter(x, at, rows_in, combine::add)), 2);
  check("update", square(scatter(x, distinct, rows_in)), 2);
  check("max", square(scatter(x, at, rows_in, combine::max)), 2);
  check("min", scatter(x * x, at, rows_in, combine::min), 2);
  check("mul", scatter(x, at, rows_in, combine::mul), 2);
  const tensor<std::int64_t, dims<4>> ids{1, 0, 1, 1};
  check("prod", unsorted_segment_prod<3>(x, ids), 2);
  check("mean", square(unsorted_segment_mean<2>(x, ids)), 2);
  check("softmax", segment_softmax<2>(x, ids), 2);
  check("vectors", square(gather_nd(x, tensor<std::int32_t, dims<3, 2>>{1, 2, 0, 0, 1, 2})), 2);
  check("into zeros", square(scatter_nd<dims<2, 3>>(tensor<std::int32_t, dims<4, 1>>{1, 0, 1, 1}, x)), 2);
  check("weights", square(bincount<4>(tensor<std::int32_t, dims<4, 3>>{0, 1, 0, 2, 9, 1, 1, 0, 2, 2, -1, 0}, x)), 2);
}

#if !WEFT_COMPILES_FOR_GPU
BOOST_AUTO_TEST_CASE(indices_that_are_refused) {
  const tensor<float, dims<3, 2>> x{};
  const auto failure = [](error_code code, auto f) { return test::failure(code, [&] { static_cast<void>(f()); }); };
  using three = tensor<std::int32_t, dims<3>>;
  CHECK_SAYS(failure(error_code::out_of_range, [&] { return scatter(x, three{0, 3, 1}, 1.0f); }),
             "scatter: indices must be in [0, 3), but indices[1] is 3");
  CHECK_SAYS(failure(error_code::out_of_range, [&] { return unsorted_segment_sum<2>(x, three{0, -1, 2}); }),
             "segments: indices must be in [0, 2), but indices[2] is 2");
  CHECK_SAYS(failure(error_code::invalid_argument, [&] { return segment_sum<3>(x, three{0, 2, 1}); }),
             "the segment ids must ascend: sort them, or use the unsorted form");
  CHECK_SAYS(failure(error_code::invalid_argument, [&] { return segment_sum(x, three{0, 1, 2}, -4); }),
             "segments: the number of segments must be 0 or more; it is -4");
  CHECK_SAYS(
      failure(error_code::out_of_range, [&] { return gather_nd(x, tensor<std::int32_t, dims<2, 2>>{2, 1, 0, 2}); }),
      "gather_nd: index vector 1 is out of range: its indices must be less than [3, 2] and not negative");
}
#else
BOOST_AUTO_TEST_CASE(indices_that_a_gpu_ignores) {
  graph g;
  const auto x = placeholder<float, dims<2, 2>>(g, "x");
  const auto at = placeholder<std::int32_t, dims<3>>(g, "at");
  const auto vectors = placeholder<std::int32_t, dims<2, 2>>(g, "vectors");
  session s{g};
  const auto [y, z] = s.run(
      fetch(scatter(x, at, 7.0f), gather_nd(x, vectors)), with(x, tensor<float, dims<2, 2>>{1, 2, 3, 4}),
      with(at, tensor<std::int32_t, dims<3>>{-1, 1, 2}), with(vectors, tensor<std::int32_t, dims<2, 2>>{1, 1, 0, 2}));
  check_elements(y, {1, 2, 7, 7});
  check_elements(z, {4, 0});
}
#endif

BOOST_AUTO_TEST_CASE(rows_without_a_segment_have_no_softmax) {
  const auto y = segment_softmax<1>(tensor<float, dims<3>>{1000, 1, 1}, tensor<int, dims<3>>{-1, 0, 0});
  const auto z = ragged_softmax(tensor<float, dims<4>>{1000, 1, 1, 2000}, tensor<int, dims<2>>{1, 3});
  BOOST_CHECK_EQUAL(y(0) + z(0) + z(3), 0.0f);
  BOOST_CHECK_EQUAL(y(1) + z(2), 1.0f);
}

BOOST_AUTO_TEST_CASE(counts_belong_to_rows) {
  const tensor<float, dims<dyn<"n">>> x(shape(2), {1, 2});
  const auto few = [&](std::initializer_list<int> counts) {
    return repeat(x, tensor<int, dims<dyn<"n">>>(shape(static_cast<std::int64_t>(counts.size())), counts));
  };
  BOOST_CHECK_EQUAL(few({1, 2}).elements(), 3u);
  BOOST_CHECK_THROW(few({1, 2, 3}), error);
  BOOST_CHECK_THROW(few({1, -2}), error);
}

BOOST_AUTO_TEST_CASE(histograms_of_the_whole_range) {
  const auto y = histogram<4>(tensor<float, dims<3>>{-3e38f, 3e38f, 0}, -3e38f, 3e38f);
  BOOST_CHECK(y(0) == 1 && y(1) == 0 && y(2) == 1 && y(3) == 1);
}

BOOST_AUTO_TEST_CASE(rows_of_variables_are_written_in_place) {
  using D = dims<5, 3>;
  graph g;
  tensor<float, D> first;
  for (int i = 0; i < 15; ++i) first.data()[i] = static_cast<float>((i * 7) % 11);
  const auto v = variable<float, D>(g, "v", first);
  const auto at = placeholder<std::int64_t, dims<dyn<"n">>>(g, "at");
  const auto rows = placeholder<float, dims<dyn<"n">, 3>>(g, "rows");
  const auto column = placeholder<float, dims<5, 1>>(g, "column");
  session s{g, {.threads = 2}};
  const tensor<std::int64_t, dims<dyn<"n">>> which(shape(3), {4, 1, 4});
  const tensor<float, dims<dyn<"n">, 3>> with_rows(shape(3, 3), {1, 2, 3, 4, 5, 6, 7, 8, 9});
  for (const combine how : {combine::update, combine::add, combine::mul, combine::min, combine::max}) {
    const auto put = assign_scatter<0>(v, at, rows, how);
    const auto right = scatter<0>(v, at, rows, how);
    const auto [written, expected, before] = s.run(fetch(put, right, v * 1.0f), with(at, which), with(rows, with_rows));
    BOOST_CHECK(bool(written == expected));
    BOOST_CHECK(bool(s.get(v) == expected));
    BOOST_CHECK(bool(before == first));
    s.set(v, first);
  }
  s.run(fetch(assign_scatter<1>(v, tensor<int, dims<1>>{2}, column)),
        with(column, tensor<float, dims<5, 1>>{9, 8, 7, 6, 5}));
  BOOST_CHECK(s.get(v)(3, 2) == 6 && s.get(v)(3, 1) == first(3, 1));
  s.run(fetch(assign_scatter(v, tensor<int, dims<2>>{0, 0}, 1, combine::add)));
  BOOST_CHECK_EQUAL(s.get(v)(0, 0), first(0, 0) + 2);
  session_on_cpu host(g);  // a GPU cannot throw
  BOOST_CHECK_THROW(host.run(fetch(assign_scatter(v, tensor<int, dims<1>>{5}, 1.0f))), error);
}

BOOST_AUTO_TEST_CASE(infinities_are_the_largest_of_sorted_segments) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const tensor<float, dims<3>> x{-infinity, 1, 2};
  const tensor<int, dims<3>> ids{0, 2, 2};
  const auto largest = segment_max<3>(x, ids);
  BOOST_CHECK(largest(0) == -infinity && largest(1) == 0 && largest(2) == 2);
  BOOST_CHECK_EQUAL(segment_min<3>(-x, ids)(0), infinity);
}
