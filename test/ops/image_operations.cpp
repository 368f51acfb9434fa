// SPDX-License-Identifier: BSL-1.0
#include <weft/ops/images/conv1d.hpp>
#include <weft/ops/images/conv2d_transpose.hpp>
#include <weft/ops/images/grouped_conv2d.hpp>
#include <weft/ops/images/local_response_normalization.hpp>
#include <weft/ops/images/resize.hpp>

#include "errors.hpp"
#include "gradient_check.hpp"
#include "ops/values_of.hpp"

using namespace weft;

// Operations on images and sequences that weft.hpp does not include, against PyTorch (make_image_operation_values.py).

namespace {

const values_of& right() {
  static const values_of all(TEST_DATA "/ops/image_operation_values.txt");
  return all;
}

/// Over tensors at once; in a graph, with extents that are numbers and with those of `Named`, where the gradients are
/// compared too.
template <class X, class W, class Named, class F>
void check(const std::string& name, const char* operand, const char* filters, F f) {
  const auto x = right().tensor<double, X>(operand);
  const auto w = right().tensor<double, W>(filters);
  right().check(name, f(x, w));
  right().check(name, f(cast<float>(x), cast<float>(w)), 1e-5);
  const auto in_graph = [&]<class D>(D) {
    graph g;
    const auto p = placeholder<double, D>(g, "p");
    const auto q = placeholder<double, W>(g, "q");
    const auto y = let(f(p, q));
    const auto [dx, dw] = gradients(sum(square(y + 1)), p, q);
    session s{g, {.threads = 2}};
    right().check(name, s.eval(y, with(p, x), with(q, w)));
    right().check(name + ".x", s.eval(dx, with(p, x), with(q, w)));
    right().check(name + ".w", s.eval(dw, with(p, x), with(q, w)));
  };
  in_graph(X{});
  in_graph(Named{});
}

/// The same of one operand.
template <class X, class Named, class F>
void check_one(const std::string& name, const char* operand, F f) {
  const auto x = right().tensor<double, X>(operand);
  right().check(name, f(x));
  right().check(name, f(cast<float>(x)), 1e-5);
  const auto in_graph = [&]<class D>(D) {
    graph g;
    const auto p = placeholder<double, D>(g, "p");
    const auto y = let(f(p));
    const auto [d] = gradients(sum(square(y + 1)), p);
    session s{g, {.threads = 2}};
    right().check(name, s.eval(y, with(p, x)));
    right().check(name + ".x", s.eval(d, with(p, x)));
  };
  in_graph(X{});
  in_graph(Named{});
}

using photos = dims<2, 4, 3, 2>;
using any_photos = dims<dyn<"batch">, dyn<"height">, dyn<"width">, 2>;

}  // namespace

BOOST_AUTO_TEST_CASE(transposed_convolutions) {
  const auto of = [](const std::string& name, auto f) {
    check<photos, dims<3, 2, 3, 2>, any_photos>(name, "images", "transposed", f);
  };
  of("transpose_same_1", [](const auto& x, const auto& w) { return conv2d_transpose(x, w); });
  of("transpose_same_2",
     [](const auto& x, const auto& w) { return conv2d_transpose<conv2d_transpose_options{.stride = 2}>(x, w); });
  of("transpose_same_4",
     [](const auto& x, const auto& w) { return conv2d_transpose<conv2d_transpose_options{.stride = 4}>(x, w); });
  of("transpose_valid_21", [](const auto& x, const auto& w) {
    return conv2d_transpose<conv2d_transpose_options{.stride = {2, 1}, .pad = padding::valid}>(x, w);
  });
  of("transpose_of_1_more", [](const auto& x, const auto& w) {
    return conv2d_transpose<conv2d_transpose_options{
        .stride = {3, 2}, .pad = padding::of(1), .output_padding = {2, 1}}>(x, w);
  });
  of("transpose_dilated", [](const auto& x, const auto& w) {
    return conv2d_transpose<conv2d_transpose_options{.stride = 2, .pad = padding::of(1), .dilation = {2, 3}}>(x, w);
  });
}

BOOST_AUTO_TEST_CASE(extents_of_transposed_convolutions) {
  graph g;
  const auto x = placeholder<float, any_photos>(g, "x");
  const auto w = placeholder<float, dims<4, 4, 5, 2>>(g, "w");
  const auto y = conv2d_transpose<conv2d_transpose_options{.stride = 2, .pad = padding::of(1)}>(x, w);
  static_assert(
      std::is_same_v<dims_t<decltype(y)>, dims<dyn<"batch">, dyn<"height"> * extent<2>, dyn<"width"> * extent<2>, 5>>);
  session s{g};
  const auto found = s.eval(y, with(x, tensor<float, dims<2, 3, 7, 2>>()), with(w, tensor<float, dims<4, 4, 5, 2>>()));
  BOOST_CHECK(found.extents() == shape(2, 6, 14, 5));
}

BOOST_AUTO_TEST_CASE(gradients_of_transposed_convolutions) {
  gradient_check check;
  const auto x = check.input<dims<2, 3, 2, 2>>();
  const auto w = check.input<dims<3, 2, 2, 2>>();
  check("conv2d_transpose", conv2d_transpose<conv2d_transpose_options{.stride = 2}>(x, w));
}

