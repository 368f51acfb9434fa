// SPDX-License-Identifier: BSL-1.0
// Operations that few models use, exported to ONNX. ONNX Runtime computes the same values.
#include "onnx/exported.hpp"

#include <weft/ops/arrays/pad_modes.hpp>
#include <weft/ops/arrays/range.hpp>
#include <weft/ops/arrays/shape.hpp>
#include <weft/ops/elementwise/bits.hpp>
#include <weft/ops/images/adaptive_pooling.hpp>
#include <weft/ops/images/boxes.hpp>
#include <weft/ops/images/grid_sample.hpp>
#include <weft/ops/images/unfold.hpp>
#include <weft/ops/index/boolean_mask.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/ops/index/segments.hpp>
#include <weft/ops/index/unique.hpp>
#include <weft/ops/products/attention.hpp>
#include <weft/ops/reduce/cummax.hpp>
#include <weft/ops/reduce/cumprod.hpp>
#include <weft/ops/reduce/logcumsumexp.hpp>
#include <weft/ops/reduce/reductions.hpp>
#include <weft/ops/signals/fft.hpp>
#include <weft/ops/signals/stft.hpp>

using namespace weft;
using test::some;

BOOST_AUTO_TEST_CASE(bits) {
  test::exported_models models;
  graph g;
  const auto add = [&]<class T>(T, const char* name) {
    using line = dims<dyn<"n">>;
    auto x = placeholder<T, line>(g, str_cat({name, "_x"}));
    auto by = placeholder<T, line>(g, str_cat({name, "_by"}));
    session s(g);
    tensor<T, line> a(shape(10)), b(shape(10));
    for (std::size_t i = 0; i < 10; ++i) {
      a.data()[i] = static_cast<T>(0x9E3779B97F4A7C15u * (3 * i + 1));
      b.data()[i] = static_cast<T>(i < 8 ? i * sizeof(T) : i == 8 ? std::size_t{200} : std::size_t(-1));
    }
    models.add(name, s, fetch(x << by, x >> by, popcount(x), popcount(x) + (x >> 1)), feed(x, by), "", a, b);
  };
  add(std::int8_t{}, "int8"), add(std::uint8_t{}, "uint8");
  add(std::int32_t{}, "int32"), add(std::uint32_t{}, "uint32");
  add(std::int64_t{}, "int64"), add(std::uint64_t{}, "uint64");
}

BOOST_AUTO_TEST_CASE(running_values) {
  test::exported_models models;
  graph g;
  using batch = dims<dyn<"batch">, 4, 3>;
  auto x = placeholder<float, batch>(g, "x");
  auto i = placeholder<std::int32_t, batch>(g, "i");
  session s(g);
  auto a = some<tensor<float, batch>>(2, shape(5, 4, 3));
  const auto largest = cummax<0>(x);
  const auto least = cummin<1>(x);
  const auto of_i = cummax<1>(i);
  const auto k = cast<std::int32_t>(a * 3);
  models.add("products", s,
             fetch(cumprod<1>(x), cumprod<0>(x, {.exclusive = true, .reverse = true}), cumprod<2>(i),
                   logcumsumexp<1>(x), logcumsumexp<0>(x, {.exclusive = true})),
             feed(x, i), "", a, tensor<std::int32_t, batch>(k));
  a.data()[7] = std::numeric_limits<float>::quiet_NaN();
  a.data()[20] = -std::numeric_limits<float>::infinity();
  models.add("extremes", s,
             fetch(largest.values, largest.indices, least.values, least.indices, of_i.values, of_i.indices), feed(x, i),
             "", a, tensor<std::int32_t, batch>(k));
}

