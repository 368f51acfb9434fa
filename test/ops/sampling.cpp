// SPDX-License-Identifier: BSL-1.0
#include <limits>
#include <weft/ops/images/adaptive_pooling.hpp>
#include <weft/ops/images/grid_sample.hpp>
#include <weft/ops/images/max_unpool.hpp>
#include <weft/ops/images/pooling1d.hpp>
#include <weft/ops/images/resize.hpp>

#include "errors.hpp"
#include "gradient_check.hpp"
#include "ops/image_check.hpp"

using namespace weft;

// Pools, grids and new sizes against PyTorch (make_sampling_values.py).

namespace {

const image_check& check() {
  static const image_check all(TEST_DATA "/ops/sampling_values.txt");
  return all;
}

using photos = dims<2, 5, 3, 2>;
using any_photos = dims<dyn<"batch">, dyn<"height">, dyn<"width">, 2>;
using lines = dims<2, 7, 2>;
using any_lines = dims<dyn<"batch">, dyn<"length">, 2>;

template <class F>
void of_photos(const std::string& name, F f) {
  check().template operator()<photos, any_photos>(name, "images", f);
}
template <class F>
void of_lines(const std::string& name, F f) {
  check().template operator()<lines, any_lines>(name, "sequences", f);
}

template <grid_sample_options O>
void of_grid(const std::string& name) {
  check().template operator()<photos, dims<2, 2, 3, 2>, any_photos, dims<dyn<"batch">, dyn<"h">, dyn<"w">, 2>>(
      name, "images", "grid", [](const auto& x, const auto& g) { return grid_sample<O>(x, g); });
}
template <interpolation Mode>
void of_grids(const std::string& mode) {
  of_grid<grid_sample_options{.mode = Mode}>(mode + "zeros_0");
  of_grid<grid_sample_options{.mode = Mode, .align_corners = true}>(mode + "zeros_1");
  of_grid<grid_sample_options{.mode = Mode, .outside = image_border::nearest}>(mode + "border_0");
  of_grid<grid_sample_options{.mode = Mode, .outside = image_border::nearest, .align_corners = true}>(mode +
                                                                                                      "border_1");
  of_grid<grid_sample_options{.mode = Mode, .outside = image_border::reflection}>(mode + "reflection_0");
  of_grid<grid_sample_options{.mode = Mode, .outside = image_border::reflection, .align_corners = true}>(
      mode + "reflection_1");
}

constexpr auto half = resize_coordinates::half_pixel;

template <int Height, int Width>
void of_sizes(const std::string& size) {
  of_photos("bilinear_" + size, [](const auto& x) { return resize_bilinear<Height, Width>(x); });
  of_photos("bilinear_" + size + "_aa",
            [](const auto& x) { return resize_bilinear<Height, Width, half, antialias::on>(x); });
  of_photos("bicubic_" + size, [](const auto& x) { return resize_bicubic<Height, Width>(x); });
  of_photos("bicubic_" + size + "_aa",
            [](const auto& x) { return resize_bicubic<Height, Width, half, antialias::on>(x); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(adaptive_pools) {
  of_photos("adaptive_avg_2", [](const auto& x) { return adaptive_avg_pool2d<2>(x); });
  of_photos("adaptive_max_2", [](const auto& x) { return adaptive_max_pool2d<2>(x); });
  of_photos("adaptive_avg_34", [](const auto& x) { return adaptive_avg_pool2d<size2d(3, 4)>(x); });
  of_photos("adaptive_max_34", [](const auto& x) { return adaptive_max_pool2d<size2d(3, 4)>(x); });
  of_lines("adaptive_avg_1d", [](const auto& x) { return adaptive_avg_pool1d<3>(x); });
  of_lines("adaptive_max_1d", [](const auto& x) { return adaptive_max_pool1d<3>(x); });
}

BOOST_AUTO_TEST_CASE(adaptive_pools_of_few_pixels_and_none) {
  const tensor<float, dims<1, 1, 1, 2>> one{3, -4};
  for (const float v : adaptive_avg_pool2d<2>(one)) BOOST_CHECK(v == 3 || v == -4);
  const tensor<bfloat16, dims<1, 3, 2, 1>> small{1, 2, 3, 4, 5, 6};
  BOOST_CHECK_EQUAL(static_cast<float>(adaptive_max_pool2d<1>(small)(0, 0, 0, 0)), 6);
  graph g;
  const auto p = placeholder<float, any_photos>(g, "p");
  const auto y = adaptive_avg_pool2d<2>(p);
  session s{g};
  BOOST_CHECK_EQUAL(s.eval(y, with(p, tensor<float, dims<0, 3, 3, 2>>())).elements(), 0u);
  CHECK_SAYS(
      test::failure(error_code::invalid_argument, [&] { s.eval(y, with(p, tensor<float, dims<1, 0, 3, 2>>())); }),
      "do not fit");
}

BOOST_AUTO_TEST_CASE(pools_of_sequences_and_powers) {
  of_lines("max_1d", [](const auto& x) { return max_pool1d<3, 2, padding::of(1)>(x); });
  of_lines("avg_1d", [](const auto& x) { return avg_pool1d<3, 2, padding::of(1), count_padding>(x); });
  of_lines("lp_1d", [](const auto& x) { return lp_pool1d<3, 2>(x, 2); });
  of_photos("lp_2d", [](const auto& x) { return lp_pool2d<2, 1>(abs(x) + 0.125, 3); });
  const auto none = lp_pool2d<2>(tensor<double, dims<1, 2, 2, 1>>{0, 0, 0, 0}, 2);
  BOOST_CHECK_EQUAL(none(0, 0, 0, 0), 0);
}

BOOST_AUTO_TEST_CASE(positions_of_maxima) {
  const auto x = check().values().tensor<double, photos>("images");
  const auto [values, indices] = max_pool2d_with_indices<2>(x);
  check().values().check("indices", cast<double>(indices), 1e-9);
  check().values().check("unpool", max_unpool2d<5, 3>(values, indices), 1e-9);
  graph g;
  const auto p = placeholder<double, any_photos>(g, "p");
  const auto found = max_pool2d_with_indices<2>(p);
  const auto again = max_unpool2d<5, 3>(found.values, found.indices);
  const auto [d] = gradients(sum(square(again + 1)), found.values);
  session s{g};
  check().values().check("indices", cast<double>(s.eval(found.indices, with(p, x))));
  check().values().check("unpool", s.eval(again, with(p, x)), 1e-9);
  check().values().check("unpool.x", s.eval(d, with(p, x)), 1e-9);
}

BOOST_AUTO_TEST_CASE(nearest_grids) { of_grids<interpolation::nearest>("grid_nearest_"); }
BOOST_AUTO_TEST_CASE(bilinear_grids) { of_grids<interpolation::bilinear>("grid_bilinear_"); }
BOOST_AUTO_TEST_CASE(bicubic_grids) { of_grids<interpolation::bicubic>("grid_bicubic_"); }

BOOST_AUTO_TEST_CASE(grids_of_volumes) {
  using volumes = dims<1, 3, 2, 3, 2>;
  using any_volumes = dims<dyn<"batch">, dyn<"depth">, dyn<"height">, dyn<"width">, 2>;
  using grid = dims<1, 1, 2, 2, 3>;
  using any_grid = dims<dyn<"batch">, dyn<"d">, dyn<"h">, dyn<"w">, 3>;
  check().template operator()<volumes, grid, any_volumes, any_grid>(
      "grid3_bilinear", "volumes", "grid3", [](const auto& x, const auto& g) { return grid_sample(x, g); });
  check().template operator()<volumes, grid, any_volumes, any_grid>(
      "grid3_nearest", "volumes", "grid3", [](const auto& x, const auto& g) {
        return grid_sample<grid_sample_options{.mode = interpolation::nearest, .outside = image_border::nearest}>(x, g);
      });
}

BOOST_AUTO_TEST_CASE(grids_of_affine_maps) {
  const auto of = [](const std::string& name, auto f) {
    check().template operator()<dims<2, 2, 3>, dims<dyn<"batch">, 2, 3>>(name, "theta", f);
  };
  of("affine", [](const auto& x) { return affine_grid<3, 2>(x); });
  of("affine_corners", [](const auto& x) { return affine_grid<3, 1, true>(x); });
}

BOOST_AUTO_TEST_CASE(positions_that_are_nan_or_far_away) {
  const tensor<float, dims<1, 2, 2, 1>> x{1, 2, 3, 4};
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const tensor<float, dims<1, 1, 4, 2>> grid{nan, 0, inf, 0, 1e30f, -1e30f, 0, 0};
  const auto y = grid_sample<grid_sample_options{.mode = interpolation::nearest}>(x, grid);
  for (int i = 0; i < 3; ++i) BOOST_CHECK_EQUAL(y(0, 0, i, 0), 0);
  BOOST_CHECK_EQUAL(grid_sample(tensor<float, dims<1, 0, 2, 1>>(), grid)(0, 0, 3, 0), 0);
  BOOST_CHECK_EQUAL(grid_sample(x, tensor<float, dims<1, 0, 2, 2>>()).elements(), 0u);
  const tensor<float, dims<1, 2, 1, 1>> endless{inf, 5};
  BOOST_CHECK_EQUAL(grid_sample(endless, tensor<float, dims<1, 1, 1, 2>>{0, 0.5f})(0, 0, 0, 0), 5);
  graph g;
  const auto p = placeholder<float, dims<dyn<"n">, 2, 2, 1>>(g, "p");
  const auto q = placeholder<float, dims<dyn<"m">, 1, 1, 2>>(g, "q");
  session s{g};
  const auto mixed = grid_sample(p, q);
  CHECK_SAYS(test::failure(error_code::invalid_argument,
                           [&] { s.eval(mixed, with(p, x), with(q, tensor<float, dims<2, 1, 1, 2>>{0, 0, 0, 0})); }),
             "must have the same batch");
}

BOOST_AUTO_TEST_CASE(new_sizes) {
  of_sizes<3, 7>("37");
  of_sizes<2, 1>("21");
  of_sizes<8, 2>("82");
  of_photos("bicubic_corners",
            [](const auto& x) { return resize_bicubic<3, 7, resize_coordinates::align_corners>(x); });
}

BOOST_AUTO_TEST_CASE(sizes_known_at_run_time) {
  const auto x = check().values().tensor<double, photos>("images");
  const auto y = resize_bilinear<dyn<"h">, dyn<"w">>(x, size2d(3, 7));
  check().values().check("bilinear_37", y, 1e-9);
  check().values().check("nearest_84", resize_nearest<dyn<"h">, dyn<"w">>(x, size2d(8, 4)), 1e-9);
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { (void)resize_bicubic<dyn<"h">, 7>(x); }), "pass it");
  graph g;
  const auto p = placeholder<double, any_photos>(g, "p");
  const auto like = placeholder<double, dims<dyn<"h">, dyn<"w">>>(g, "like");
  const auto bilinear = resize_bilinear<dyn<"h">, dyn<"w">>(p);
  const auto nearest = resize_nearest<dyn<"h">, dyn<"w">>(p);
  constexpr auto rows = floor_quotient(dyn<"height">, extent<2>);
  const auto half = resize_area<rows, 3>(p);
  const auto [d] = gradients(sum(square(bilinear + 1)), p);
  session s{g};
  const auto small = with(like, tensor<double, dims<3, 7>>());
  check().values().check("bilinear_37", s.eval(bilinear + 0 * sum(like), with(p, x), small), 1e-9);
  check().values().check("bilinear_37.x", s.eval(d + 0 * sum(like), with(p, x), small), 1e-9);
  check().values().check("nearest_84",
                         s.eval(nearest + 0 * sum(like), with(p, x), with(like, tensor<double, dims<8, 4>>())));
  BOOST_CHECK(s.eval(half, with(p, x)).extents() == shape(2, 2, 3, 2));
}

BOOST_AUTO_TEST_CASE(means_of_areas) {
  const tensor<double, dims<1, 1, 5, 1>> x{1, 2, 3, 4, 5};
  const auto y = resize_area<1, 2>(x);  // of 2.5 pixels each
  BOOST_CHECK_CLOSE(y(0, 0, 0, 0), (1 + 2 + 1.5) / 2.5, 1e-12);
  BOOST_CHECK_CLOSE(y(0, 0, 1, 0), (1.5 + 4 + 5) / 2.5, 1e-12);
}

BOOST_AUTO_TEST_CASE(gradients_of_samples) {
  gradient_check check;
  const auto x = check.input<dims<2, 3, 4, 2>>();
  const auto grid = check.input<dims<2, 2, 1, 2>>(-0.6, 0.6);
  check("grid_sample", grid_sample(x, grid));
  check("bicubic", grid_sample<grid_sample_options{.mode = interpolation::bicubic}>(x, grid));
  check("adaptive", square(adaptive_avg_pool2d<2>(x)));
  check("adaptive_max", square(adaptive_max_pool2d<2>(x)));
  check("resize", square(resize_bicubic<2, 5, resize_coordinates::half_pixel, antialias::on>(x)));
  check("area", square(resize_area<2, 3>(x)));
}