BOOST_AUTO_TEST_CASE(convolutions_of_sequences) {
  const auto of = [](const std::string& name, auto f) {
    check<dims<2, 7, 3>, dims<3, 3, 2>, dims<dyn<"batch">, dyn<"length">, 3>>(name, "sequences", "taps", f);
  };
  of("conv1d_same", [](const auto& x, const auto& w) { return conv1d(x, w); });
  of("conv1d_valid_2",
     [](const auto& x, const auto& w) { return conv1d<conv1d_options{.stride = 2, .pad = padding::valid}>(x, w); });
  of("conv1d_of_2_dilated",
     [](const auto& x, const auto& w) { return conv1d<conv1d_options{.pad = padding::of(2), .dilation = 2}>(x, w); });
  of("conv1d_causal", [](const auto& x, const auto& w) {
    return conv1d<conv1d_options{.pad = padding::of(0, 0, 4, 0), .dilation = 2}>(x, w);
  });
}

BOOST_AUTO_TEST_CASE(grouped_convolutions) {
  const auto of = [](const std::string& name, auto f) {
    check<dims<2, 4, 5, 6>, dims<3, 2, 2, 9>, dims<dyn<"batch">, dyn<"height">, dyn<"width">, 6>>(name, "wide",
                                                                                                  "grouped", f);
  };
  of("grouped_of_1",
     [](const auto& x, const auto& w) { return grouped_conv2d<3, conv2d_options{.pad = padding::of(1)}>(x, w); });
  of("grouped_valid_2", [](const auto& x, const auto& w) {
    return grouped_conv2d<3, conv2d_options{.stride = 2, .pad = padding::valid}>(x, w);
  });
  of("grouped_dilated", [](const auto& x, const auto& w) {
    return grouped_conv2d<3, conv2d_options{.pad = padding::of(2), .dilation = 2}>(x, w);
  });
}

namespace {

template <int Height, int Width>
void check_resize() {
  const auto of = [](const std::string& name, auto f) {
    check_one<dims<2, 4, 5, 6>, dims<dyn<"batch">, dyn<"height">, dyn<"width">, 6>>(
        "resize_" + name + "_" + std::to_string(Height) + "_" + std::to_string(Width), "wide", f);
  };
  of("half", [](const auto& x) { return resize_bilinear<Height, Width>(x); });
  of("corners", [](const auto& x) { return resize_bilinear<Height, Width, resize_coordinates::align_corners>(x); });
  of("nearest", [](const auto& x) { return resize_nearest<Height, Width>(x); });
  of("asymmetric", [](const auto& x) { return resize_nearest<Height, Width, resize_coordinates::asymmetric>(x); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(resized_images) {
  check_resize<8, 10>();
  check_resize<3, 7>();
  check_resize<1, 1>();
  check_resize<9, 2>();
  check_resize<4, 6>();
  // Rows 0, 1.5 and 3, rounded up; columns 0 and 2 (tf.compat.v1.image.resize_nearest_neighbor, align_corners=True).
  const tensor<int, dims<1, 4, 3, 1>> x{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const auto y = resize_nearest<3, 2, resize_coordinates::align_corners>(x);
  const std::vector<int> expected{1, 3, 7, 9, 10, 12};
  BOOST_REQUIRE_EQUAL(y.elements(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) BOOST_CHECK_EQUAL(y.data()[i], expected[i]);
  // Rows 0, 0.5, 1 and 1.5, which is beyond the last one (tf.compat.v1.image.resize_bilinear).
  const auto z = resize_bilinear<4, 1, resize_coordinates::asymmetric>(tensor<float, dims<1, 2, 1, 1>>{0, 2});
  for (int i = 0; i < 4; ++i) BOOST_CHECK_EQUAL(z(0, i, 0, 0), i < 2 ? i : 2);
}

BOOST_AUTO_TEST_CASE(local_response_normalizations) {
  const auto of = [](const std::string& name, auto f) {
    check_one<dims<2, 4, 5, 6>, dims<dyn<"batch">, 4, 5, 6>>(name, "wide", f);
  };
  of("local_2", [](const auto& x) {
    return local_response_normalization(x, {.depth_radius = 2, .bias = 2, .alpha = 0.3, .beta = 0.75});
  });
  of("local_0", [](const auto& x) { return local_response_normalization(x, {.depth_radius = 0, .alpha = 0.5}); });
  of("local_default", [](const auto& x) { return local_response_normalization(x); });
  BOOST_CHECK_EXCEPTION(local_response_normalization(tensor<float, dims<1, 2>>(), {.depth_radius = -1}), error,
                        test::says(error_code::invalid_argument, "depth_radius must be at least 0; it is -1"));
}

BOOST_AUTO_TEST_CASE(gradients_of_any_order) {
  gradient_check check;
  const auto x = check.input<dims<2, 3, 2, 4>>();
  const auto w = check.input<dims<2, 2, 2, 2>>();
  check("grouped_conv2d", grouped_conv2d<2>(x, w));
  gradient_check sequences;
  const auto s = sequences.input<dims<2, 5, 2>>();
  const auto taps = sequences.input<dims<3, 2, 2>>();
  sequences("conv1d", conv1d<conv1d_options{.stride = 2}>(s, taps));
  gradient_check images;
  const auto y = images.input<dims<1, 3, 2, 4>>();
  images("resize_bilinear", resize_bilinear<5, 3>(y));
  images("local_response_normalization", local_response_normalization(y, {.depth_radius = 1, .beta = 0.75}));
}