BOOST_AUTO_TEST_CASE(bounded_values) {
  test::exported_models models;
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 3>>(g, "x");
  auto mask = placeholder<bool, dims<dyn<"batch">>>(g, "mask");
  auto cells = placeholder<bool, dims<dyn<"batch">, 3>>(g, "cells");
  auto ids = placeholder<std::int32_t, dims<dyn<"n">>>(g, "ids");
  auto numbers = placeholder<float, dims<dyn<"n">>>(g, "numbers");
  session s(g);
  const auto kept = boolean_mask(x, mask);
  const auto each = boolean_mask(x, cells);
  models.add("masks", s, fetch(kept.values, kept.count, each.values, each.count, sum<0>(kept), max<0>(kept)),
             feed(x, mask, cells), "", some<tensor<float, dims<dyn<"batch">, 3>>>(1, shape(4, 3)),
             tensor<bool, dims<dyn<"batch">>>(shape(4), {true, false, false, true}),
             tensor<bool, dims<dyn<"batch">, 3>>(some<tensor<float, dims<dyn<"batch">, 3>>>(1, shape(4, 3)) > 0.5f));
  const auto distinct = unique(ids);
  const auto counted = unique_with_counts(numbers);
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const auto of = [&](const char* name, std::size_t n) {
    const std::int32_t all[] = {7, -3, 7, 7, 0, -3, 9};
    const float reals[] = {0, nan, 2, -0.0f, nan, 2, 2};
    tensor<std::int32_t, dims<dyn<"n">>> a(shape(static_cast<std::int64_t>(n)));
    tensor<float, dims<dyn<"n">>> b(shape(static_cast<std::int64_t>(n)));
    for (std::size_t k = 0; k < n; ++k) a.data()[k] = all[k], b.data()[k] = reals[k];
    models.add(name, s,
               fetch(distinct.values.values, distinct.values.count, distinct.indices, counted.values.values,
                     counted.indices, counted.counts.values),
               feed(ids, numbers), "", a, b);
  };
  of("unique", 7), of("one", 1);

  auto boxes = placeholder<float, dims<dyn<"n">, 4>>(g, "boxes");
  auto scores = placeholder<float, dims<dyn<"n">>>(g, "scores");
  session t(g);
  const auto best = non_max_suppression<5>(boxes, scores, {.iou_threshold = 0.4, .score_threshold = 0.1});
  const auto first = non_max_suppression<2>(boxes, scores);
  models.add(
      "boxes", t, fetch(best.values, best.count, first.values, gather(boxes, best.values)), feed(boxes, scores), "",
      tensor<float, dims<dyn<"n">, 4>>(shape(5, 4), {0, 0, 2, 2, 2, 2.1f, 0, 0, 5, 5, 7, 6, 0, 1, 2, 3, 8, 8, 9, 9}),
      tensor<float, dims<dyn<"n">>>(shape(5), {0.5f, 0.9f, 0.5f, 0.5f, 0.05f}));
}

BOOST_AUTO_TEST_CASE(transforms) {
  test::exported_models models;
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 12>>(g, "x");
  auto y = placeholder<float, dims<dyn<"batch">, 12>>(g, "y");
  auto odd = placeholder<float, dims<dyn<"batch">, 9>>(g, "odd");
  auto images = placeholder<float, dims<dyn<"batch">, 6, 8>>(g, "images");
  session s(g);
  const auto all = fft(x, y);
  const auto back = ifft(x, y);
  const auto half_of = rfft(x);
  const auto planes = fft2(images, images);
  const auto a = some<tensor<float, dims<dyn<"batch">, 12>>>(1, shape(2, 12));
  models.add("fft", s,
             fetch(all.real, all.imag, back.real, back.imag, half_of.real, half_of.imag, irfft(half_of),
                   irfft<9>(rfft(odd)), planes.real, planes.imag, irfft2(rfft2(images))),
             feed(x, y, odd, images), "", a, tensor<float, dims<dyn<"batch">, 12>>(a * a),
             some<tensor<float, dims<dyn<"batch">, 9>>>(1, shape(2, 9)),
             some<tensor<float, dims<dyn<"batch">, 6, 8>>>(1, shape(2, 6, 8)));
  constexpr stft_options options{.length = 6, .step = 2};
  const auto frames = stft<options>(x);
  models.add("stft", s, fetch(frames.real, frames.imag, istft<12, options>(frames)), feed(x), "", a);
}

