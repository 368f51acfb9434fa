// SPDX-License-Identifier: BSL-1.0
#include <weft/ops/images/color.hpp>
#include <weft/ops/images/measures.hpp>

#include "gradient_check.hpp"
#include "ops/values_of.hpp"

using namespace weft;

// Colours and measures of images against TensorFlow (make_color_values.py).

namespace {

const values_of& right() {
  static const values_of all(TEST_DATA "/ops/color_values.txt");
  return all;
}

using photos = dims<2, 4, 3, 3>;
using any_photos = dims<dyn<"batch">, dyn<"height">, dyn<"width">, 3>;

/// Over tensors, and in a graph with named extents, in float and double.
template <class F>
void check(const std::string& name, const char* operand, F f, double tolerance = 2e-5) {
  const auto x = right().tensor<float, photos>(operand);
  right().check(name, f(x), tolerance);
  graph g;
  const auto p = placeholder<double, any_photos>(g, "p");
  session s{g};
  right().check(name, s.eval(let(f(p)), with(p, eval(cast<double>(x)))), tolerance);
}
template <class F>
void check_pair(const std::string& name, F f) {
  const auto x = right().tensor<float, photos>("x"), y = right().tensor<float, photos>("y");
  right().check(name, f(x, y), 2e-5);
  graph g;
  const auto p = placeholder<float, any_photos>(g, "p"), q = placeholder<float, any_photos>(g, "q");
  session s{g};
  right().check(name, s.eval(let(f(p, q)), with(p, x), with(q, y)), 2e-5);
}

}  // namespace

BOOST_AUTO_TEST_CASE(colors) {
  check("gray", "x", [](const auto& x) { return rgb_to_grayscale(x); });
  check("hsv", "x", [](const auto& x) { return rgb_to_hsv(x); });
  check("rgb", "y", [](const auto& x) { return hsv_to_rgb(x); });
  check("x", "x", [](const auto& x) { return hsv_to_rgb(rgb_to_hsv(x)); });
  check("rgb_to_yuv", "x", [](const auto& x) { return rgb_to_yuv(x); });
  check("yuv_to_rgb", "x", [](const auto& x) { return yuv_to_rgb(x); });
  check("rgb_to_yiq", "x", [](const auto& x) { return rgb_to_yiq(x); });
  check("yiq_to_rgb", "x", [](const auto& x) { return yiq_to_rgb(x); });
  const tensor<float, dims<1, 1, 3>> gray{0.5f, 0.5f, 0.5f};
  const auto hsv = rgb_to_hsv(gray);
  BOOST_CHECK(hsv(0, 0, 0) == 0 && hsv(0, 0, 1) == 0 && hsv(0, 0, 2) == 0.5f);
  BOOST_CHECK_EQUAL(grayscale_to_rgb(slice<-1, 0, 1>(gray))(0, 0, 2), 0.5f);
}

BOOST_AUTO_TEST_CASE(adjustments) {
  check("contrast", "x", [](const auto& x) { return adjust_contrast(x, 1.5); });
  check("gamma", "x", [](const auto& x) { return adjust_gamma(x, 2.5, 0.5); });
  check("saturation", "x", [](const auto& x) { return adjust_saturation(x, 1.75); });
  check("hue", "x", [](const auto& x) { return adjust_hue(x, -0.3); });
  check("standardized", "x", [](const auto& x) { return per_image_standardization(x); });
  BOOST_CHECK_EQUAL(adjust_brightness(tensor<float, dims<1>>{0.25f}, 0.5)(0), 0.75f);
  for (const float v : per_image_standardization(tensor<float, dims<1, 2, 2, 1>>{3, 3, 3, 3})) BOOST_CHECK_EQUAL(v, 0);
}

BOOST_AUTO_TEST_CASE(differences_and_edges) {
  check("dy", "x", [](const auto& x) { return image_gradients(x).dy; });
  check("dx", "x", [](const auto& x) { return image_gradients(x).dx; });
  check("variation", "x", [](const auto& x) { return total_variation(x); });
  check("sobel", "x", [](const auto& x) { return sobel_edges(x); });
}

BOOST_AUTO_TEST_CASE(pairs_of_images) {
  check_pair("psnr", [](const auto& x, const auto& y) { return psnr(x, y, 1); });
  check_pair("ssim", [](const auto& x, const auto& y) { return ssim<3>(x, y, 1); });
}

BOOST_AUTO_TEST_CASE(gradients_of_images) {
  gradient_check check;
  const auto x = check.input<dims<1, 3, 4, 3>>(0.1, 0.9);
  const auto y = check.input<dims<1, 3, 4, 3>>(0.1, 0.9);
  check("rgb_to_hsv", rgb_to_hsv(x));
  check("adjust_saturation", adjust_saturation(x, 0.5));
  check("adjust_contrast", square(adjust_contrast(x, 2)));
  check("standardized", per_image_standardization(x));
  check("total_variation", square(total_variation(x)));
  check("ssim", ssim<3>(x, y, 1));
  check("psnr", psnr(x, y, 1));
}
