#include <vector>
#include <weft/ops/gather.hpp>

#include "elements.hpp"
#include "errors.hpp"
#include "gradient_check.hpp"

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
    return test::failure(error_code::out_of_range, [&] {
      static_cast<void>(gather(x, tensor<std::int32_t, dims<2>>{0, n}));
    });
  };
  CHECK_SAYS(of(3), "indices must be in [0, 3), the rows that there are, and index 1 of them is 3");
  CHECK_SAYS(of(-1), "index 1 of them is -1: clamp the indices");
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

BOOST_AUTO_TEST_CASE(derivatives) {
  gradient_check check;
  const auto x = check.input<dims<4, 3>>();
  const auto n = constant(check.g, tensor<std::int32_t, dims<2, 2>>{3, 1, 1, 0});
  check("rows", square(gather(x, n)), 3);
  check("columns", gather<1>(x * x, constant(check.g, tensor<std::int32_t, dims<2, 2>>{2, 1, 1, 0})), 2);
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
}
#endif
