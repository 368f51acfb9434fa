// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>
#include <string_view>
#include <weft/graph/checkpointed.hpp>
#include <weft/graph/custom_gradient.hpp>
#include <weft/graph/debugging.hpp>
#include <weft/graph/derivatives.hpp>
#include <weft/ops/arrays/axes.hpp>
#include <weft/ops/arrays/block_diag.hpp>
#include <weft/ops/arrays/diagonal.hpp>
#include <weft/ops/arrays/full_like.hpp>
#include <weft/ops/arrays/kron.hpp>
#include <weft/ops/arrays/meshgrid.hpp>
#include <weft/ops/arrays/pad_modes.hpp>
#include <weft/ops/arrays/reverse.hpp>
#include <weft/ops/arrays/roll.hpp>
#include <weft/ops/arrays/sequence_mask.hpp>
#include <weft/ops/arrays/stack.hpp>
#include <weft/ops/arrays/strided_slice.hpp>
#include <weft/ops/arrays/triangles.hpp>
#include <weft/ops/assign_slice.hpp>
#include <weft/ops/elementwise/activations.hpp>
#include <weft/ops/elementwise/bits.hpp>
#include <weft/ops/elementwise/clamp.hpp>
#include <weft/ops/elementwise/predicates.hpp>
#include <weft/ops/elementwise/rounding.hpp>
#include <weft/ops/elementwise/special.hpp>
#include <weft/ops/elementwise/trigonometry.hpp>
#include <weft/ops/images/adaptive_pooling.hpp>
#include <weft/ops/images/boxes.hpp>
#include <weft/ops/images/color.hpp>
#include <weft/ops/images/conv1d.hpp>
#include <weft/ops/images/conv1d_transpose.hpp>
#include <weft/ops/images/conv2d_transpose.hpp>
#include <weft/ops/images/conv3d.hpp>
#include <weft/ops/images/depth_to_space.hpp>
#include <weft/ops/images/depthwise_conv2d.hpp>
#include <weft/ops/images/grid_sample.hpp>
#include <weft/ops/images/grouped_conv2d.hpp>
#include <weft/ops/images/local_response_normalization.hpp>
#include <weft/ops/images/max_unpool.hpp>
#include <weft/ops/images/measures.hpp>
#include <weft/ops/images/pooling1d.hpp>
#include <weft/ops/images/pooling3d.hpp>
#include <weft/ops/images/regions.hpp>
#include <weft/ops/images/resize.hpp>
#include <weft/ops/images/unfold.hpp>
#include <weft/ops/index/bincount.hpp>
#include <weft/ops/index/boolean_mask.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/ops/index/gather_nd.hpp>
#include <weft/ops/index/nonzero.hpp>
#include <weft/ops/index/one_hot_along.hpp>
#include <weft/ops/index/ragged.hpp>
#include <weft/ops/index/repeat_rows.hpp>
#include <weft/ops/index/scatter.hpp>
#include <weft/ops/index/searchsorted.hpp>
#include <weft/ops/index/segments.hpp>
#include <weft/ops/index/sort.hpp>
#include <weft/ops/index/sum_rows.hpp>
#include <weft/ops/index/unique.hpp>
#include <weft/ops/linear_algebra/cholesky.hpp>
#include <weft/ops/linear_algebra/eigen.hpp>
#include <weft/ops/linear_algebra/lu.hpp>
#include <weft/ops/linear_algebra/matrix_functions.hpp>
#include <weft/ops/linear_algebra/qr.hpp>
#include <weft/ops/linear_algebra/svd.hpp>
#include <weft/ops/linear_algebra/triangular_solve.hpp>
#include <weft/ops/losses/classification.hpp>
#include <weft/ops/losses/ctc_decoder.hpp>
#include <weft/ops/losses/ctc_loss.hpp>
#include <weft/ops/losses/losses.hpp>
#include <weft/ops/losses/metric_learning.hpp>
#include <weft/ops/losses/regression.hpp>
#include <weft/ops/products/einsum.hpp>
#include <weft/ops/products/tensordot.hpp>
#include <weft/ops/random/augmentation.hpp>
#include <weft/ops/random/categorical.hpp>
#include <weft/ops/random/distributions.hpp>
#include <weft/ops/random/dropout.hpp>
#include <weft/ops/random/random.hpp>
#include <weft/ops/random/sample_logits.hpp>
#include <weft/ops/random/shuffle.hpp>
#include <weft/ops/reduce/batch_normalization.hpp>
#include <weft/ops/reduce/covariance.hpp>
#include <weft/ops/reduce/cummax.hpp>
#include <weft/ops/reduce/cumprod.hpp>
#include <weft/ops/reduce/logcumsumexp.hpp>
#include <weft/ops/reduce/normalization.hpp>
#include <weft/ops/reduce/quantile.hpp>
#include <weft/ops/reduce/reductions.hpp>
#include <weft/ops/reduce/scan.hpp>
#include <weft/ops/signals/fft.hpp>
#include <weft/ops/signals/stft.hpp>
#include <weft/weft.hpp>

