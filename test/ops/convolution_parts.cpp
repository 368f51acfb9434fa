// SPDX-License-Identifier: BSL-1.0
// Large convolutions are cut into parts, each followed by its share of the expression that reads the result, and 1 x 1
// windows that skip pixels gather the others first. The values are those of the sum that defines a convolution.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include <boost/test/unit_test.hpp>
#include <weft/weft.hpp>

#include "sanitized.hpp"

using namespace weft;

namespace {

template <class T>
void fill(T& x, int seed) {
  for (std::size_t i = 0; i < x.elements(); ++i)
    x.data()[i] = static_cast<float>((i * 37 + static_cast<std::size_t>(seed) * 11) % 61) / 32 - 0.95f;
}

/// The convolution's value at one place, from the definition; `top` and `left`: padding.
template <class X, class W>
double convolved(const X& x, const W& w, std::int64_t n, std::int64_t y, std::int64_t z, std::int64_t f,
                 std::int64_t stride_y, std::int64_t stride_x, std::int64_t top, std::int64_t left) {
  double sum = 0;
  for (std::int64_t i = 0; i < w.extents()[0]; ++i)
    for (std::int64_t j = 0; j < w.extents()[1]; ++j) {
      const std::int64_t row = y * stride_y + i - top, column = z * stride_x + j - left;
      if (row < 0 || column < 0 || row >= x.extents()[1] || column >= x.extents()[2]) continue;
      for (std::int64_t c = 0; c < w.extents()[2]; ++c)
        sum += static_cast<double>(x(n, row, column, c)) * static_cast<double>(w(i, j, c, f));
    }
  return sum;
}

double positive(double x) { return x > 0 ? x : 0; }

bool runs_with(const std::string& explained, const char* what) {
  return explained.find(", then map") != std::string::npos && explained.find(what) != std::string::npos;
}

template <std::int64_t Height, std::int64_t Width, std::int64_t Channels, std::int64_t Filters, conv2d_options Options,
          std::int64_t Tall = 1, std::int64_t Wide = 1>
void check_values() {
  graph g(1);
  const auto x = placeholder<float, dims<dyn<"batch">, Height, Width, Channels>>(g, "x");
  const auto w = variable<float, dims<Tall, Wide, Channels, Filters>>(g, "w", init::zeros{});
  const auto b = variable<float, dims<Filters>>(g, "b", init::zeros{});
  const auto y = let(relu(conv2d<Options>(x, w) + b));
  session s(g, {.threads = 2});
  tensor<float, dims<Tall, Wide, Channels, Filters>> filters;
  tensor<float, dims<Filters>> bias;
  fill(filters, 1), fill(bias, 2);
  s.set(w, filters), s.set(b, bias);
  auto infer = s.prepare(fetch(y), feed(x));
  for (const std::int64_t batch : {1, 3, 5, 18}) {
    tensor<float, dims<dyn<"batch">, Height, Width, Channels>> images(shape(batch, Height, Width, Channels));
    fill(images, static_cast<int>(batch));
    const auto result = infer(images);
    double worst = 0;
    for (std::int64_t n = 0; n < batch; ++n)
      for (std::int64_t i = 0; i < result.extents()[1]; ++i)
        for (std::int64_t j = 0; j < result.extents()[2]; ++j)
          for (std::int64_t f = 0; f < Filters; f += test::sanitized ? 31 : 7) {
            const double expected = positive(convolved(images, filters, n, i, j, f, Options.stride.height,
                                                       Options.stride.width, (Tall - 1) / 2, (Wide - 1) / 2) +
                                             bias(f));
            worst = std::max(worst, std::abs(expected - static_cast<double>(result(n, i, j, f))));
          }
    BOOST_TEST(worst < 1e-3, "batch " << batch << " of " << Height << " x " << Width << " x " << Channels
                                      << ": the largest difference is " << worst);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(windows_of_one_pixel_skip_pixels) {
  check_values<56, 56, 64, 256, conv2d_options{.stride = 2}>();
  check_values<27, 31, 48, 128, conv2d_options{.stride = 2}>();
  check_values<28, 28, 40, 256, conv2d_options{.stride = 2}>();  // channels that do not fill vectors
  check_values<40, 17, 64, 128, conv2d_options{.stride = {3, 1}}>();
  check_values<24, 40, 64, 128, conv2d_options{.stride = {1, 3}, .pad = padding::valid}>();
  check_values<9, 9, 256, 512, conv2d_options{.stride = 2}>();
}

// Of two bands of unequal height, each can prefer another layout of the filters. Filters by multiples of 48 are blocked
// by 48.
BOOST_AUTO_TEST_CASE(bands_share_the_layout_of_their_filters) {
  check_values<17, 17, 768, 192, conv2d_options{}>();
  check_values<17, 17, 128, 192, conv2d_options{}, 7, 1>();
  check_values<17, 17, 96, 144, conv2d_options{}, 1, 7>();
  check_values<35, 35, 96, 384, conv2d_options{.stride = 2, .pad = padding::valid}>();
  check_values<8, 8, 640, 320, conv2d_options{}>();
}

BOOST_AUTO_TEST_CASE(bands_are_followed_by_their_share_of_the_expression) {
  constexpr std::int64_t side = 24, channels = 32, count = 64;
  graph g(1);
  using batch = dyn_extent<"batch">;
  const auto x = placeholder<float, dims<batch{}, side, side, channels>>(g, "x");
  const auto w = variable<float, dims<3, 3, channels, count>>(g, "w", init::zeros{});
  const auto of_filter = variable<float, dims<count>>(g, "of_filter", init::zeros{});
  const auto of_row = variable<float, dims<side, 1, 1>>(g, "of_row", init::zeros{});
  const auto of_column = variable<float, dims<side, 1>>(g, "of_column", init::zeros{});
  const auto of_image = placeholder<float, dims<batch{}, 1, 1, 1>>(g, "of_image");
  const auto of_pixel = variable<float, dims<1, side, side, count>>(g, "of_pixel", init::zeros{});
  const auto of_all = placeholder<float, dims<batch{}, side, side, count>>(g, "of_all");
  session s(g, {.threads = 2});
  tensor<float, dims<3, 3, channels, count>> filters;
  tensor<float, dims<count>> by_filter;
  tensor<float, dims<side, 1, 1>> by_row;
  tensor<float, dims<side, 1>> by_column;
  tensor<float, dims<1, side, side, count>> by_pixel;
  fill(filters, 1), fill(by_filter, 2), fill(by_row, 3), fill(by_column, 4), fill(by_pixel, 5);
  s.set(w, filters), s.set(of_filter, by_filter), s.set(of_row, by_row), s.set(of_column, by_column);
  s.set(of_pixel, by_pixel);
  for (const std::int64_t n : {1, 2, 3, 4}) {
    tensor<float, dims<batch{}, side, side, channels>> images(shape(n, side, side, channels));
    tensor<float, dims<batch{}, 1, 1, 1>> by_image(shape(n, 1, 1, 1));
    tensor<float, dims<batch{}, side, side, count>> by_all(shape(n, side, side, count));
    fill(images, 6), fill(by_image, 7), fill(by_all, 8);
    const auto check = [&](const auto& expression, const auto& expected) {
      auto step = s.prepare(fetch(expression), feed(x, of_image, of_all));
      const auto result = step(images, by_image, by_all);
      BOOST_TEST(runs_with(step.explain(), "convolution"));
      double worst = 0;
      for (std::int64_t k = 0; k < n; ++k)
        for (std::int64_t i = 0; i < side; ++i)
          for (std::int64_t j = 0; j < side; j += 5)
            for (std::int64_t f = 0; f < count; f += 9) {
              const double sum = convolved(images, filters, k, i, j, f, 1, 1, 1, 1);
              worst = std::max(worst, std::abs(expected(sum, k, i, j, f) - static_cast<double>(result(k, i, j, f))));
            }
      BOOST_TEST(worst < 1e-3, n << " images: the largest difference is " << worst);
    };
    using at = std::int64_t;
    check(let(relu(conv2d(x, w))), [](double y, at, at, at, at) { return positive(y); });
    check(let(relu(conv2d(x, w) * of_filter)),
          [&](double y, at, at, at, at f) { return positive(y * static_cast<double>(by_filter(f))); });
    check(let(relu(conv2d(x, w) + of_row)),
          [&](double y, at, at i, at, at) { return positive(y + static_cast<double>(by_row(i, 0, 0))); });
    check(let(relu(conv2d(x, w) + of_column)),
          [&](double y, at, at, at j, at) { return positive(y + static_cast<double>(by_column(j, 0))); });
    check(let(relu(conv2d(x, w) + of_image)),
          [&](double y, at k, at, at, at) { return positive(y + static_cast<double>(by_image(k, 0, 0, 0))); });
    check(let(relu(conv2d(x, w) + of_pixel)),
          [&](double y, at, at i, at j, at f) { return positive(y + static_cast<double>(by_pixel(0, i, j, f))); });
    check(let(relu(conv2d(x, w) + of_all)),
          [&](double y, at k, at i, at j, at f) { return positive(y + static_cast<double>(by_all(k, i, j, f))); });
    // The factor is an expression of variables: it is computed first, so that the rest runs with the convolution.
    const auto factor = let(of_filter * rsqrt(square(of_filter) + 0.5f));
    check(let(relu((conv2d(x, w) - of_filter) * factor + of_all)), [&](double y, at k, at i, at j, at f) {
      const double own = static_cast<double>(by_filter(f));
      return positive((y - own) * own / std::sqrt(own * own + 0.5) + static_cast<double>(by_all(k, i, j, f)));
    });
  }
}
