// SPDX-License-Identifier: BSL-1.0
#include <limits>
#include <weft/ops/images/conv3d.hpp>
#include <weft/ops/images/pooling3d.hpp>

#include "errors.hpp"
#include "gradient_check.hpp"
#include "ops/image_check.hpp"

using namespace weft;

// Convolutions and pools of volumes against PyTorch (make_volume_values.py).

namespace {

const image_check& check() {
  static const image_check all(TEST_DATA "/ops/volume_values.txt");
  return all;
}

using volumes = dims<2, 4, 2, 3, 2>;
using any_volumes = dims<dyn<"batch">, dyn<"depth">, dyn<"height">, dyn<"width">, 2>;
using filters = dims<3, 2, 2, 2, 2>;

template <class F>
void of_volumes(const std::string& name, F f) {
  check().template operator()<volumes, any_volumes>(name, "volumes", f);
}
template <class W = filters, class F>
void with_filters(const std::string& name, const char* w, F f) {
  check().template operator()<volumes, W, any_volumes, W>(name, "volumes", w, f);
}

}  // namespace

BOOST_AUTO_TEST_CASE(convolutions_of_volumes) {
  with_filters("conv_valid", "filters",
               [](const auto& x, const auto& w) { return conv3d<conv3d_options{.pad = padding3d::valid}>(x, w); });
  with_filters("conv_same", "filters", [](const auto& x, const auto& w) { return conv3d(x, w); });
  with_filters("conv_212", "filters", [](const auto& x, const auto& w) {
    return conv3d<conv3d_options{.stride = {2, 1, 2}, .pad = padding3d::of(1, 0, 1)}>(x, w);
  });
  with_filters("conv_dilated", "filters", [](const auto& x, const auto& w) {
    return conv3d<conv3d_options{.stride = {3, 2, 1}, .pad = padding3d::of(3, 0, 2), .dilation = {2, 1, 2}}>(x, w);
  });
  with_filters<dims<1, 2, 2, 2, 3>>("conv_flat", "flat", [](const auto& x, const auto& w) {
    return conv3d<conv3d_options{.pad = padding3d::valid}>(x, w);
  });
}

BOOST_AUTO_TEST_CASE(transposed_convolutions_of_volumes) {
  with_filters("transpose_valid", "transposed", [](const auto& x, const auto& w) {
    return conv3d_transpose<conv3d_transpose_options{.pad = padding3d::valid}>(x, w);
  });
  with_filters("transpose_2", "transposed", [](const auto& x, const auto& w) {
    return conv3d_transpose<conv3d_transpose_options{.stride = 2, .pad = padding3d::of(1), .output_padding = 1}>(x, w);
  });
  with_filters("transpose_dilated", "transposed", [](const auto& x, const auto& w) {
    return conv3d_transpose<conv3d_transpose_options{
        .stride = {1, 2, 2}, .pad = padding3d::valid, .dilation = {2, 1, 1}}>(x, w);
  });
  const auto twice =
      conv3d_transpose<conv3d_transpose_options{.stride = 2}>(tensor<float, volumes>(), tensor<float, filters>());
  BOOST_CHECK(twice.extents() == shape(2, 8, 4, 6, 2));
}

BOOST_AUTO_TEST_CASE(pools_of_volumes) {
  of_volumes("max_2", [](const auto& x) { return max_pool3d<2>(x); });
  of_volumes("max_3", [](const auto& x) { return max_pool3d<size3d(2, 3, 3), size3d(1, 2, 2), padding3d::of(1)>(x); });
  of_volumes("avg_2", [](const auto& x) { return avg_pool3d<2>(x); });
  of_volumes("avg_3", [](const auto& x) {
    return avg_pool3d<size3d(3, 2, 3), size3d(1, 1, 2), padding3d::of(1), count_padding>(x);
  });
  of_volumes("avg_3_inside",
             [](const auto& x) { return avg_pool3d<size3d(3, 2, 3), size3d(1, 1, 2), padding3d::of(1)>(x); });
  of_volumes("adaptive_avg", [](const auto& x) { return adaptive_avg_pool3d<size3d(3, 2, 2)>(x); });
  of_volumes("adaptive_max", [](const auto& x) { return adaptive_max_pool3d<size3d(3, 2, 2)>(x); });
}

