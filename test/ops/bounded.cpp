// SPDX-License-Identifier: BSL-1.0
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>
#include <weft/control_flow.hpp>
#include <weft/ops/index/unique.hpp>

#include "counted_allocations.hpp"
#include "elements.hpp"
#include "errors.hpp"
#include "gradient_check.hpp"
#include "session_on_cpu.hpp"

using namespace weft;
using test::check_elements;

// Values whose first extent is known when a kernel has run: boolean_mask and unique.

namespace {

using batch = dyn_extent<"batch">;
using high = dyn_extent<"high">;
using deep = dyn_extent<"deep">;
using lines = std::vector<std::vector<double>>;

/// The elements of a tensor are those of a list.
template <class Tensor>
void check_list(const std::string& what, const Tensor& x, const std::vector<double>& right) {
  BOOST_TEST_CONTEXT(what) {
    BOOST_REQUIRE_EQUAL(x.elements(), right.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < right.size(); ++i) wrong += static_cast<double>(x.data()[i]) != right[i];
    BOOST_CHECK_EQUAL(wrong, 0u);
  }
}

template <class T, class D>
tensor<T, D> made(const shape& extents, const std::vector<double>& values) {
  tensor<T, D> x(extents, uninitialized{});
  BOOST_REQUIRE_EQUAL(x.elements(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) x.data()[i] = static_cast<T>(values[i]);
  return x;
}

/// Calls f with the words behind this one, and the lines of numbers that follow.
template <class F>
void each_case(const std::string& kind, std::size_t numbers, F f) {
  std::ifstream in(TEST_DATA "/ops/bounded_values.txt");
  BOOST_REQUIRE_MESSAGE(in, TEST_DATA "/ops/bounded_values.txt" << " cannot be read");
  int cases = 0;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string first;
    if (!(words >> first) || first != kind) continue;
    std::vector<std::int64_t> head;
    for (std::int64_t n; words >> n;) head.push_back(n);
    lines all(numbers);
    for (auto& one : all) {
      std::getline(in, line);
      const char* at = line.c_str();
      for (char* end; *at; at = *end == ' ' ? end + 1 : end) one.push_back(std::strtod(at, &end));
    }
    ++cases;
    BOOST_TEST_CONTEXT(kind << " " << cases) { f(head, all); }
  }
  BOOST_CHECK_GE(cases, 8);
}

/// All of TensorFlow's cases of these ranks in one session, and over tensors.
template <class D, class M>
void check_masks() {
  graph g;
  const auto x = placeholder<double, D>(g, "x");
  const auto mask = placeholder<bool, M>(g, "mask");
  const auto kept = boolean_mask(x, mask);
  const auto squares = with_count(kept.values * kept.values, kept);
  const auto total = sum(squares);
  const auto [dx] = gradients(total, x);
  session s{g};
  auto step = s.prepare(fetch(kept, kept.values, kept.count, dx, mean(squares), total), feed(x, mask));
  each_case("mask", 5, [&](const std::vector<std::int64_t>& head, const lines& right) {
    if (static_cast<std::size_t>(head[0]) != D::rank || static_cast<std::size_t>(head[1]) != M::rank) return;
    shape extents, masked;
    for (std::size_t i = 0; i < D::rank; ++i) extents.push_back(head[2 + i]);
    for (std::size_t i = 0; i < M::rank; ++i) masked.push_back(head[2 + i]);
    const auto a = made<double, D>(extents, right[0]);
    const auto m = made<bool, M>(masked, right[1]);
    const auto [found, all, count, gradient, middle, summed] = step(a, m);
    check_list("rows", found, right[2]);
    BOOST_CHECK_EQUAL(found.extents().rank, D::rank - M::rank + 1);
    BOOST_CHECK_EQUAL(found.extent(0), count);
    BOOST_CHECK_EQUAL(all.extents()[0], static_cast<std::int64_t>(masked.elements()));
    double behind = 0;
    for (std::size_t i = found.elements(); i < all.elements(); ++i) behind += std::abs(all.data()[i]);
    BOOST_CHECK_EQUAL(behind, 0);
    check_list("gradient", gradient, right[3]);
    if (std::isnan(right[4][0]))
      BOOST_CHECK(std::isnan(middle) && summed == 0);
    else
      BOOST_CHECK_CLOSE(middle, right[4][0], 1e-10);
    const auto at_once = boolean_mask(a, m);
    check_list("at once", at_once, right[2]);
    BOOST_CHECK(at_once.extents() == found.extents());
  });
}

template <class T>
void check_unique() {
  graph g;
  const auto x = placeholder<T, dims<batch{}>>(g, "x");
  const auto [values, indices, counts] = unique_with_counts(x);
  const auto again = unique(x);
  session s{g};
  auto step = s.prepare(fetch(values, indices, counts, again.values, values.values), feed(x));
  each_case("unique", 4, [&](const std::vector<std::int64_t>& head, const lines& right) {
    const auto a = made<T, dims<batch{}>>(shape(head[0]), right[0]);
    const auto [v, i, c, second, all] = step(a);
    check_list("values", v, right[1]);
    check_list("indices", i, right[2]);
    check_list("counts", c, right[3]);
    check_list("values alone", second, right[1]);
    BOOST_CHECK_EQUAL(all.extent(0), head[0]);
    for (std::size_t k = v.elements(); k < all.elements(); ++k)
      BOOST_CHECK_EQUAL(static_cast<double>(all.data()[k]), 0);
    const auto [v0, i0, c0] = unique_with_counts(a);
    check_list("values at once", v0, right[1]);
    check_list("indices at once", i0, right[2]);
    check_list("counts at once", c0, right[3]);
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(masks_as_in_tensorflow) {
  check_masks<dims<batch{}>, dims<batch{}>>();
  check_masks<dims<batch{}, high{}>, dims<batch{}>>();
  check_masks<dims<batch{}, high{}>, dims<batch{}, high{}>>();
  check_masks<dims<batch{}, high{}, deep{}>, dims<batch{}>>();
  check_masks<dims<batch{}, high{}, deep{}>, dims<batch{}, high{}>>();
  check_masks<dims<batch{}, high{}, deep{}>, dims<batch{}, high{}, deep{}>>();
}

BOOST_AUTO_TEST_CASE(unique_as_in_tensorflow) {
  check_unique<std::int32_t>();
  check_unique<std::int64_t>();
  check_unique<float>();
}

BOOST_AUTO_TEST_CASE(their_types) {
  const tensor<float, dims<4, 2, 3>> x{};
  const tensor<bool, dims<4, 2>> m{};
  static_assert(std::is_same_v<dims_t<decltype(boolean_mask(x, m))>, dims<dyn<"count">, 3>>);
  static_assert(std::is_same_v<dims_t<decltype(boolean_mask<dyn<"kept">>(x, m))>, dims<dyn<"kept">, 3>>);
  graph g;
  const auto n = placeholder<bool, dims<4, 2>>(g, "n");
  const auto kept = boolean_mask(x, n);  // a tensor by a mask in the graph
  static_assert(std::is_same_v<dims_t<decltype(kept.values)>, dims<8, 3>>);
  static_assert(std::is_same_v<dims_t<decltype(valid(kept))>, dims<8>>);
  static_assert(std::is_same_v<decltype(with_count<dyn<"few">>(n, kept.count))::real_dims, dims<dyn<"few">, 2>>);
  const auto y = placeholder<weft::half, dims<batch{}, 2>>(g, "y");
  const auto p = placeholder<bool, dims<batch{}, 2>>(g, "p");
  const auto halves = boolean_mask<dyn<"kept">>(y, p);
  static_assert(std::is_same_v<dims_t<decltype(halves.values)>, dims<batch{} * extent<2>>>);
  session s{g};
  const auto some = s.eval(
      halves,
      with(y, tensor<weft::half, dims<2, 2>>{weft::half(1.f), weft::half(2.f), weft::half(3.f), weft::half(4.f)}),
      with(p, tensor<bool, dims<2, 2>>{true, false, true, true}));
  static_assert(std::is_same_v<decltype(some), const tensor<weft::half, dims<dyn<"kept">>>>);
  check_elements(eval(cast<float>(some)), {1, 3, 4});
  const auto flags = boolean_mask(p, tensor<bool, dims<batch{}, 2>>(shape(2, 2), {true, true, false, true}));
  check_elements(s.eval(flags, with(p, tensor<bool, dims<2, 2>>{false, true, true, true})), {0, 1, 1});
  check_elements(s.eval(kept, with(n, tensor<bool, dims<4, 2>>{true, false, false, false, false, false, false, false})),
                 {0, 0, 0});
  const auto rounded = with_count(cast<weft::half>(cast<float>(halves.values) * 2.0f), halves);
  check_elements(
      eval(cast<float>(s.eval(rounded, with(y, tensor<weft::half, dims<1, 2>>{weft::half(1.f), weft::half(2.f)}),
                              with(p, tensor<bool, dims<1, 2>>{false, true})))),
      {4});
}

BOOST_AUTO_TEST_CASE(extents_that_differ_at_run_time) {
  const tensor<float, dims<batch{}, 2>> x(shape(3, 2));
  const tensor<bool, dims<batch{}>> m(shape(4));
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { static_cast<void>(boolean_mask(x, m)); }),
             "boolean_mask: the mask must have the first extents of x, [3, 2], but it has [4]");
  graph g;
  const auto a = placeholder<float, dims<batch{}, 2>>(g, "a");
  const auto b = placeholder<bool, dims<batch{}>>(g, "b");
  session s{g};
  CHECK_SAYS(test::failure(error_code::invalid_argument,
                           [&] { static_cast<void>(s.eval(boolean_mask(a, b), with(a, x), with(b, m))); }),
             "batch");
}

BOOST_AUTO_TEST_CASE(derivatives_of_masks) {
  gradient_check check;
  const auto x = check.input<dims<4, 3>>();
  const auto m = check.fixed(tensor<bool, dims<4>>{true, false, true, true});
  const auto single = check.fixed(
      tensor<bool, dims<4, 3>>{true, true, false, false, false, true, false, false, false, true, true, true});
  const auto kept = boolean_mask(square(x), m);
  check("rows", kept.values * kept.values, 3);
  check("elements", square(boolean_mask(x, single).values), 2);
  check("mean", square(mean(kept)), 2);
  check("mean of columns", mean<0>(with_count(kept.values * kept.values, kept)), 2);
  check("product", prod<0>(kept), 1);
  check("twice", square(boolean_mask(kept, check.fixed(tensor<bool, dims<4>>{true, true, false, true})).values), 2);
}

BOOST_AUTO_TEST_CASE(reductions_of_the_real_rows) {
  graph g;
  const auto x = placeholder<float, dims<batch{}, 3>>(g, "x");
  const auto m = placeholder<bool, dims<batch{}>>(g, "m");
  const auto kept = boolean_mask(x, m);
  session s{g};
  auto step = s.prepare(fetch(sum(kept), sum<0>(kept), sum<1>(kept), mean<0>(kept), mean<-1>(kept), mean<0, 1>(kept),
                              max(kept), max<0>(kept), max<1>(kept), min<-2>(kept), min(kept), prod(kept),
                              argmax<0>(kept), argmax<1>(kept), valid(kept)),
                        feed(x, m));
  const tensor<float, dims<4, 3>> a{-1, -2, -3, 8, 8, 8, -5, -1, -2, 9, -9, 9};
  {
    const auto [s0, s1, s2, m1, m2, m3, x0, x1, x2, n1, n0, p, a0, a1, v] =
        step(a, tensor<bool, dims<4>>{true, false, true, false});
    BOOST_CHECK_EQUAL(s0, -14);
    check_elements(s1, {-6, -3, -5});
    check_elements(s2, {-6, -8});
    check_elements(m1, {-3, -1.5, -2.5});
    check_elements(m2, {-2, static_cast<double>(-8.0f / 3)});
    BOOST_CHECK_CLOSE(m3, -14.0f / 6, 1e-4f);
    BOOST_CHECK_EQUAL(x0, -1);
    check_elements(x1, {-1, -1, -2});
    check_elements(x2, {-1, -1});
    check_elements(n1, {-5, -2, -3});
    BOOST_CHECK_EQUAL(n0, -5);
    BOOST_CHECK_EQUAL(p, 60);
    check_elements(a0, {0, 1, 1});
    check_elements(a1, {0, 1});
    check_elements(v, {1, 1, 0, 0});
  }
  const auto [s0, s1, s2, m1, m2, m3, x0, x1, x2, n1, n0, p, a0, a1, v] = step(a, tensor<bool, dims<4>>{});
  BOOST_CHECK(s0 == 0 && std::isnan(m3) && std::isinf(x0) && x0 < 0 && std::isinf(n0) && n0 > 0 && p == 1);
  check_elements(s2, {});
  check_elements(m2, {});
  check_elements(a0, {0, 0, 0});
  check_elements(v, {0, 0, 0, 0});

  // Rows of nothing.
  const auto empty = placeholder<float, dims<batch{}, high{}>>(g, "empty");
  const auto products = prod<1>(boolean_mask(empty, m));
  const auto [some, all] = s.run(fetch(products, products.values), with(empty, tensor<float, dims<3, 0>>()),
                                 with(m, tensor<bool, dims<3>>{false, true, false}));
  check_elements(some, {1});
  check_elements(all, {1, 0, 0});

  // Checks integers, where nothing is as low as minus infinity.
  const auto ids = placeholder<std::int32_t, dims<batch{}>>(g, "ids");
  const auto different = unique(ids).values;
  const auto fed = tensor<std::int32_t, dims<4>>{-7, -3, -7, -3};
  BOOST_CHECK_EQUAL(s.eval(max(different), with(ids, fed)), -3);
  BOOST_CHECK_EQUAL(s.eval(argmax<0>(different), with(ids, fed)), 1);
  BOOST_CHECK_EQUAL(s.eval(min(different), with(ids, tensor<std::int32_t, dims<3>>{5, 5, 5})), 5);
  BOOST_CHECK_EQUAL(s.eval(sum(different), with(ids, fed)), -10);
}

// Values that are computed of padding, and are not 0, take no part in the loss or in its gradients.
BOOST_AUTO_TEST_CASE(the_loss_of_the_examples_that_a_mask_keeps) {
  graph g;
  const auto x = placeholder<double, dims<batch{}, 2>>(g, "x");
  const auto labels = placeholder<std::int32_t, dims<batch{}>>(g, "labels");
  const auto m = placeholder<bool, dims<batch{}>>(g, "m");
  const auto w = variable<double, dims<2, 3>>(g, "w", tensor<double, dims<2, 3>>{0.5, -1, 2, 0.25, 1, -0.5});
  const auto b = variable<double, dims<3>>(g, "b", tensor<double, dims<3>>{0.1, 0.2, 0.3});
  const auto kept = boolean_mask(x, m);
  const auto losses = softmax_cross_entropy(matmul(kept.values, w) + b, boolean_mask(labels, m).values);
  const auto cost = mean(with_count(losses, kept));
  const auto [dx, dw, db] = gradients(cost, x, w, b);
  // The same of a batch that was filtered before.
  const auto alone = mean(softmax_cross_entropy(matmul(x, w) + b, labels));
  const auto [dx1, dw1, db1] = gradients(alone, x, w, b);
  session s{g};
  const tensor<double, dims<batch{}, 2>> a(shape(5, 2), {1, 2, 3, 4, 5, 6, -1, 0.5, 2, -3});
  const tensor<std::int32_t, dims<batch{}>> l(shape(5), {0, 1, 2, 1, 0});
  const tensor<bool, dims<batch{}>> some(shape(5), {false, true, false, true, true});
  const auto [c, gx, gw, gb] = s.run(fetch(cost, dx, dw, db), with(x, a), with(labels, l), with(m, some));
  const auto [c1, gx1, gw1, gb1] =
      s.run(fetch(alone, dx1, dw1, db1), with(x, boolean_mask(a, some)), with(labels, boolean_mask(l, some)));
  const auto close = [](const auto& one, const auto& other) {
    BOOST_REQUIRE_EQUAL(one.elements(), other.elements());
    for (std::size_t i = 0; i < one.elements(); ++i) BOOST_CHECK_SMALL(one.data()[i] - other.data()[i], 1e-14);
  };
  BOOST_CHECK_SMALL(c - c1, 1e-14);
  close(gw, gw1);
  close(gb, gb1);
  close(boolean_mask(gx, some), gx1);
  check_elements(boolean_mask(gx, eval(!some)), {0, 0, 0, 0});
}

// Rows are looked up once each, and spread to where they belong.
BOOST_AUTO_TEST_CASE(embeddings_of_unique_ids) {
  graph g;
  const auto table = variable<float, dims<10, 3>>(g, "table", init::uniform{-1, 1});
  const auto ids = placeholder<std::int64_t, dims<batch{}>>(g, "ids");
  const auto weight = placeholder<float, dims<batch{}, 3>>(g, "weight");
  const auto words = unique(ids);
  const auto spread = gather(gather(table, words.values.values), words.indices);
  const auto direct = gather(table, ids);
  const auto [d] = gradients(sum(spread * weight), table);
  const auto [d1] = gradients(sum(direct * weight), table);
  session s{g};
  auto step = s.prepare(fetch(spread, direct, d, d1), feed(ids, weight));
  for (const std::int64_t n : {8, 1, 0}) {
    tensor<std::int64_t, dims<batch{}>> i{shape(n)};
    tensor<float, dims<batch{}, 3>> w(shape(n, 3));
    for (std::int64_t k = 0; k < n; ++k) i(k) = 9 - k * k % 5;
    for (std::size_t k = 0; k < w.elements(); ++k) w.data()[k] = static_cast<float>(k % 7) - 3;
    const auto [y, y1, t, t1] = step(i, w);
    check_list("rows", y, {y1.begin(), y1.end()});
    check_list("gradient", t, {t1.begin(), t1.end()});
  }
}

BOOST_AUTO_TEST_CASE(zeros_and_nans_that_are_unique) {
  const float nan = NAN;
  const auto [values, indices] = unique(tensor<float, dims<7>>{nan, -0.0f, 1, 0.0f, -nan, 1, -INFINITY});
  BOOST_REQUIRE_EQUAL(values.elements(), 4u);
  BOOST_CHECK(std::isnan(values(0)) && values(1) == 0 && std::signbit(values(1)) && values(2) == 1);
  check_elements(indices, {0, 1, 2, 1, 0, 2, 3});
}

BOOST_AUTO_TEST_CASE(what_has_no_gradient) {
  graph g;
  const auto x = placeholder<float, dims<4>>(g, "x");
  const auto values = unique(x).values;
  CHECK_SAYS(test::failure(error_code::unimplemented, [&] { static_cast<void>(gradients(sum(values), x)); }),
             "unique: has no gradient, as in TensorFlow: use gather(table, indices)");
}

BOOST_AUTO_TEST_CASE(in_bodies) {
  graph g;
  const auto x = placeholder<float, dims<batch{}>>(g, "x");
  const auto positive = placeholder<bool>(g, "positive");
  const auto [values, count] = cond(
      positive,
      [](auto x) {
        const auto kept = boolean_mask(x, x > 0.f);
        return std::tuple{kept.values, kept.count};
      },
      [](auto x) {
        const auto [values, indices] = unique(stop_gradient(x));
        return std::tuple{values.values, values.count};
      },
      x);
  const auto chosen = with_count<dyn<"chosen">>(values, count);
  const auto [dx] = gradients(sum(with_count(chosen.values * chosen.values, chosen)), x);
  // Halves what is over 1 until nothing is.
  const auto [steps, low] = while_loop([](auto, auto x) { return max(x) > 1.f; },
                                       [](auto i, auto x) {
                                         const auto over = boolean_mask(x, x > 1.f);
                                         return std::tuple{i + cast<int>(over.count), select(x > 1.f, x / 2.f, x)};
                                       },
                                       tensor<int>(0), x);
  const auto [rounds, total] = while_loop([](auto i, auto, auto) { return i < 3; },
                                          [](auto i, auto total, auto x) {
                                            const auto over = boolean_mask(x * cast<float>(i), x > 1.f);
                                            return std::tuple{i + 1, total + sum(over)};
                                          },
                                          {.max_iterations = 3}, tensor<int>(0), tensor<float>(0), invariant(x));
  const auto [dtotal] = gradients(total, x);
  session s{g};
  check_elements(s.eval(dtotal, with(x, tensor<float, dims<4>>{3, -1, 2, 0.5})), {3, 0, 3, 0});
  auto step = s.prepare(fetch(chosen, dx, steps, low), feed(x, positive));
  for (int round = 0; round < 2; ++round) {
    const tensor<float, dims<batch{}>> a(shape(5), {3, -1, 3, 0.5, 3}), b(shape(2), {1, 9});
    const auto [kept, gradient, n, y] = step(a, true);
    check_elements(kept, {3, 3, 0.5, 3});
    check_elements(gradient, {6, 0, 6, 1, 6});
    BOOST_CHECK_EQUAL(n, 6);
    check_elements(y, {0.75, -1, 0.75, 0.5, 0.75});
    const auto [different, none, n1, y1] = step(a, false);
    check_elements(different, {3, -1, 0.5});
    check_elements(none, {0, 0, 0, 0, 0});
    const auto [all, gradient2, n2, y2] = step(b, true);
    check_elements(all, {1, 9});
    check_elements(gradient2, {2, 18});
    BOOST_CHECK_EQUAL(n2, 4);
  }
}

BOOST_AUTO_TEST_CASE(a_count_that_is_not_in_its_bound) {
  graph g;
  const auto x = placeholder<float, dims<batch{}, 2>>(g, "x");
  const auto n = placeholder<std::int64_t>(g, "n");
  const auto b = with_count(x, n);
  session s{g};
  auto step = s.prepare(fetch(b, sum(b)), feed(x, n));
  const tensor<float, dims<3, 2>> a{1, 2, 3, 4, 5, 6};
  check_elements(std::get<0>(step(a, std::int64_t{2})), {1, 2, 3, 4});
  check_elements(std::get<0>(step(a, std::int64_t{3})), {1, 2, 3, 4, 5, 6});
  BOOST_CHECK_EQUAL(std::get<1>(step(a, std::int64_t{1})), 3);
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{4}})
    CHECK_SAYS(test::failure(error_code::out_of_range, [&] { static_cast<void>(step(a, wrong)); }),
               "the count must be 0 to 3");
  check_elements(std::get<0>(step(a, std::int64_t{0})), {});
}