BOOST_AUTO_TEST_CASE(grids) {
  test::exported_models models;
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 6, 5, 3>>(g, "x");
  auto grid = placeholder<float, dims<dyn<"batch">, 4, 7, 2>>(g, "grid");
  auto theta = placeholder<float, dims<dyn<"batch">, 2, 3>>(g, "theta");
  auto volumes = placeholder<float, dims<dyn<"batch">, 4, 5, 6, 2>>(g, "volumes");
  auto places = placeholder<float, dims<dyn<"batch">, 2, 3, 4, 3>>(g, "places");
  session s(g);
  models.add("grid_sample", s,
             fetch(grid_sample(x, grid),
                   grid_sample<grid_sample_options{interpolation::bicubic, image_border::reflection, true}>(x, grid),
                   grid_sample<grid_sample_options{interpolation::nearest, image_border::nearest}>(relu(x), grid),
                   grid_sample(x, affine_grid<3, 3>(theta)), grid_sample(volumes, places)),
             feed(x, grid, theta, volumes, places), "",
             some<tensor<float, dims<dyn<"batch">, 6, 5, 3>>>(1, shape(2, 6, 5, 3)),
             some<tensor<float, dims<dyn<"batch">, 4, 7, 2>>>(1.2, shape(2, 4, 7, 2)),
             some<tensor<float, dims<dyn<"batch">, 2, 3>>>(1, shape(2, 2, 3)),
             some<tensor<float, dims<dyn<"batch">, 4, 5, 6, 2>>>(1, shape(2, 4, 5, 6, 2)),
             some<tensor<float, dims<dyn<"batch">, 2, 3, 4, 3>>>(1.2, shape(2, 2, 3, 4, 3)));
}

BOOST_AUTO_TEST_CASE(compositions) {
  test::exported_models models;
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 8, 7, 3>>(g, "x");
  auto line = placeholder<float, dims<dyn<"n">>>(g, "line");
  session s(g);
  constexpr unfold_options three{.window = 3, .stride = 2, .pad = padding::same},
      crd{.window = size2d(2, 3), .order = depth_order::crd};
  const auto by_channel = let(reshape<dims<dyn<"batch">, 7, 5, 18>>(relu(concat<3>(
      slice<1, 0, 7>(slice<2, 0, 5>(x)), slice<1, 1, 7>(slice<2, 1, 5>(x)), slice<1, 0, 7>(slice<2, 2, 5>(x)),
      slice<1, 1, 7>(slice<2, 0, 5>(x)), slice<1, 0, 7>(slice<2, 1, 5>(x)), slice<1, 0, 7>(slice<2, 2, 5>(x))))));
  models.add("folded", s, fetch(fold<8, 7, three>(unfold<three>(x)), relu(fold<8, 7, crd>(by_channel))), feed(x), "",
             some<tensor<float, dims<dyn<"batch">, 8, 7, 3>>>(1, shape(2, 8, 7, 3)));
  models.add("windows", s,
             fetch(adaptive_avg_pool2d<size2d(3, 2)>(relu(x)), adaptive_max_pool2d<size2d(5, 7)>(x),
                   pad<1, 2, 3, pad_mode::symmetric>(x), pad<2, 1, 0, pad_mode::symmetric>(relu(x))),
             feed(x), "", some<tensor<float, dims<dyn<"batch">, 8, 7, 3>>>(1, shape(2, 8, 7, 3)));
  // The name of a node that is also an extent.
  models.add("extents", s,
             fetch(shape_of(line), broadcast_to<dims<2, dyn<"n">>>(line), range<std::int64_t, dyn<"n">>(g),
                   range<float, dyn<"n">>(g, 1.0f, 2.0f), size(line)),
             feed(line), "", some<tensor<float, dims<dyn<"n">>>>(1, shape(4)));
}

BOOST_AUTO_TEST_CASE(linear_biases) {
  test::exported_models models;
  graph g;
  auto q = placeholder<float, dims<dyn<"batch">, 4, dyn<"time">, 8>>(g, "q");
  session s(g);
  models.add("alibi", s,
             fetch(attention(q, q, q, {.alibi = true}), attention(q, q, q, {.causal = true, .alibi = true})), feed(q),
             "", some<tensor<float, dims<dyn<"batch">, 4, dyn<"time">, 8>>>(1, shape(2, 4, 5, 8)));
}
