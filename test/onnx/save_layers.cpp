// SPDX-License-Identifier: BSL-1.0
// Products, images, normalizations and losses, exported to ONNX. ONNX Runtime computes the same values.
#include "onnx/exported.hpp"

#include <weft/ops/images/adaptive_pooling.hpp>
#include <weft/ops/images/conv1d.hpp>
#include <weft/ops/images/conv2d_transpose.hpp>
#include <weft/ops/images/conv3d.hpp>
#include <weft/ops/images/convolution.hpp>
#include <weft/ops/images/depthwise_conv2d.hpp>
#include <weft/ops/images/grouped_conv2d.hpp>
#include <weft/ops/images/pooling.hpp>
#include <weft/ops/images/resize.hpp>
#include <weft/ops/images/unfold.hpp>
#include <weft/ops/linear_algebra/lu.hpp>
#include <weft/ops/losses/classification.hpp>
#include <weft/ops/losses/regression.hpp>
#include <weft/ops/products/attention.hpp>
#include <weft/ops/products/einsum.hpp>
#include <weft/ops/reduce/batch_normalization.hpp>
#include <weft/ops/reduce/normalization.hpp>
#include <weft/ops/reduce/reductions.hpp>
#include <weft/ops/reduce/softmax.hpp>

#include "errors.hpp"

using namespace weft;
using test::some;

BOOST_AUTO_TEST_CASE(products) {
  test::exported_models models;
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 4, 6>>(g, "x");
  auto y = placeholder<float, dims<dyn<"batch">, 4, 6>>(g, "y");
  auto w = variable<float, dims<6, 3>>(g, "w", init::normal{});
  auto v = variable<float, dims<3, 6>>(g, "v", init::normal{});
  session s(g);
  const auto a = some<tensor<float, dims<dyn<"batch">, 4, 6>>>(1, shape(2, 4, 6));
  models.add("matmul", s,
             fetch(matmul(x, w), matmul(x, transpose(v)), matmul(x, transpose<0, 2, 1>(y)),
                   matmul(transpose<0, 2, 1>(x), y), matmul(mean<1>(x), w)),
             feed(x, y), "", a, a);
  models.add("einsum", s, fetch(einsum<"bij,bkj->bik">(x, y), einsum<"bij,jk->bki">(x, w)), feed(x, y), "", a, a);
  models.add("softmax", s,
             fetch(softmax(x), log_softmax(x), layer_normalization(x, mean<0, 1>(y) + 1, mean<0, 1>(y)),
                   rms_normalization(x, mean<0, 1>(y) + 1), variance<-1>(x)),
             feed(x, y), "", a, a);
  auto labels = placeholder<std::int32_t, dims<dyn<"batch">, 4>>(g, "labels");
  models.add("losses", s,
             fetch(softmax_cross_entropy(x, softmax(y)), softmax_cross_entropy(x, labels), sigmoid_cross_entropy(x, y),
                   mean(square(x - y)), huber_loss(x, y)),
             feed(x, y, labels), "", a, a,
             tensor<std::int32_t, dims<dyn<"batch">, 4>>(shape(2, 4), {0, 1, 2, 3, 4, 5, 0, 1}));
  auto m = placeholder<float, dims<dyn<"batch">, 3, 3>>(g, "m");
  models.add("determinant", s, fetch(determinant(m)), feed(m), "Det",
             some<tensor<float, dims<dyn<"batch">, 3, 3>>>(1, shape(2, 3, 3)));
}

BOOST_AUTO_TEST_CASE(attentions) {
  test::exported_models models;
  graph g;
  auto q = placeholder<float, dims<dyn<"batch">, 4, dyn<"time">, 8>>(g, "q");
  auto k = placeholder<float, dims<dyn<"batch">, 2, dyn<"keys">, 8>>(g, "k");
  auto v = placeholder<float, dims<dyn<"batch">, 2, dyn<"keys">, 8>>(g, "v");
  auto n = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "n");
  auto mask = placeholder<float, dims<dyn<"time">, dyn<"keys">>>(g, "mask");
  session s(g);
  const auto a = some<tensor<float, dims<dyn<"batch">, 4, dyn<"time">, 8>>>(1, shape(2, 4, 3, 8));
  const auto b = some<tensor<float, dims<dyn<"batch">, 2, dyn<"keys">, 8>>>(1, shape(2, 2, 5, 8));
  auto added = some<tensor<float, dims<dyn<"time">, dyn<"keys">>>>(1, shape(3, 5));
  added.data()[0] = added.data()[1] = -3.4e38f;  // both keys of batch 0; other keys are not attended to
  models.add("attention", s,
             fetch(attention(q, k, v), attention(q, k, v, {.causal = true}),
                   attention(q, k, v, key_lengths(n), attention_mask(mask))),
             feed(q, k, v, n, mask), "", a, b, b, tensor<std::int32_t, dims<dyn<"batch">>>(shape(2), {2, 5}), added);
}

