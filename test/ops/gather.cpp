// SPDX-License-Identifier: BSL-1.0
#include <fstream>
#include <sstream>
#include <string>
#include <vector>
#include <weft/ops/index/gather.hpp>
#include <weft/ops/index/sort.hpp>
#include <weft/ops/random/shuffle.hpp>

#include "elements.hpp"
#include "errors.hpp"
#include "gradient_check.hpp"
#include "oracle/compare.hpp"

using namespace weft;
using test::check_elements;

namespace {

using batch = dyn_extent<"batch">;

}  // namespace

BOOST_AUTO_TEST_CASE(over_tensors) {
  const tensor<float, dims<3, 2>> x{1, 2, 3, 4, 5, 6};
  const tensor<std::int32_t, dims<2, 2>> n{2, 0, 0, 1};
  const auto y = gather(x, n);
  static_assert(std::is_same_v<dims_t<decltype(gather(x, n))>, dims<2, 2, 2>>);
  check_elements(y, {5, 6, 1, 2, 1, 2, 3, 4});
  const tensor<std::int64_t, dims<3>> m{1, 1, 0};
  check_elements(gather<-1>(x, m), {2, 2, 1, 4, 4, 3, 6, 6, 5});
  static_assert(std::is_same_v<dims_t<decltype(gather<1>(x, m))>, dims<3, 3>>);
  check_elements(gather(x * 2.0f, tensor<std::int32_t, dims<>>{2}), {10, 12});
  check_elements(gather(tensor<bool, dims<2>>{true, false}, m), {0, 0, 1});
  check_elements(gather(x, tensor<std::int32_t, dims<batch{}>>(shape(0))), {});
}

BOOST_AUTO_TEST_CASE(an_index_that_no_row_has) {
  const tensor<float, dims<3, 2>> x{};
  const auto of = [&](std::int32_t n) {
    return test::failure(error_code::out_of_range,
                         [&] { static_cast<void>(gather(x, tensor<std::int32_t, dims<2>>{0, n})); });
  };
  CHECK_SAYS(of(3), "indices must be in [0, 3), but indices[1] is 3");
  CHECK_SAYS(of(-1), "indices[1] is -1: clamp the indices");
}

// Many of one row, which are summed in order, and many rows, which threads share.
BOOST_AUTO_TEST_CASE(in_a_step) {
  constexpr int rows = 700, width = 33;
  graph g;
  const auto table = variable<float, dims<rows, width>>(g, "table", init::uniform{-1, 1});
  const auto numbers = placeholder<std::int32_t, dims<batch{}, 3>>(g, "numbers");
  const auto found = gather(table, numbers);
  const auto weight = placeholder<float, dims<batch{}, 3, width>>(g, "weight");
  const auto [gradient] = gradients(sum(found * weight), table);
  session s{g, {.threads = 2}};
  auto step = s.prepare(fetch(found, gradient), feed(numbers, weight));
  const auto all = s.eval(table);
  for (const std::int64_t n : {1, 900, 0, 40}) {
    tensor<std::int32_t, dims<batch{}, 3>> which(shape(n, 3));
    tensor<float, dims<batch{}, 3, width>> w(shape(n, 3, width));
    for (std::size_t i = 0; i < which.elements(); ++i)
      which.data()[i] = static_cast<std::int32_t>(i % 5 == 0 ? 7 : i * 7919 % rows);
    for (std::size_t i = 0; i < w.elements(); ++i) w.data()[i] = static_cast<float>(i % 101) / 64 - 0.5f;
    const auto [y, d] = step(which, w);
    std::vector<float> right(rows * width);
    std::size_t wrong = 0;
    for (std::size_t k = 0; k < which.elements(); ++k)
      for (std::size_t c = 0; c < width; ++c) {
        const auto row = static_cast<std::size_t>(which.data()[k]);
        wrong += y.data()[k * width + c] != all.data()[row * width + c];
        right[row * width + c] += w.data()[k * width + c];
      }
    for (std::size_t i = 0; i < right.size(); ++i) wrong += d.data()[i] != right[i];
    BOOST_CHECK_EQUAL(wrong, 0);
  }
}