// Records the operations that <weft/weft.hpp> leaves out, with their gradients, in one file that includes their
// headers. In a build for GPUs, each one must have a kernel there, except those that run on the CPU by design.
// Compilers for GPUs reject code that others accept, so that all of it compiles is part of the test.

using namespace weft;

namespace {

constexpr auto n = dyn<"n">;

template <class... Nodes>
void recorded(const Nodes&...) {}

/// Records the gradients of the sum of y.
template <class Y, class... X>
void differentiated(const Y& y, const X&... x) {
  recorded(gradients(sum(cast<float>(y)), x...));
}

void record_elementwise(graph& g) {
  const auto x = placeholder<float, dims<n, 8>>(g, "x"), y = placeholder<float, dims<n, 8>>(g, "y");
  const auto d = placeholder<double, dims<n>>(g, "d");
  const auto i = placeholder<std::int32_t, dims<n, 8>>(g, "i");
  const auto all = [](const auto& a, const auto& b) {
    differentiated(let(tan(a) + asin(a) + acos(a) + atan(a)), a);
    differentiated(let(sinh(a) + cosh(a) + asinh(a) + acosh(a) + atanh(a)), a);
    differentiated(let(erfc(a) + digamma(a) + lgamma(a) + ndtr(a)), a);
    differentiated(let(exp2(a) + log2(a) + log10(a) + sinc(a)), a);
    differentiated(let(atan2(a, b) + hypot(a, b) + logaddexp(a, b) + xlogy(a, b)), a, b);
    differentiated(let(mish(a) + log_sigmoid(a) + celu(a) + tanh_shrink(a)), a);
    differentiated(let(hard_tanh(a) + threshold(a, 0, 1) + hard_shrink(a) + soft_shrink(a)), a);
    differentiated(let(ceil(a) + round(a) + trunc(a)), a);
    differentiated(let(floor_div(a, b) + floor_mod(a, b) + fmod(a, b) + heaviside(a, b)), a, b);
    differentiated(let(clamp(a, b, 1) + lerp(a, b, 0.5f) + lerp(a, b, a)), a, b);
    recorded(let(trigamma(a)), let(is_nan(a) || is_inf(a) || is_finite(a)), let(nan_to_num(a)));
    // Gradients of the second order run operation by operation.
    const auto [first] = gradients(sum(tan(a) + lgamma(a) + erfc(a) + sinc(a) + mish(a)), a);
    differentiated(first, a);
  };
  all(x, y);
  all(d, d);
  differentiated(glu(x), x);
  recorded(let((i & 3) | (i ^ 1)), let(~i << 2), let(i >> 1), let(popcount(i)), let(floor_mod(i, 3) + floor_div(i, 2)),
           let(fmod(i, 5)), let((x > 0) & ~(y > 0)));
}

void record_arrays(graph& g) {
  const auto x = placeholder<float, dims<n, 6, 8>>(g, "x");
  const auto squares = placeholder<double, dims<n, 4, 4>>(g, "squares");
  const auto at = placeholder<std::int32_t, dims<>>(g, "at");
  const auto lengths = placeholder<std::int32_t, dims<n>>(g, "lengths");
  const auto v = placeholder<float, dims<8>>(g, "v");
  const auto w = placeholder<float, dims<6>>(g, "w");
  const auto images = placeholder<float, dims<n, 8, 8, 4>>(g, "images");
  differentiated(strided_slice<bounds{}, bounds{1, -1}, bounds{.step = -2}>(x), x);
  differentiated(strided_slice<bounds{}, 0>(x), x);
  differentiated(slice<1, 3, 2>(x, at), x);
  differentiated(pad<1, 2, 2, pad_mode::reflect>(x), x);
  differentiated(pad<1, 2, 2, pad_mode::symmetric>(x), x);
  differentiated(pad<1, 2, 2, pad_mode::edge>(x), x);
  differentiated(pad<1, 2, 2, pad_mode::wrap>(x), x);
  differentiated(pad<1, 2, 2>(x, 0.5f), x);
  differentiated(roll<0, 1>(x, 2, -1), x);
  differentiated(roll<1>(x, at), x);
  differentiated(swapaxes<1, 2>(x), x);
  differentiated(moveaxis<-1, 0>(x), x);
  differentiated(flatten<1>(x), x);
  differentiated(block_diag(squares, squares), squares);
  differentiated(kron(squares, squares), squares);
  const auto [rows, columns] = meshgrid<mesh_indexing::ij>(v, w);
  differentiated(rows * columns, v, w);
  recorded(sequence_mask<dyn<"time">, float>(lengths), sequence_mask<5>(lengths), full_like(x, 0.5f));
  recorded(placeholder<float, dims<dyn<"time">>>(g, "times"));
  differentiated(diag<1>(v), v);
  differentiated(diag_part<-1>(squares), squares);
  differentiated(set_diag(squares, diag_part(squares)), squares);
  differentiated(matrix_trace(squares), squares);
  differentiated(band_part(x, 1, -1) + tril(x, 1) + triu(x, -1), x);
  recorded(tril_indices<4>(), triu_indices<4>());
  differentiated(stack<0>(x, x), x);
  differentiated(std::get<0>(unstack<1>(x)), x);
  differentiated(tile<2, 1, 3>(x), x);
  differentiated(repeat<0, 2>(x), x);
  differentiated(depth_to_space<2>(images), images);
  differentiated(space_to_depth<2>(images), images);
  differentiated(pixel_shuffle<2>(images), images);
  differentiated(pixel_unshuffle<2>(images), images);
  differentiated(space_to_batch<2>(images), images);
  differentiated(batch_to_space<2>(space_to_batch<2>(images)), images);
  differentiated(unfold<unfold_options{.window = 3}>(images), images);
  differentiated(fold<8, 8, unfold_options{.window = 3}>(unfold<unfold_options{.window = 3}>(images)), images);
}

void record_products(graph& g) {
  const auto a = placeholder<float, dims<n, 4, 8>>(g, "a");
  const auto b = placeholder<float, dims<n, 8, 4>>(g, "b");
  const auto m = placeholder<double, dims<4, 4>>(g, "m");
  const auto k = placeholder<double, dims<4, 6>>(g, "k");
  const auto v = placeholder<double, dims<4>>(g, "v");
  differentiated(einsum<"bij,bjk->bik">(a, b), a, b);
  differentiated(einsum<"bij,bkj,bjl->ikl">(a, a, b), a, b);
  differentiated(einsum<"...ij->...ji">(a), a);
  differentiated(einsum<"ii->i">(m), m);
  differentiated(einsum<"ij,j,j->i">(m, v, v), m, v);
  differentiated(tensordot<1>(m, k), m, k);
  differentiated(tensordot<axis_numbers<0>, axis_numbers<1>>(m, m), m);
  differentiated(vecdot(m, m), m);
  differentiated(inner(m, m), m);
  differentiated(outer(v, v), v);
  differentiated(matvec(m, v), m, v);
  differentiated(broadcast_matmul(a, b), a, b);
}

void record_reductions(graph& g) {
  const auto all = [&]<class T>(T) {
    const auto x = placeholder<T, dims<n, 8>>(g, "x");
    const auto v = placeholder<T, dims<8, n>>(g, "v");
    const auto q = placeholder<double, dims<3>>(g, "q");
    differentiated(cumsum<1>(x, {.exclusive = true, .reverse = true}), x);
    differentiated(cumprod<1>(x), x);
    differentiated(logcumsumexp<0>(x, {.reverse = true}), x);
    const auto [largest, places] = cummax<1>(x);
    const auto [least, of_least] = cummin<0>(x);
    differentiated(largest + least + cast<T>(places + of_least), x);
    differentiated(quantile<0>(x, q), x);
    differentiated(quantile<1, quantile_method::lower>(x, 0.5), x);
    differentiated(median<1>(x), x);
    differentiated(median(x), x);
    differentiated(lower_median<1>(x), x);
    differentiated(kthvalue<1>(x, 3).values, x);
    differentiated(covariance(v), v);
    differentiated(correlation(v), v);
    differentiated(nansum<1>(x) + nanmean<1>(x) + logsumexp<1>(x) + norm<1>(x) + stddev<1>(x), x);
    differentiated(sort<1>(x) + cast<T>(argsort<1>(x)), x);
    recorded(count_nonzero<1>(x), any<0>(x > 0), weft::all<1>(x > 0), argmin<1>(x));
  };
  all(1.0f);
  all(1.0);
}

void record_indices(graph& g) {
  const auto x = placeholder<float, dims<n, 8>>(g, "x");
  const auto i = placeholder<std::int32_t, dims<dyn<"k">>>(g, "i");
  const auto rows = placeholder<float, dims<dyn<"k">, 8>>(g, "rows");
  const auto each = placeholder<std::int64_t, dims<3, 8>>(g, "each");
  const auto values = placeholder<float, dims<3, 8>>(g, "values");
  const auto vectors = placeholder<std::int32_t, dims<dyn<"k">, 1>>(g, "vectors");
  const auto splits = placeholder<std::int32_t, dims<5>>(g, "splits");
  const auto counts = placeholder<std::int32_t, dims<n>>(g, "counts");
  for (const combine how : {combine::update, combine::add, combine::mul, combine::min, combine::max}) {
    differentiated(scatter<0>(x, i, rows, how), x, rows);
    differentiated(scatter_nd(x, vectors, rows, how), x, rows);
  }
  differentiated(scatter<1>(x, placeholder<std::int32_t, dims<2>>(g, "columns"), 0.5f), x);
  differentiated(scatter_along_axis<0>(values, each, values, combine::add), values);
  differentiated(scatter_nd<dims<n, 8>>(vectors, rows), rows);
  differentiated(gather_nd(x, vectors), x);
  differentiated(gather(x, i), x);
  differentiated(gather<1>(x, i), x);
  differentiated(take_along_axis<0>(values, each), values);
  differentiated(segment_sum<4>(rows, i) + segment_mean<4>(rows, i), rows);
  differentiated(segment_prod<4>(rows, i) + segment_max<4>(rows, i) + segment_min<4>(rows, i), rows);
  differentiated(unsorted_segment_sum<dyn<"segments">>(rows, i), rows);
  recorded(placeholder<float, dims<dyn<"segments">>>(g, "segments"));
  differentiated(unsorted_segment_mean<4>(rows, i) + unsorted_segment_max<4>(rows, i), rows);
  differentiated(segment_softmax<4>(rows, i), rows);
  differentiated(ragged_sum(x, splits) + ragged_mean(x, splits) + ragged_max(x, splits) + ragged_min(x, splits), x);
  differentiated(ragged_softmax(x, splits), x);
  recorded(ragged_row_ids(x, splits), bincount<10>(i), histogram<8>(x, 0, 1), histogram<8, outliers::ignore>(x, 0, 1));
  differentiated(bincount<8>(each, values), values);
  const auto sorted = sort<0>(placeholder<float, dims<6>>(g, "boundaries"));
  recorded(searchsorted(sorted, x, side::right), bucketize(x, sorted), nonzero(x > 0).values);
  differentiated(masked_fill(x, x > 0, 1), x);
  differentiated(repeat<20>(x, counts).values, x);
  recorded(one_hot_along<0, 10>(i), one_hot_along<-1, 10>(i, true, false));
  differentiated(boolean_mask(x, counts > 0).values, x);
  recorded(unique(i).values);
  const auto kept = variable<float, dims<8, 8>>(g, "kept", init::zeros{});
  recorded(assign_slice<0>(kept, placeholder<std::int32_t, dims<>>(g, "begin"), values));
}

/// Factorizations run on the CPU; the operations of their gradients are on the GPU.
void record_linear_algebra(graph& g) {
  const auto all = [&]<class T>(T) {
    const auto a = placeholder<T, dims<n, 4, 4>>(g, "a");
    const auto b = placeholder<T, dims<n, 4, 2>>(g, "b");
    const auto tall = placeholder<T, dims<6, 4>>(g, "tall");
    const auto y = placeholder<T, dims<6, 2>>(g, "y");
    differentiated(inverse(a), a);
    differentiated(determinant(a), a);
    differentiated(std::get<1>(slogdet(a)), a);
    differentiated(solve(a, b), a, b);
    differentiated(cholesky_solve(cholesky(a), b), a, b);
    differentiated(triangular_solve(a, b, {.lower = false, .adjoint = true}), a, b);
    const auto [q, r] = qr(tall);
    differentiated(matmul(q, r), tall);
    differentiated(lstsq(tall, y), tall, y);
    const auto [u, s, vt] = svd(tall);
    differentiated(sum(u) + sum(s) + sum(vt), tall);
    differentiated(sum(svdvals(tall)) + nuclear_norm(tall) + spectral_norm(tall), tall);
    recorded(matrix_rank(tall), eigvals(a), qr<qr_mode::complete>(tall));
    differentiated(pinv(tall), tall);
    const auto [values, columns] = eigh(a);
    differentiated(expand_dims<1>(values) + columns, a);
    differentiated(eigvalsh(a), a);
    differentiated(matrix_exp(a), a);
    differentiated(matrix_power<3>(a), a);
  };
  all(1.0f);
  all(1.0);
}

void record_losses(graph& g) {
  const auto x = placeholder<float, dims<n, 8>>(g, "x"), y = placeholder<float, dims<n, 8>>(g, "y");
  const auto labels = placeholder<std::int32_t, dims<n>>(g, "labels");
  const auto classes = let(cast<std::int32_t>(y));
  const auto logits = placeholder<float, dims<n, dyn<"time">, 8>>(g, "logits");
  const auto text = placeholder<std::int32_t, dims<n, 5>>(g, "text");
  const auto pull = [&](const auto& loss) { differentiated(loss, x); };
  pull(softmax_cross_entropy(x, labels, {.label_smoothing = 0.1, .ignore_index = -1}));
  pull(softmax_cross_entropy(x, y, {.class_weights = {1, 2, 3, 4, 5, 6, 7, 8}}));
  pull(mean_softmax_cross_entropy(x, labels));
  pull(nll_loss(log_softmax(x), labels));
  pull(categorical_cross_entropy(softmax(x), y));
  pull(sigmoid_cross_entropy(x, y));
  pull(binary_cross_entropy(sigmoid(x), y));
  pull(multilabel_soft_margin_loss(x, y));
  pull(focal_loss(x, y));
  pull(hinge_loss(x, y));
  pull(multi_margin_loss(x, labels));
  pull(dice_loss<1>(sigmoid(x), y));
  recorded(in_top_k(x, labels, 3));
  pull(mse_loss(x, y) + l1_loss(x, y) + huber_loss(x, y) + smooth_l1_loss(x, y) + log_cosh_loss(x, y));
  pull(kl_div(log_softmax(x), y) + poisson_nll_loss(x, y) + gaussian_nll_loss(x, y, exp(x)));
  pull(l2_loss(x));
  pull(pairwise_distance(x, y) + cosine_similarity<1>(x, y));
  pull(cdist(x, y));
  pull(cosine_embedding_loss(x, y, cast<float>(labels)));
  pull(triplet_margin_loss(x, y, x));
  pull(margin_ranking_loss(x, y, 1) + hinge_embedding_loss(x, y) + contrastive_loss(x, y));
  pull(info_nce_loss(x, y));
  recorded(classes);
  differentiated(ctc_loss(logits, text, labels, labels), logits);
  recorded(ctc_greedy_decoder(logits, labels), ctc_beam_search_decoder<2>(logits, labels));
}

void record_images(graph& g) {
  const auto x = placeholder<float, dims<n, 8, 8, 4>>(g, "x");
  const auto grid = placeholder<float, dims<n, 5, 5, 2>>(g, "grid");
  const auto volumes = placeholder<float, dims<n, 8, 8, 8, 4>>(g, "volumes");
  const auto lines = placeholder<float, dims<n, 8, 4>>(g, "lines");
  const auto theta = placeholder<float, dims<n, 2, 3>>(g, "theta");
  const auto boxes = placeholder<float, dims<dyn<"boxes">, 4>>(g, "boxes");
  const auto scores = placeholder<float, dims<dyn<"boxes">>>(g, "scores");
  const auto of = placeholder<std::int32_t, dims<dyn<"boxes">>>(g, "of");
  const auto w3 = placeholder<float, dims<3, 3, 3, 4, 4>>(g, "w3");
  const auto w2 = placeholder<float, dims<3, 3, 4, 4>>(g, "w2");
  const auto w1 = placeholder<float, dims<3, 4, 4>>(g, "w1");
  differentiated(conv3d<conv3d_options{.stride = 2}>(volumes, w3), volumes, w3);
  differentiated(conv3d_transpose<conv3d_transpose_options{.stride = 2}>(volumes, w3), volumes, w3);
  differentiated(conv2d_transpose(x, w2), x, w2);
  differentiated(conv1d(lines, w1), lines, w1);
  differentiated(conv1d_transpose(lines, w1), lines, w1);
  differentiated(grouped_conv2d<2>(x, placeholder<float, dims<3, 3, 2, 6>>(g, "wg")), x);
  differentiated(depthwise_conv2d(x, placeholder<float, dims<3, 3, 4, 2>>(g, "wd")), x);
  differentiated(max_pool3d<2>(volumes), volumes);
  differentiated(avg_pool3d<2>(volumes), volumes);
  differentiated(adaptive_avg_pool3d<3>(volumes) + adaptive_max_pool3d<3>(volumes), volumes);
  differentiated(adaptive_avg_pool2d<3>(x) + adaptive_max_pool2d<3>(x), x);
  differentiated(adaptive_avg_pool1d<3>(lines) + adaptive_max_pool1d<3>(lines), lines);
  differentiated(max_pool1d<2>(lines) + avg_pool1d<2>(lines) + lp_pool1d<2>(lines, 3), lines);
  differentiated(lp_pool2d<2>(x, 3), x);
  const auto [values, places] = max_pool2d_with_indices<2>(x);
  differentiated(max_unpool2d<8, 8>(values, places), x);
  differentiated(grid_sample(x, grid), x, grid);
  differentiated(grid_sample<grid_sample_options{interpolation::bicubic, image_border::reflection, true}>(x, grid), x,
                 grid);
  differentiated(grid_sample<grid_sample_options{interpolation::nearest, image_border::nearest}>(x, grid), x, grid);
  differentiated(grid_sample(volumes, placeholder<float, dims<n, 2, 3, 4, 3>>(g, "grid3")), volumes);
  differentiated(affine_grid<5, 5>(theta), theta);
  differentiated(crop_to<1, 1, 4, 4>(x) + central_crop<4, 4>(x), x);
  differentiated(rot90<1>(x), x);
  differentiated(crop_and_resize<5, 5>(x, boxes, of), x, boxes);
  differentiated(roi_align<5, 5>(x, boxes, of), x, boxes);
  recorded(box_iou(boxes, boxes), non_max_suppression<10>(boxes, scores).values);
  differentiated(resize_nearest<5, 5>(x) + resize_bilinear<5, 5>(x) + resize_bicubic<5, 5>(x) + resize_area<5, 5>(x),
                 x);
  differentiated(resize_bilinear<5, 5, resize_coordinates::half_pixel, antialias::on>(x), x);
  differentiated(resize_bicubic<dyn<"h">, dyn<"w">>(x), x);
  recorded(placeholder<float, dims<dyn<"h">, dyn<"w">>>(g, "size"));
  differentiated(local_response_normalization(x), x);
  const auto photos = let(sigmoid(placeholder<float, dims<n, 16, 16, 3>>(g, "photos")));
  const auto of_photos = [&](const auto& y) { differentiated(y, photos); };
  of_photos(grayscale_to_rgb(rgb_to_grayscale(photos)));
  of_photos(hsv_to_rgb(rgb_to_hsv(photos)));
  of_photos(yuv_to_rgb(rgb_to_yuv(photos)) + yiq_to_rgb(rgb_to_yiq(photos)));
  of_photos(adjust_brightness(photos, 0.1) + adjust_contrast(photos, 2) + adjust_gamma(photos, 2));
  of_photos(adjust_saturation(photos, 2) + adjust_hue(photos, 0.1));
  of_photos(total_variation(photos));
  of_photos(sobel_edges(photos));
  of_photos(per_image_standardization(photos));
  of_photos(psnr(photos, photos * 0.5f, 1) + ssim(photos, photos * 0.5f, 1));
}

void record_draws(graph& g) {
  const auto x = placeholder<float, dims<n, 8>>(g, "x");
  const auto images = placeholder<float, dims<n, 8, 8, 3>>(g, "images");
  recorded(random_bernoulli(x), random_exponential(x), random_gamma(x), random_poisson(x), categorical(x), shuffle(x));
  recorded(sample_logits(x, {.temperature = 0.8, .top_k = 4, .top_p = 0.9}), sample_without_replacement<2>(x));
  differentiated(gumbel_softmax(x), x);
  differentiated(random_crop<4, 4>(images), images);
  differentiated(random_flip<2>(images), images);
  differentiated(spatial_dropout(images, 0.5), images);
  differentiated(alpha_dropout(x, 0.5) + dropout(x, 0.5), x);
}

/// Fourier transforms run on the CPU.
void record_signals(graph& g) {
  const auto x = placeholder<float, dims<n, 16>>(g, "x");
  const auto images = placeholder<float, dims<n, 8, 8>>(g, "images");
  const auto parts = rfft(x);
  differentiated(irfft(parts), x);
  const auto all = ifft(fft(x, x));
  differentiated(all.real + all.imag, x);
  differentiated(irfft2(rfft2(images)), images);
  constexpr stft_options options{.length = 8, .step = 4};
  differentiated(frame<options>(x), x);
  differentiated(istft<16, options>(stft<options>(x)), x);
}

/// Checks and values that are printed are for the CPU.
void record_derivatives(graph& g) {
  const auto x = placeholder<float, dims<4>>(g, "x"), v = placeholder<float, dims<4>>(g, "v");
  const auto rows = placeholder<float, dims<n, 4>>(g, "rows");
  const auto y = let(tanh(x) * x);
  recorded(vector_jacobian_product(y, v, x), jacobian_vector_product(y, x, v), hessian_vector_product(sum(y), x, v),
           jacobian(y, x), hessian(sum(y), x), batch_jacobian(let(rows * rows), rows));
  differentiated(custom_gradient([](auto a) { return floor(a); }, [](auto up, auto, auto) { return up; }, x), x);
  differentiated(checkpointed([](auto a) { return exp(tanh(a) * a); }, x), x);
  differentiated(check_numerics(x, "x is finite"), x);
  recorded(assert_that(x > 0, "x must be positive", x), print_values("x is ", x), print_through(x, "x is "));
}

#if WEFT_COMPILES_FOR_GPU
constexpr std::string_view on_cpus[] = {"assert_that",
                                        "check_numerics",
                                        "cholesky",
                                        "cofactors",
                                        "ctc_decoder",
                                        "determinant",
                                        "eigh",
                                        "eigvals",
                                        "fft",
                                        "inverse",
                                        "irfft",
                                        "matrix_exp",
                                        "matrix_rank",
                                        "non_max_suppression",
                                        "pinv",
                                        "print",
                                        "qr",
                                        "rfft",
                                        "slogdet",
                                        "solve",
                                        "svd",
                                        "svdvals",
                                        "triangular_solve"};

bool has_kernel(const node_def& c) {
  if (!c.op->prepare_cpu || (c.op->gpu && c.op->gpu->prepare && (!c.op->gpu->exists || c.op->gpu->exists(c))))
    return true;
  return std::find(std::begin(on_cpus), std::end(on_cpus), c.op->name) != std::end(on_cpus);
}
#endif

/// Checks the kernels of all operations that `record` records.
void check(void (*record)(graph&)) {
  graph g;
  record(g);
  BOOST_CHECK_GT(g.size(), 0u);
#if WEFT_COMPILES_FOR_GPU
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    const node_def& c = g[i].def;
    std::string text;
    if (c.op->expression) skeleton::print(c.op->expression(c.detail)->text, text);
    BOOST_CHECK_MESSAGE(has_kernel(c), "no kernel: " << g[i].name.c_str() << " " << c.op->name << " " << text);
  }
#endif
}

}  // namespace

BOOST_AUTO_TEST_CASE(kernels_of_elementwise) { check(record_elementwise); }
BOOST_AUTO_TEST_CASE(kernels_of_arrays) { check(record_arrays); }
BOOST_AUTO_TEST_CASE(kernels_of_products) { check(record_products); }
BOOST_AUTO_TEST_CASE(kernels_of_reductions) { check(record_reductions); }
BOOST_AUTO_TEST_CASE(kernels_of_indices) { check(record_indices); }
BOOST_AUTO_TEST_CASE(kernels_of_linear_algebra) { check(record_linear_algebra); }
BOOST_AUTO_TEST_CASE(kernels_of_losses) { check(record_losses); }
BOOST_AUTO_TEST_CASE(kernels_of_images) { check(record_images); }
BOOST_AUTO_TEST_CASE(kernels_of_draws) { check(record_draws); }
BOOST_AUTO_TEST_CASE(kernels_of_signals) { check(record_signals); }
BOOST_AUTO_TEST_CASE(kernels_of_derivatives) { check(record_derivatives); }