BOOST_AUTO_TEST_CASE(images) {
  test::exported_models models;
  graph g;
  using batch = dims<dyn<"batch">, 9, 8, 4>;
  auto x = placeholder<float, batch>(g, "x");
  auto w = variable<float, dims<3, 3, 4, 6>>(g, "w", init::normal{});
  auto b = variable<float, dims<6>>(g, "b", init::normal{});
  session s(g);
  const auto a = some<tensor<float, batch>>(1, shape(2, 9, 8, 4));
  models.add("conv2d", s,
             fetch(conv2d(x, w), conv2d<conv2d_options{.stride = 2}>(x, w),
                   conv2d<conv2d_options{.pad = padding::valid, .dilation = 2}>(x, w),
                   conv2d<conv2d_options{.stride = size2d(2, 1), .pad = padding::of(1, 0, 2, 1)}>(x, w)),
             feed(x), "Conv 4 Transpose 5", a);
  // A network has transposes at its borders alone.
  auto y = max_pool2d<2>(relu(conv2d(x, w) + b));
  auto z = mean<1, 2>(concat<3>(y, avg_pool2d<3, 1, padding::same>(y)) * 0.5);
  models.add("network", s, fetch(z), feed(x), "AveragePool Concat Conv MaxPool Mul ReduceMean Relu Transpose", a);
  const auto [y2, moment, variance_of_x] = batch_normalization_training(
      tanh(conv2d(x, w)), mean<0, 1, 2>(conv2d(x, w)) + 2, b, {.epsilon = 1e-3, .relu = false});
  models.add("batch_normalization", s, fetch(y2 * 2, moment, variance_of_x), feed(x), "", a);
  models.add("pools", s,
             fetch(max_pool2d<3, 2, padding::same>(x), avg_pool2d<3, 2, padding::same>(x), avg_pool2d<2>(x),
                   avg_pool2d<3, 1, padding::of(1), true>(x), adaptive_avg_pool2d<size2d(3, 2)>(x)),
             feed(x), "", a);
  auto grouped = variable<float, dims<3, 3, 2, 6>>(g, "grouped", init::normal{});
  auto depthwise = variable<float, dims<3, 3, 4, 2>>(g, "depthwise", init::normal{});
  auto up = variable<float, dims<3, 3, 6, 4>>(g, "up", init::normal{});
  models.add("convolutions", s,
             fetch(grouped_conv2d<2>(x, grouped), depthwise_conv2d(x, depthwise),
                   conv2d_transpose<conv2d_transpose_options{.stride = 2}>(x, up),
                   conv2d_transpose<conv2d_transpose_options{.pad = padding::valid}>(x, up)),
             feed(x), "", a);
  models.add("resize", s,
             fetch(resize_bilinear<18, 12>(x), resize_nearest<18, 16>(x),
                   resize_bilinear<5, 16, resize_coordinates::align_corners>(x), resize_bicubic<18, 12>(x),
                   resize_bilinear<5, 5, resize_coordinates::half_pixel, antialias::on>(x)),
             feed(x), "", a);

  auto any = placeholder<float, dims<dyn<"batch">, dyn<"height">, dyn<"width">, 4>>(g, "any");
  models.add("sizes", s,
             fetch(conv2d<conv2d_options{.stride = 2}>(any, w), max_pool2d<2>(any),
                   max_pool2d<3, 2, padding::of(1)>(any), relu(conv2d(any, w)) + b),
             feed(any), "", tensor<float, dims<dyn<"batch">, dyn<"height">, dyn<"width">, 4>>(a));

  models.add("patches", s,
             fetch(unfold<unfold_options{.window = 3}>(x), unfold<unfold_options{.window = 2, .stride = 2}>(x),
                   unfold<unfold_options{.window = 3, .stride = 2, .pad = padding::same}>(x)),
             feed(x), "", a);
  // In ONNX, only convolutions and pools have a padding that depends on extents.
  folder made;
  const auto check_refused = [&](const auto& v) {
    CHECK_SAYS(test::failure(error_code::unimplemented,
                             [&] { save_onnx((made.path / "model.onnx").string(), s, fetch(v), feed(any)); }),
               "needs extents that are numbers in ONNX");
  };
  check_refused(unfold<unfold_options{.window = 3, .stride = 2, .pad = padding::same}>(any));
  check_refused(std::get<0>(gradients(conv2d<conv2d_options{.stride = 2}>(any, w), any)));

  auto line = placeholder<float, dims<dyn<"batch">, dyn<"time">, 4>>(g, "line");
  auto f = variable<float, dims<3, 4, 5>>(g, "f", init::normal{});
  models.add("conv1d", s, fetch(conv1d(line, f), relu(conv1d<conv1d_options{.dilation = 2}>(line, f))), feed(line), "",
             some<tensor<float, dims<dyn<"batch">, dyn<"time">, 4>>>(1, shape(2, 7, 4)));
  auto volume = placeholder<float, dims<dyn<"batch">, 5, 6, 7, 2>>(g, "volume");
  auto f3 = variable<float, dims<3, 3, 3, 2, 4>>(g, "f3", init::normal{});
  models.add("conv3d", s, fetch(conv3d(volume, f3)), feed(volume), "",
             some<tensor<float, dims<dyn<"batch">, 5, 6, 7, 2>>>(1, shape(2, 5, 6, 7, 2)));
}