namespace {

/// Numbers of NumPy's and PyTorch's by their name; see make_gather_values.py.
oracle::numbers values_of(const std::string& name) {
  std::ifstream file(TEST_DATA "/ops/gather_values.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word != name) continue;
    oracle::numbers values;
    for (double x; words >> x;) values.push_back(x);
    return values;
  }
  BOOST_FAIL(name + " is not in gather_values.txt");
  return {};
}

template <class T, class D>
tensor<T, D> read(const std::string& name) {
  const oracle::numbers values = values_of(name);
  tensor<T, D> t;
  BOOST_REQUIRE_EQUAL(values.size(), t.elements());
  for (std::size_t i = 0; i < t.elements(); ++i) t.data()[i] = static_cast<T>(values[i]);
  return t;
}

/// Over tensors, in a step, and the gradient of a weighted sum.
template <class T, class I, class X, class N, class F>
void check_values(const std::string& name, F f) {
  const auto x = read<T, X>(name + "_x");
  const auto n = read<I, N>(name + "_indices");
  const auto value = values_of(name + "_value");
  oracle::compare(name + " of tensors", f(x, n), value, 0);
  graph g;
  const auto v = variable<T, X>(g, "x", x);
  const auto indices = placeholder<I, N>(g, "indices");
  const auto y = f(v, indices);
  const auto [d] = gradients(sum(y * cast<T>(oracle::weight_of(y))), v);
  session s{g, {.threads = 2}};
  const auto [found, found_d] = s.run(fetch(y, d), with(indices, n));
  oracle::compare(name, found, value, 0);
  oracle::compare(name + ", gradient", found_d, values_of(name + "_d_x"), 0);
}
template <class X, class N, class F>
void check_all(const std::string& name, F f) {
  check_values<float, std::int32_t, X, N>(name, f);
  check_values<double, std::int64_t, X, N>(name, f);
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_numpy_and_pytorch_take) {
  const auto batched = [](const auto& x, const auto& n) { return batch_gather<1>(x, n); };
  check_all<dims<4, 5>, dims<4>>("batch_elements", batched);
  check_all<dims<3, 4, 2>, dims<3, 3>>("batch_rows", batched);
  check_all<dims<2, 4>, dims<2, 3, 2>>("batch_of_lists", batched);
  check_all<dims<2, 3, 4, 2>, dims<2, 3>>("batch_axis",
                                          [](const auto& x, const auto& n) { return batch_gather<1, -2>(x, n); });
  check_all<dims<2, 3, 5>, dims<2, 3>>("batch_2", [](const auto& x, const auto& n) { return batch_gather<2>(x, n); });
  const auto along_0 = [](const auto& x, const auto& n) { return take_along_axis<0>(x, n); };
  const auto along_1 = [](const auto& x, const auto& n) { return take_along_axis<1>(x, n); };
  check_all<dims<4, 3>, dims<2, 3>>("along_0", along_0);
  check_all<dims<2, 4, 3>, dims<2, 5, 3>>("along_1", along_1);
  check_all<dims<3, 5>, dims<3, 2>>("along_last", along_1);
  check_all<dims<4, 3>, dims<2, 1>>("along_broadcast_indices", along_0);
  check_all<dims<1, 4>, dims<3, 2>>("along_broadcast_x", along_1);
}

// The Q-values of the actions that were taken: named extents, and a gradient in each row.
BOOST_AUTO_TEST_CASE(one_element_of_each_row) {
  graph g;
  const auto q = placeholder<float, dims<batch{}, 3>>(g, "q");
  const auto actions = placeholder<std::int32_t, dims<batch{}>>(g, "actions");
  const auto taken = batch_gather(q, actions);
  static_assert(std::is_same_v<dims_t<decltype(taken)>, dims<batch{}>>);
  const auto pairs = gather<1, outer_indexing>(q, actions);
  static_assert(std::is_same_v<dims_t<decltype(pairs)>, dims<batch{}, batch{}>>);
  const auto [d] = gradients(sum(square(taken)), q);
  const auto orders = take_along_axis<1>(q, argsort<1>(q));
  session s{g};
  auto step = s.prepare(fetch(taken, pairs, d, orders), feed(q, actions));
  const auto [found, all, gradient, sorted] =
      step(tensor<float, dims<2, 3>>{1, 2, 3, 6, 5, 4}, tensor<std::int32_t, dims<2>>{2, 0});
  check_elements(found, {3, 6});
  check_elements(all, {3, 1, 4, 6});
  check_elements(gradient, {0, 0, 6, 12, 0, 0});
  check_elements(sorted, {1, 2, 3, 4, 5, 6});
  const auto [none, no_pairs, no_gradient, no_rows] =
      step(tensor<float, dims<batch{}, 3>>(shape(0, 3)), tensor<std::int32_t, dims<batch{}>>(shape(0)));
  BOOST_CHECK_EQUAL(none.elements() + no_pairs.elements() + no_gradient.elements() + no_rows.elements(), 0u);
  const auto half = cast<weft::half>(q);
  check_elements(s.eval(cast<float>(batch_gather<1>(half, actions)), with(q, tensor<float, dims<1, 3>>{1, 2, 3}),
                        with(actions, tensor<std::int32_t, dims<1>>{1})),
                 {2});
  check_elements(
      batch_gather<1>(tensor<bool, dims<2, 2>>{true, false, false, true}, tensor<std::int64_t, dims<2>>{0, 0}), {1, 0});
}

// A square matrix of named extents is shuffled like any other.
BOOST_AUTO_TEST_CASE(squares_are_shuffled) {
  graph g;
  const auto x = placeholder<float, dims<batch{}, batch{}>>(g, "x");
  session s{g};
  const auto rows = s.eval(sum<0>(shuffle(x)), with(x, tensor<float, dims<2, 2>>{1, 2, 3, 4}));
  check_elements(rows, {4, 6});
}

// Many rows, which threads share: the same by the definition, and the same bits on one thread.
BOOST_AUTO_TEST_CASE(many_rows_of_a_batch) {
  constexpr int width = 70, inner = 5;
  graph g;
  const auto x = placeholder<float, dims<batch{}, width, inner>>(g, "x");
  const auto n = placeholder<std::int64_t, dims<batch{}, 3>>(g, "n");
  const auto each = placeholder<std::int32_t, dims<batch{}, 3, inner>>(g, "each");
  const auto a = batch_gather<1>(x, n);
  const auto b = take_along_axis<1>(x, each);
  const auto [d] = gradients(sum(square(a)) + sum(b * b * 0.5f), x);
  tensor<float, dims<batch{}, width, inner>> of(shape(900, width, inner)), right(shape(900, width, inner));
  tensor<std::int64_t, dims<batch{}, 3>> rows(shape(900, 3));
  tensor<std::int32_t, dims<batch{}, 3, inner>> elements(shape(900, 3, inner));
  for (std::size_t i = 0; i < of.elements(); ++i) of.data()[i] = static_cast<float>(i * 7919 % 101) / 64 - 0.5f;
  for (std::size_t i = 0; i < rows.elements(); ++i) rows.data()[i] = static_cast<std::int64_t>(i * i % width);
  for (std::size_t i = 0; i < elements.elements(); ++i) elements.data()[i] = static_cast<std::int32_t>(i * 31 % width);
  for (const int threads : {1, 3}) {
    session s{g, {.threads = threads}};
    const auto [taken, along, gradient] = s.run(fetch(a, b, d), with(x, of), with(n, rows), with(each, elements));
    __builtin_memset(static_cast<void*>(right.data()), 0, right.elements() * sizeof(float));
    std::size_t wrong = 0;
    for (int i = 0; i < 900; ++i)
      for (int k = 0; k < 3; ++k)
        for (int c = 0; c < inner; ++c) {
          const auto row = rows(i, k);
          const auto element = elements(i, k, c);
          wrong += taken(i, k, c) != of(i, row, c);
          wrong += along(i, k, c) != of(i, element, c);
          right(i, row, c) += 2 * of(i, row, c);
          right(i, element, c) += of(i, element, c);
        }
    for (std::size_t i = 0; i < right.elements(); ++i) wrong += std::abs(right.data()[i] - gradient.data()[i]) > 1e-5f;
    BOOST_CHECK_EQUAL(wrong, 0u);
  }
}

BOOST_AUTO_TEST_CASE(an_index_that_no_row_of_a_batch_has) {
  const tensor<float, dims<2, 3>> x{};
  const tensor<std::int32_t, dims<2>> n{0, 3};
  CHECK_SAYS(test::failure(error_code::out_of_range, [&] { static_cast<void>(batch_gather<1>(x, n)); }),
             "indices must be in [0, 3), but indices[1] is 3");
  CHECK_SAYS(test::failure(error_code::out_of_range,
                           [&] { static_cast<void>(take_along_axis<1>(x, tensor<std::int64_t, dims<2, 1>>{-1, 0})); }),
             "take_along_axis: indices must be in [0, 3), but indices[0] is -1");
  // Over tensors no session compares extents of one name.
  CHECK_SAYS(test::failure(error_code::invalid_argument,
                           [&] {
                             static_cast<void>(batch_gather<1>(tensor<float, dims<batch{}, 3>>(shape(2, 3)),
                                                               tensor<std::int32_t, dims<batch{}>>(shape(3))));
                           }),
             "batch_gather: the extent batch is 2 in [2, 3] and 3 in [3]");
}

BOOST_AUTO_TEST_CASE(derivatives) {
  gradient_check check;
  const auto x = check.input<dims<4, 3>>();
  const auto n = constant(check.g, tensor<std::int32_t, dims<2, 2>>{3, 1, 1, 0});
  check("rows", square(gather(x, n)), 3);
  check("columns", gather<1>(x * x, constant(check.g, tensor<std::int32_t, dims<2, 2>>{2, 1, 1, 0})), 2);
  const auto each = constant(check.g, tensor<std::int32_t, dims<4, 2>>{2, 1, 1, 1, 0, 2, 1, 0});
  check("of a batch", square(batch_gather(x * x, constant(check.g, tensor<std::int32_t, dims<4>>{2, 0, 1, 1}))), 3);
  check("lists of a batch", batch_gather(x * x * x, each), 3);
  check("along rows", square(take_along_axis<1>(x, each)), 3);
  check("along columns", square(take_along_axis<-2>(x, reshape<dims<4, 1>>(n))), 2);
  check("of rows", gather(gather(x, n), constant(check.g, tensor<std::int64_t, dims<3>>{1, 1, 0})) * 2.0, 2);
}

#if WEFT_COMPILES_FOR_GPU
// It cannot throw there.
BOOST_AUTO_TEST_CASE(an_index_that_no_row_has_on_a_gpu) {
  graph g;
  const auto x = variable<float, dims<3, 2>>(g, "x", tensor<float, dims<3, 2>>{1, 2, 3, 4, 5, 6});
  const auto n = placeholder<std::int32_t, dims<4>>(g, "n");
  const auto y = gather(x, n);
  const auto [d] = gradients(sum(y * y), x);
  const auto train = gradient_descent{0.25}.minimize(sum(y * y));
  session s{g};
  const auto [found, gradient] = s.run(fetch(y, d), with(n, tensor<std::int32_t, dims<4>>{1, 3, -1, 1}));
  check_elements(found, {3, 4, 0, 0, 0, 0, 3, 4});
  check_elements(gradient, {0, 0, 12, 16, 0, 0});
  static_cast<void>(s.run(fetch(train), with(n, tensor<std::int32_t, dims<4>>{1, 3, -1, 1})));
  check_elements(s.get(x), {1, 2, 3 - 3, 4 - 4, 5, 6});

  const auto rows = placeholder<std::int32_t, dims<3>>(g, "rows");
  const auto of_batch = batch_gather<1>(x * 1.0f, rows);
  const auto [d_batch] = gradients(sum(of_batch), x);
  s.set(x, {1, 2, 3, 4, 5, 6});
  const auto [elements, of_elements] =
      s.run(fetch(of_batch, d_batch), with(rows, tensor<std::int32_t, dims<3>>{1, 2, -1}));
  check_elements(elements, {2, 0, 0});
  check_elements(of_elements, {0, 1, 0, 0, 0, 0});
}
#endif
