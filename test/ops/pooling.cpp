// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "errors.hpp"
#include "ops/gradient_check.hpp"

using namespace weft;

namespace {

template <class E, class Dims>
constexpr bool has_dims = std::is_same_v<dims_t<E>, Dims>;

using photos = dims<dyn<"batch">, 7, 6, 3>;

template <size2d Window, size2d Stride, padding Padding, class Images>
void check_gradients(const std::string& name, const shape& images = Images::spec) {
  gradient_check max;
  max("max " + name, max_pool2d<Window, Stride, Padding>(max.input<Images>(-2, 2, images)), 2);
  gradient_check squared;
  squared("max of squares " + name,
          square(max_pool2d<Window, Stride, Padding>(square(squared.input<Images>(0.5, 2, images)))), 2);
  gradient_check average;
  average("average " + name, exp(avg_pool2d<Window, Stride, Padding>(average.input<Images>(-2, 2, images))), 3);
}

template <class Y>
void check_values(const Y& y, const std::vector<float>& expected) {
  BOOST_REQUIRE_EQUAL(y.elements(), expected.size());
  for (std::size_t i = 0; i < y.elements(); ++i) BOOST_CHECK_EQUAL(y.data()[i], expected[i]);
}

}  // namespace

BOOST_AUTO_TEST_CASE(extents_of_results) {
  graph g;
  const auto x = placeholder<float, dims<dyn<"batch">, 28, 27, 3>>(g);
  const auto halved = max_pool2d<2>(x);
  static_assert(has_dims<decltype(halved), dims<dyn<"batch">, 14, 13, 3>>);
  const auto same = max_pool2d<2, 2, padding::same>(x);
  static_assert(has_dims<decltype(same), dims<dyn<"batch">, 14, 14, 3>>);
  const auto overlapping = avg_pool2d<3, 2, padding::of(1)>(x);
  static_assert(has_dims<decltype(overlapping), dims<dyn<"batch">, 14, 14, 3>>);
  const auto wide = avg_pool2d<size2d{1, 27}>(x);
  static_assert(has_dims<decltype(wide), dims<dyn<"batch">, 28, 1, 3>>);
  const auto any = placeholder<float, dims<4, dyn<"height">, dyn<"width">, 3>>(g);
  const auto of_any = max_pool2d<3, 1, padding::same>(any);
  static_assert(has_dims<decltype(of_any), dims<4, dyn<"height">, dyn<"width">, 3>>);
  const auto text = []<class Y>(const Y&, std::size_t axis) { return std::string(dims_t<Y>::names[axis]); };
  const auto halved_any = max_pool2d<2>(any);
  BOOST_CHECK_EQUAL(text(halved_any, 1), "floor(height / 2)");
  BOOST_CHECK_EQUAL(text(max_pool2d<2>(halved_any), 2), "floor(width / 4)");
  BOOST_CHECK_EQUAL((text(avg_pool2d<3, size2d(1, 2)>(any), 1)), "height - 2");
  BOOST_CHECK_EQUAL((text(avg_pool2d<3, size2d(1, 2)>(any), 2)), "ceil(width / 2) - 1");
  // An extent that is doubled and halved is what it was.
  const auto doubled = let(concat<1>(any, any));
  static_assert(has_dims<decltype(max_pool2d<2>(doubled) + max_pool2d<size2d(1, 2)>(any)),
                         dims_t<decltype(max_pool2d<2>(doubled))>>);
}

BOOST_AUTO_TEST_CASE(images_of_any_height_and_width) {
  using any = dims<dyn<"batch">, dyn<"height">, dyn<"width">, 2>;
  check_gradients<2, 2, padding::valid, any>("2x2", shape(2, 5, 4, 2));
  check_gradients<3, 2, padding::same, any>("3x3 stride 2", shape(1, 7, 6, 2));
  check_gradients<size2d(2, 3), size2d(1, 2), padding::of(1, 0, 2, 1), any>("2x3", shape(1, 4, 5, 2));
  graph g;
  const auto x = placeholder<float, any>(g);
  session s{g};
  auto step = s.prepare(fetch(let(max_pool2d<2>(x)), let(avg_pool2d<2, 2, padding::same>(x))), feed(x));
  tensor<float, any> images(shape(1, 3, 2, 2));
  for (int i = 0; i < 12; ++i) images.data()[i] = static_cast<float>(i);
  const auto [valid, same] = step(images);
  check_values(valid, {6, 7});
  check_values(same, {3, 4, 9, 10});
  tensor<float, any> wider(shape(1, 2, 3, 2));
  for (int i = 0; i < 12; ++i) wider.data()[i] = static_cast<float>(i);
  const auto [wider_valid, wider_same] = step(wider);
  check_values(wider_valid, {8, 9});
  check_values(wider_same, {4, 5, 7, 8});
  const std::string text =
      test::failure(error_code::invalid_argument, [&] { (void)step(tensor<float, any>(shape(2, 1, 6, 2))); });
  CHECK_SAYS(text, "max_pool2d: images of extents [2, 1, 6, 2]");
}