// A fetched value stays as it was while the next steps run.
BOOST_AUTO_TEST_CASE(fetched_rows_are_the_callers) {
  graph g;
  const auto x = placeholder<float, dims<batch{}>>(g, "x");
  const auto over = boolean_mask(x, x > 1.0f);
  session s{g};
  auto step = s.prepare(fetch(over), feed(x));
  auto first = step(tensor<float, dims<4>>{1, 2, 3, 0});
  const auto copy = first;
  const auto second = step(tensor<float, dims<4>>{5, 2, 3, 9});
  check_elements(first, {2, 3});
  check_elements(second, {5, 2, 3, 9});
  first(0) = 7;
  check_elements(copy, {2, 3});
  check_elements(step(tensor<float, dims<4>>{0, 0, 0, 4}), {4});
  check_elements(eval(first * 2.0f), {14, 6});
}

BOOST_AUTO_TEST_CASE(the_same_bits_with_threads) {
  constexpr std::int64_t n = 300'000;
  graph g;
  const auto x = placeholder<double, dims<batch{}, 2>>(g, "x");
  const auto ids = placeholder<std::int32_t, dims<batch{}>>(g, "ids");
  const auto kept = boolean_mask(x, ids > 0);
  const auto [values, indices, counts] = unique_with_counts(ids);
  const auto [dx] = gradients(mean(with_count(kept.values * kept.values, kept)), x);
  tensor<double, dims<batch{}, 2>> a(shape(n, 2));
  tensor<std::int32_t, dims<batch{}>> i{shape(n)};
  for (std::int64_t k = 0; k < n; ++k) i(k) = static_cast<std::int32_t>(k * 7919 % 100'003 % 5000) - 1000;
  for (std::size_t k = 0; k < a.elements(); ++k) a.data()[k] = static_cast<double>(k % 1001) / 77 - 5;
  std::vector<double> first[5];
  for (const int threads : {1, 2, 4}) {
    session s{g, {.threads = threads}};
    const auto [y, d, v, where, c] = s.run(fetch(kept, dx, values, indices, counts), with(x, a), with(ids, i));
    const std::vector<double> now[] = {{y.begin(), y.end()},
                                       {d.begin(), d.end()},
                                       {v.begin(), v.end()},
                                       {where.begin(), where.end()},
                                       {c.begin(), c.end()}};
    BOOST_CHECK_EQUAL(v.elements(), 5000u);
    for (int k = 0; k < 5; ++k) {
      if (threads == 1) first[k] = now[k];
      BOOST_CHECK(now[k] == first[k]);
    }
  }
}

#if COUNTS_MALLOC
BOOST_AUTO_TEST_CASE(nothing_is_allocated_after_the_first_calls) {
  for (const int threads : {1, 2}) {
    graph g;
    const auto x = placeholder<float, dims<batch{}, 4>>(g, "x");
    const auto ids = placeholder<std::int32_t, dims<batch{}>>(g, "ids");
    const auto w = variable<float, dims<4>>(g, "w", init::ones{});
    const auto kept = boolean_mask(x * w, ids > 0);
    const auto [values, indices] = unique(ids);
    const auto train = gradient_descent{0.01}.minimize(mean(kept));
    session s{g, {.threads = threads}};
    auto step = s.prepare(fetch(kept, values, indices, sum<1>(kept), train), feed(x, ids));
    tensor<float, dims<batch{}, 4>> full(shape(50, 4)), ragged(shape(9, 4));
    tensor<std::int32_t, dims<batch{}>> a{shape(50)}, b{shape(9)};
    int turn = 0;
    const auto epoch = [&] {
      for (int k = 0; k < 5; ++k, ++turn) {  // another count each time
        for (std::size_t i = 0; i < 50; ++i) a.data()[i] = static_cast<int>(i * 7) % (turn + 3) - 1;
        for (std::size_t i = 0; i < 9; ++i) b.data()[i] = static_cast<int>(i) - turn % 8;
        step(full, a), step(ragged, b);
      }
    };
    epoch();
    BOOST_CHECK_EQUAL(test::allocations_of(epoch), 0u);
  }
}
#endif

#if WEFT_COMPILES_FOR_GPU
// Nothing of it is placed elsewhere.
BOOST_AUTO_TEST_CASE(a_gpu_has_kernels_for_all_of_it) {
  graph g;
  const auto x = placeholder<float, dims<batch{}, 2>>(g, "x");
  const auto ids = placeholder<std::int32_t, dims<batch{}>>(g, "ids");
  const auto kept = boolean_mask(x, ids > 2);
  const auto [values, indices, counts] = unique_with_counts(ids);
  const auto [dx] = gradients(mean(kept), x);
  session_on_cpu s{g, {.device = weft::cuda{0}}};
  auto step = s.prepare(fetch(kept, dx, values, indices, counts), feed(x, ids));
  for (const std::int64_t n : {700, 0, 3}) {
    tensor<float, dims<batch{}, 2>> a(shape(n, 2));
    tensor<std::int32_t, dims<batch{}>> b{shape(n)};
    for (std::size_t i = 0; i < a.elements(); ++i) a.data()[i] = static_cast<float>(i);
    for (std::size_t i = 0; i < b.elements(); ++i) b.data()[i] = static_cast<int>(i * i % 23);
    const auto [y, d, v, i, c] = step(a, b);
    const auto right = boolean_mask(a, b > 2);
    const auto [v1, i1, c1] = unique_with_counts(b);
    check_list("rows", y, {right.begin(), right.end()});
    check_list("values", v, {v1.begin(), v1.end()});
    check_list("indices", i, {i1.begin(), i1.end()});
    check_list("counts", c, {c1.begin(), c1.end()});
    float sum = 0;
    for (const float e : d) sum += e;
    BOOST_CHECK_SMALL(sum - (y.elements() > 0 ? 1 : 0), 1e-4f);
  }
}
#endif