BOOST_AUTO_TEST_CASE(equal_elements_and_nan_in_volumes) {
  graph g;
  const auto x = placeholder<float, dims<1, 2, 2, 2, 1>>(g, "x");
  const auto y = max_pool3d<2>(x);
  const auto [d] = gradients(y, x);
  session s{g};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto first = s.eval(d, with(x, tensor<float, dims<1, 2, 2, 2, 1>>{0, 7, 7, 1, 7, 7, 2, 3}));
  for (int i = 0; i < 8; ++i) BOOST_CHECK_EQUAL(first.data()[i], i == 1 ? 1 : 0);
  BOOST_CHECK(std::isnan(s.eval(y, with(x, tensor<float, dims<1, 2, 2, 2, 1>>{0, 7, 7, nan, 7, 7, 2, 3})).data()[0]));
}

/// A stride skips the second slice, and the padding gives the result as many slices again.
BOOST_AUTO_TEST_CASE(filters_of_depth_1_stride_and_pad) {
  tensor<float, dims<1, 2, 3, 3, 1>> x;
  for (int i = 0; i < 18; ++i) x.data()[i] = static_cast<float>(i + 1);
  const tensor<float, dims<1, 2, 3, 1, 1>> w{1, 1, 1, 1, 1, 1};
  const auto y = conv3d<conv3d_options{
      .stride = {2, 1, 1}, .pad = padding3d{.front = 0, .back = 1, .top = 0, .bottom = 0, .left = 0, .right = 0}}>(x,
                                                                                                                   w);
  const tensor<float, dims<1, 2, 2, 1, 1>> right{21, 39, 0, 0};
  for (int i = 0; i < 4; ++i) BOOST_CHECK_EQUAL(y.data()[i], right.data()[i]);
}

BOOST_AUTO_TEST_CASE(volumes_of_storage_types_and_without_elements) {
  tensor<bfloat16, dims<1, 3, 3, 3, 1>> x;
  tensor<bfloat16, dims<3, 3, 3, 1, 1>> w;
  for (int i = 0; i < 27; ++i) x.data()[i] = static_cast<bfloat16>(1), w.data()[i] = static_cast<bfloat16>(0.5f);
  BOOST_CHECK_EQUAL(static_cast<float>(conv3d(x, w)(0, 1, 1, 1, 0)), 13.5f);
  BOOST_CHECK_EQUAL(static_cast<float>(conv3d(x, w)(0, 0, 1, 1, 0)), 9);
  const tensor<float, dims<0, 3, 3, 3, 1>> none;
  BOOST_CHECK_EQUAL(conv3d(none, tensor<float, dims<2, 2, 2, 1, 4>>()).elements(), 0u);
  graph g;
  const auto p = placeholder<float, dims<1, dyn<"depth">, 3, 3, 1>>(g, "p");
  const auto q = placeholder<float, dims<3, 3, 3, 1, 2>>(g, "q");
  const auto y = conv3d<conv3d_options{.pad = padding3d::valid}>(p, q);
  static_assert(std::is_same_v<dims_t<decltype(y)>, dims<1, dyn<"depth"> - extent<2>, 1, 1, 2>>);
  session s{g};
  CHECK_SAYS(test::failure(error_code::invalid_argument,
                           [&] {
                             s.eval(y, with(p, tensor<float, dims<1, 1, 3, 3, 1>>()),
                                    with(q, tensor<float, dims<3, 3, 3, 1, 2>>()));
                           }),
             "");
}

BOOST_AUTO_TEST_CASE(gradients_of_volumes) {
  gradient_check check;
  const auto x = check.input<dims<1, 3, 2, 3, 2>>();
  const auto w = check.input<dims<2, 2, 2, 2, 1>>();
  check("conv3d", conv3d<conv3d_options{.stride = {2, 1, 1}}>(x, w));
  const auto v = check.input<dims<2, 2, 2, 1, 2>>();
  check("conv3d_transpose", conv3d_transpose<conv3d_transpose_options{.stride = {2, 1, 1}}>(x, v));
  check("avg_pool3d", square(avg_pool3d<2, 1>(x)));
}