BOOST_AUTO_TEST_CASE(gradients_of_every_window) {
  check_gradients<2, 2, padding::valid, dims<2, 4, 6, 3>>("2x2");
  check_gradients<2, 2, padding::valid, photos>("2x2 of odd extents", shape(2, 7, 6, 3));
  check_gradients<2, 2, padding::same, photos>("2x2 same", shape(1, 7, 6, 3));
  check_gradients<3, 2, padding::same, photos>("3x3 stride 2", shape(2, 7, 6, 3));
  check_gradients<3, 1, padding::same, dims<1, 4, 5, 2>>("3x3 stride 1");
  check_gradients<size2d(2, 3), size2d(1, 2), padding::of(1, 0, 2, 1), dims<1, 4, 5, 2>>("2x3");
  check_gradients<2, 3, padding::valid, dims<1, 5, 5, 2>>("with gaps");
  check_gradients<size2d(4, 5), 1, padding::valid, dims<2, 4, 5, 2>>("the whole image");
}

BOOST_AUTO_TEST_CASE(many_channels) {
  gradient_check max, average;
  max("max", max_pool2d<2>(max.input<dims<1, 2, 4, 37>>()), 2);
  average("average", avg_pool2d<2, 1, padding::same>(average.input<dims<1, 2, 3, 37>>()), 1);
}

