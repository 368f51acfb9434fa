// SPDX-License-Identifier: BSL-1.0
#include <limits>
#include <weft/ops/images/boxes.hpp>
#include <weft/ops/images/regions.hpp>

#include "errors.hpp"
#include "gradient_check.hpp"
#include "ops/values_of.hpp"

using namespace weft;

// Parts of images and boxes against torchvision (make_sampling_values.py) and TensorFlow 2.21.

namespace {

const values_of& right() {
  static const values_of all(TEST_DATA "/ops/sampling_values.txt");
  return all;
}

using photos = dims<2, 5, 3, 2>;
using any_photos = dims<dyn<"batch">, dyn<"height">, dyn<"width">, 2>;
using any_boxes = dims<dyn<"boxes">, 4>;
using any_numbers = dims<dyn<"boxes">>;

template <class X>
void check_near(const X& found, std::initializer_list<double> expected, double tolerance = 1e-5) {
  const auto t = eval(found);
  BOOST_REQUIRE_EQUAL(t.elements(), expected.size());
  const auto* at = t.data();
  for (const double v : expected) BOOST_CHECK_SMALL(static_cast<double>(*at++) - v, tolerance * (1 + std::abs(v)));
}

tensor<double, dims<1, 4, 3, 2>> counted() {
  tensor<double, dims<1, 4, 3, 2>> x;
  for (int i = 0; i < 24; ++i) x.data()[i] = i;
  return x;
}

}  // namespace

BOOST_AUTO_TEST_CASE(means_of_regions) {
  const auto x = right().tensor<double, photos>("images");
  const auto boxes = right().tensor<double, dims<3, 4>>("boxes");
  const tensor<std::int32_t, dims<3>> of{1, 0, 1};
  constexpr roi_align_options old{.spatial_scale = 0.5, .aligned = false}, aligned{.spatial_scale = 0.5};
  right().check("roi_align_0", roi_align<2, 3>(x, boxes, of, old), 1e-9);
  right().check("roi_align_1", roi_align<2, 3>(x, boxes, of, aligned), 1e-9);
  graph g;
  const auto p = placeholder<double, any_photos>(g, "p");
  const auto b = placeholder<double, any_boxes>(g, "b");
  const auto n = placeholder<std::int32_t, any_numbers>(g, "n");
  const auto y = roi_align<2, 3>(p, b, n, aligned);
  session s{g};
  right().check("roi_align_1", s.eval(y, with(p, x), with(b, boxes), with(n, of)), 1e-9);
}

BOOST_AUTO_TEST_CASE(boxes_of_images_resized) {
  const auto x = counted();
  const tensor<double, dims<2, 4>> boxes{0.1, 0.2, 0.9, 0.6, 0.8, 1.2, -0.3, 0.1};
  const tensor<std::int32_t, dims<2>> of{0, 0};
  const std::initializer_list<double> expected{2.6, 3.6, 3.4, 4.4, 4.2,  5.2,  17, 18, 17.8, 18.8, 18.6, 19.6,
                                               -1,  -1,  17,  18,  14.8, 15.8, -1, -1, -1,   -1,   -1,   -1};
  check_near(crop_and_resize<2, 3>(x, boxes, of, -1), expected);
  check_near(crop_and_resize<1, 1>(x, boxes, of, -1), {10.6, 11.6, 7.1, 8.1});
  const auto beyond = crop_and_resize<1, 1>(x, boxes, tensor<std::int32_t, dims<2>>{1, -1}, 7);
  check_near(beyond, {7, 7, 7, 7});
  graph g;
  const auto p = placeholder<double, dims<dyn<"batch">, dyn<"height">, dyn<"width">, 2>>(g, "p");
  const auto b = placeholder<double, any_boxes>(g, "b");
  const auto n = placeholder<std::int32_t, any_numbers>(g, "n");
  const auto y = crop_and_resize<2, 3>(p, b, n, -1);
  const auto [d] = gradients(sum(square(y)), b);
  session s{g};
  check_near(s.eval(y, with(p, x), with(b, boxes), with(n, of)), expected);
  check_near(s.eval(d, with(p, x), with(b, boxes), with(n, of)), {842.4, 507.2, 3952.8, 558.4, 2361.6, 140, 0, 384.8});
}