// The gradient of an activation runs with the gradient of the pool after it, unless that is fetched and runs alone.
template <bool Max>
void check_fused_gradient() {
  graph g(5);
  auto x = placeholder<float, dims<dyn<"batch">, 8, 6, 16>>(g, "x");
  auto b = variable<float, dims<16>>(g, "b", init::normal{.stddev = 0.3});
  auto h = let(tanh(x + b));
  auto y = [&] {
    if constexpr (Max)
      return max_pool2d<2>(h);
    else
      return avg_pool2d<3, 1, padding::same>(h);
  }();
  auto [up, dx, db] = gradients(sum(y * y), h, x, b);
  const std::string says = ", then gradient of tanh(add(a0, a1))";
  for (const int batch : {0, 1, 5, 100}) {
    tensor<float, dims<dyn<"batch">, 8, 6, 16>> images(shape(batch, 8, 6, 16));
    for (std::size_t i = 0; i < images.elements(); ++i) images.data()[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
    for (const int threads : {1, 3}) {
      session s{g, {.threads = threads}};
      auto together = s.prepare(fetch(dx, db), feed(x));
      auto apart = s.prepare(fetch(dx, db, up), feed(x));
      const auto [image, bias] = together(images);
      const auto [right_image, right_bias, upstream] = apart(images);
      BOOST_CHECK(together.explain().find(says) != std::string::npos);
      BOOST_CHECK(apart.explain().find(says) == std::string::npos);
      BOOST_CHECK(std::equal(image.data(), image.data() + image.elements(), right_image.data()));
      for (std::size_t i = 0; i < 16; ++i)
        BOOST_CHECK_SMALL(bias.data()[i] - right_bias.data()[i], 1e-5f * (1 + std::abs(right_bias.data()[i])));
    }
  }
}

BOOST_AUTO_TEST_CASE(the_gradient_of_an_activation_runs_with_the_pools) {
  check_fused_gradient<true>();
  check_fused_gradient<false>();
}

BOOST_AUTO_TEST_CASE(the_first_of_equals_gets_the_gradient) {
  graph g;
  const auto x = placeholder<float, dims<1, 4, 4, 1>>(g);
  const auto y = max_pool2d<2>(x);
  const auto overlapping = max_pool2d<3, 1>(x);
  const auto of_y = gradients(sum(y), x), of_overlapping = gradients(sum(overlapping), x);
  session s{g};
  auto step = s.prepare(fetch(std::get<0>(of_y), std::get<0>(of_overlapping)), feed(x));
  const auto [d, e] = step(tensor<float, dims<1, 4, 4, 1>>(shape(1, 4, 4, 1)));
  check_values(d, {1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0});
  check_values(e, {1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
}

namespace {

/// 40 channels, so that vectors of them and what remains are met; NaNs where `nans` says, row by row.
template <class T, size2d Window, size2d Stride, class Images>
void check_nans(std::initializer_list<int> nans, std::initializer_list<int> windows,
                std::initializer_list<int> reached) {
  constexpr int channels = 40;
  Images x(Images::dims_type::spec);
  const int pixels = static_cast<int>(x.elements()) / channels;
  for (int p = 0; p < pixels; ++p)
    for (int c = 0; c < channels; ++c) x.data()[p * channels + c] = T(-p);
  for (const int p : nans)
    for (int c = 0; c < channels; ++c) x.data()[p * channels + c] = T(std::numeric_limits<float>::quiet_NaN());
  graph g;
  const auto images = placeholder<T, typename Images::dims_type>(g, "images");
  const auto y = max_pool2d<Window, Stride>(images);
  const auto [d] = gradients(sum(cast<float>(y)), images);
  session s{g};
  const auto [value, gradient] = s.prepare(fetch(y, d), feed(images))(x);
  const auto now = max_pool2d<Window, Stride>(x);
  std::vector<int> found_windows, found_reached;
  for (std::size_t i = 0; i < value.elements(); ++i) {
    const bool nan = std::isnan(static_cast<float>(value.data()[i]));
    BOOST_CHECK_EQUAL(std::isnan(static_cast<float>(now.data()[i])), nan);
    if (nan && i % channels == 0) found_windows.push_back(static_cast<int>(i) / channels);
    BOOST_CHECK_EQUAL(nan, std::isnan(static_cast<float>(value.data()[i / channels * channels])));
  }
  for (std::size_t i = 0; i < gradient.elements(); ++i) {
    if (i % channels == 0 && static_cast<float>(gradient.data()[i]) != 0)
      found_reached.push_back(static_cast<int>(i) / channels);
    BOOST_CHECK_EQUAL(static_cast<float>(gradient.data()[i]),
                      static_cast<float>(gradient.data()[i / channels * channels]));
  }
  BOOST_CHECK(found_windows == std::vector<int>(windows));
  BOOST_CHECK(found_reached == std::vector<int>(reached));
}

template <class T>
void check_nans_of() {
  // Windows side by side: {0, 1, 6, 7}, {2, 3, 8, 9}, {4, 5, 10, 11}; the last NaN of a window is its largest element.
  check_nans<T, 2, 2, tensor<T, dims<1, 2, 6, 40>>>({0, 3, 8}, {0, 1}, {0, 4, 8});
  check_nans<T, 2, 2, tensor<T, dims<1, 2, 6, 40>>>({1, 7, 10}, {0, 2}, {2, 7, 10});
  check_nans<T, size2d{1, 3}, size2d{1, 3}, tensor<T, dims<1, 2, 6, 40>>>({1, 2, 9}, {0, 3}, {2, 3, 6, 9});
  check_nans<T, size2d{2, 2}, size2d{1, 1}, tensor<T, dims<1, 2, 4, 40>>>({1, 5}, {0, 1}, {2, 5});
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_no_number_shows) {
  check_nans_of<float>();
  check_nans_of<double>();
  check_nans_of<half>();
}

BOOST_AUTO_TEST_CASE(padding_is_not_counted) {
  tensor<float, dims<1, 3, 3, 1>> x(shape(1, 3, 3, 1));
  for (int i = 0; i < 9; ++i) x.data()[i] = static_cast<float>(i + 1);
  check_values(avg_pool2d<2, 2, padding::same>(x), {3, 4.5f, 7.5f, 9});
  for (int i = 0; i < 9; ++i) x.data()[i] = -x.data()[i];
  check_values(max_pool2d<2, 2, padding::same>(x), {-1, -3, -7, -9});
}

BOOST_AUTO_TEST_CASE(padding_is_counted_on_request) {
  tensor<float, dims<1, 3, 3, 1>> x(shape(1, 3, 3, 1));
  for (int i = 0; i < 9; ++i) x.data()[i] = static_cast<float>(i + 1);
  // torch.nn.functional.avg_pool2d(x, 3, 1, 1)
  std::vector<float> expected = {12, 21, 16, 27, 45, 33, 24, 39, 28};
  for (float& v : expected) v /= 9;
  check_values(avg_pool2d<3, 1, padding::of(1), count_padding>(x), expected);
  gradient_check check;
  check("average with padding",
        exp(avg_pool2d<size2d(3, 2), size2d(2, 1), padding::of(1), count_padding>(
            check.input<photos>(-2, 2, shape(2, 7, 6, 3)))),
        2);
}

BOOST_AUTO_TEST_CASE(no_images) {
  graph g;
  const auto x = placeholder<float, photos>(g);
  const auto y = let(max_pool2d<2>(x));
  session s{g};
  auto step = s.prepare(fetch(y), feed(x));
  BOOST_CHECK_EQUAL(step(tensor<float, photos>(shape(0, 7, 6, 3))).elements(), 0u);
}