BOOST_AUTO_TEST_CASE(parts_and_rotations) {
  const auto x = counted();
  check_near(crop_to<1, 0, 2, 1>(x), {6, 7, 12, 13});
  check_near(central_crop<2, 1>(x), {8, 9, 14, 15});
  const tensor<float, dims<1, 2, 4, 1>> small{0, 1, 2, 3, 4, 5, 6, 7};
  check_near(rot90(small), {3, 7, 2, 6, 1, 5, 0, 4});
  check_near(rot90<2>(small), {7, 6, 5, 4, 3, 2, 1, 0});
  check_near(rot90<-1>(small), {4, 0, 5, 1, 6, 2, 7, 3});
  check_near(rot90<4>(small), {0, 1, 2, 3, 4, 5, 6, 7});
  graph g;
  const auto p = placeholder<double, any_photos>(g, "p");
  const auto y = central_crop<2, 1>(p);
  const auto z = rot90(p);
  session s{g};
  check_near(s.eval(y, with(p, x)), {8, 9, 14, 15});
  BOOST_CHECK(s.eval(z, with(p, x)).extents() == shape(1, 3, 4, 2));
}

BOOST_AUTO_TEST_CASE(shared_areas) {
  const auto a = right().tensor<double, dims<8, 4>>("corners");
  const auto b = right().tensor<double, dims<3, 4>>("boxes");
  right().check("iou", box_iou(a, b), 1e-9);
  const tensor<float, dims<1, 4>> point{1, 1, 1, 1};
  BOOST_CHECK_EQUAL(box_iou(point, point)(0, 0), 0);
}

BOOST_AUTO_TEST_CASE(boxes_without_worse_ones) {
  const auto boxes = right().tensor<double, dims<8, 4>>("corners");
  const auto scores = right().tensor<double, dims<8>>("scores");
  right().check("nms_0.1", cast<double>(non_max_suppression<100>(boxes, scores, {.iou_threshold = 0.1})), 1e-9);
  right().check("nms_0.3", cast<double>(non_max_suppression<8>(boxes, scores, {.iou_threshold = 0.3})), 1e-9);
  const auto& all = right()["nms_0.3"];
  const auto two = non_max_suppression<2>(boxes, scores, {.iou_threshold = 0.3});
  BOOST_CHECK(two.elements() == 2 && two(0) == all[0] && two(1) == all[1]);
  graph g;
  const auto b = placeholder<double, any_boxes>(g, "b");
  const auto v = placeholder<double, any_numbers>(g, "v");
  const auto kept = non_max_suppression<10>(b, v, {.iou_threshold = 0.1, .score_threshold = 0});
  session s{g};
  const auto found = s.eval(kept, with(b, boxes), with(v, scores));
  std::size_t positive = 0;
  for (const double i : right()["nms_0.1"]) positive += scores(static_cast<std::int64_t>(i)) > 0;
  BOOST_CHECK_EQUAL(found.elements(), positive);
  BOOST_CHECK_EQUAL(s.eval(kept, with(b, tensor<double, dims<0, 4>>()), with(v, tensor<double, dims<0>>())).elements(),
                    0u);
  CHECK_SAYS(test::failure(error_code::invalid_argument,
                           [&] {
                             (void)non_max_suppression<2>(tensor<float, any_boxes>{shape(3, 4)},
                                                          tensor<float, dims<dyn<"boxes">>>{shape(2)});
                           }),
             "the extent boxes is 3");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto odd = non_max_suppression<3>(tensor<double, dims<3, 4>>{0, 0, 1, 1, 1, 1, 0, 0, 5, 5, 6, 6},
                                          tensor<double, dims<3>>{1, 1, nan});
  BOOST_CHECK(odd.elements() == 1 && odd(0) == 0);  // reversed corners, equal scores, no number
}

BOOST_AUTO_TEST_CASE(gradients_of_regions) {
  gradient_check check;
  const auto x = check.input<dims<2, 3, 4, 2>>();
  const auto boxes = check.input<dims<2, 4>>(0.1, 0.9);
  const auto of = check.fixed(tensor<std::int32_t, dims<2>>{1, 0});
  check("crop_and_resize", crop_and_resize<2, 2>(x, boxes, of));
  check("roi_align", roi_align<1, 2>(x, boxes, of, {.spatial_scale = 3}));
}
