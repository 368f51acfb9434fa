// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <type_traits>
#include <utility>
#include <weft/control_flow.hpp>
#include <weft/graph/checkpointed.hpp>
#include <weft/graph/random.hpp>
#include <weft/ops/arrays/diagonal.hpp>
#include <weft/ops/arrays/kron.hpp>
#include <weft/ops/arrays/reverse.hpp>
#include <weft/ops/arrays/roll.hpp>
#include <weft/ops/arrays/stack.hpp>
#include <weft/ops/elementwise/activations.hpp>
#include <weft/ops/elementwise/bits.hpp>
#include <weft/ops/elementwise/clamp.hpp>
#include <weft/ops/elementwise/special.hpp>
#include <weft/ops/elementwise/trigonometry.hpp>
#include <weft/ops/images/resize.hpp>
#include <weft/ops/images/unfold.hpp>
#include <weft/ops/index/bincount.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/ops/index/scatter.hpp>
#include <weft/ops/index/segments.hpp>
#include <weft/ops/index/sort.hpp>
#include <weft/ops/index/unique.hpp>
#include <weft/ops/linear_algebra/cholesky.hpp>
#include <weft/ops/linear_algebra/lu.hpp>
#include <weft/ops/linear_algebra/matrix_functions.hpp>
#include <weft/ops/linear_algebra/qr.hpp>
#include <weft/ops/linear_algebra/triangular_solve.hpp>
#include <weft/ops/losses/losses.hpp>
#include <weft/ops/products/einsum.hpp>
#include <weft/ops/random/categorical.hpp>
#include <weft/ops/random/dropout.hpp>
#include <weft/ops/random/shuffle.hpp>
#include <weft/ops/reduce/cummax.hpp>
#include <weft/ops/reduce/cumprod.hpp>
#include <weft/ops/reduce/logcumsumexp.hpp>
#include <weft/ops/reduce/normalization.hpp>
#include <weft/ops/reduce/reductions.hpp>
#include <weft/ops/reduce/scan.hpp>
#include <weft/weft.hpp>

#include "program.hpp"

/// The blocks that programs at random are made of, in one element type and one width. make_random_program_values.py has
/// the same in PyTorch, for width 4.
namespace random_programs {

using namespace weft;

constexpr double square_root(int n) { return n == 4 ? 2 : n == 64 ? 8 : 0; }

/// A program's graph.
template <class T, int Width>
struct world {
  static constexpr int width = Width, side = static_cast<int>(square_root(Width));

  using batch = dyn_extent<"batch">;
  using M = node<T, dims<batch{}, Width>>;
  using R = node<T, dims<Width>>;
  using C = node<T, dims<batch{}, 1>>;
  using W = node<T, dims<Width, Width>>;
  using S = node<T>;
  using P = node<T, dims<batch{}, 4, 4, 2>>;
  using K = node<T, dims<3, 3, 2, 2>>;
  using L = node<std::int32_t, dims<batch{}>>;
  using B = node<bool, dims<batch{}, Width>>;
  using r = variable_node<T, dims<Width>>;
  using w = variable_node<T, dims<Width, Width>>;

  template <class N>
  static constexpr char kind() {
    return std::is_same_v<N, M>   ? 'M'
           : std::is_same_v<N, R> ? 'R'
           : std::is_same_v<N, C> ? 'C'
           : std::is_same_v<N, W> ? 'W'
           : std::is_same_v<N, S> ? 'S'
           : std::is_same_v<N, P> ? 'P'
           : std::is_same_v<N, K> ? 'K'
           : std::is_same_v<N, L> ? 'L'
           : std::is_same_v<N, B> ? 'B'
           : std::is_same_v<N, r> ? 'r'
                                  : 'w';
  }

  graph g;
  sequence<symbol> values;
  std::vector<char> kinds;
  std::vector<std::uint32_t> targets;  // run for their effect

  explicit world(const random_program& p) {
    for (const char* leaf = leaves; *leaf; ++leaf) add(*leaf, leaf_of(*leaf));
    extend(p, 0);
  }
  /// The steps from one on.
  void extend(const random_program& p, std::size_t from) {
    for (std::size_t i = from; i < p.steps.size(); ++i) {
      const block& b = blocks()[p.steps[i].block];
      add(b.result, b.build(*this, p.steps[i].operands.data()));
    }
  }

  template <class N>
  N last() const {
    for (std::size_t i = kinds.size(); i-- > 0;)
      if (accepts(kind<N>(), kinds[i])) return N(values[i]);
    return N(values[0]);
  }
  template <class N>
  N first(std::size_t skip = 0) const {
    for (std::size_t i = 0; i < kinds.size(); ++i)
      if (kinds[i] == kind<N>() && skip-- == 0) return N(values[i]);
    return N(values[0]);
  }

  S loss() {
    const auto others = let(last<S>() + mean(last<C>()) + mean(last<P>()));
    return let(mean(last<M>() * last<R>()) + mean(square(last<W>())) + 0.1 * others);
  }

  /// Extents of a leaf or variable.
  static shape extents_of_kind(char kind, std::int64_t rows) {
    switch (kind) {
      case 'M':
      case 'B':
        return shape(rows, Width);
      case 'R':
      case 'r':
        return shape(Width);
      case 'C':
        return shape(rows, 1);
      case 'W':
      case 'w':
        return shape(Width, Width);
      case 'P':
        return shape(rows, 4, 4, 2);
      case 'K':
        return shape(3, 3, 2, 2);
      case 'L':
        return shape(rows);
      default:
        return shape();
    }
  }
  /// A power of two that the numbers of a leaf are multiplied by, so that products of weights stay small.
  static double scale_of_kind(char kind) { return kind == 'W' || kind == 'w' ? 2.0 / side : 1; }

  struct block : block_description {
    symbol (*build)(world&, const std::size_t* operands);
  };
  static const std::vector<block>& blocks();
  static const blocks_known& known() {
    static const blocks_known all(blocks().begin(), blocks().end());
    return all;
  }

 private:
  void add(char kind, symbol s) {
    values.push_back(s);
    kinds.push_back(kind);
  }
  template <class N>
  symbol input() {
    return placeholder<value_t<N>, dims_t<N>>(g).erased();
  }
  symbol leaf_of(char kind) {
    switch (kind) {
      case 'M':
        return input<M>();
      case 'R':
        return input<R>();
      case 'C':
        return input<C>();
      case 'W':
        return input<W>();
      case 'S':
        return input<S>();
      case 'P':
        return input<P>();
      case 'K':
        return input<K>();
      case 'L':
        return input<L>();
      case 'B':
        return input<B>();
      case 'r':
        return new_row(*this).erased();
      default:
        return new_weights(*this).erased();
    }
  }

  // ---- the blocks: values small where their operands are, and smooth where they say so ----

  static auto squares(const M& a) { return reshape<dims<batch{}, side, side>>(a); }
  static auto flat(const Expression auto& a) { return reshape<dims<batch{}, Width>>(a); }
  static auto as_column(const Expression auto& a) { return reshape<dims<batch{}, 1>>(a); }
  static auto near_unit(world& at, const W& a) {
    tensor<T, dims<Width, Width>> unit{};
    for (int i = 0; i < Width; ++i) unit.data()[i * Width + i] = 1;
    return let(tanh(a) * (0.8 / Width) + constant(at.g, unit));
  }
  // Products are made of rounded numbers. Where a graph in double stands for one in float, their sums are in double.
  template <class H>
  static auto rounded(const Expression auto& a) {
    return let(cast<H>(a));
  }
  template <class H>
  static auto product(const M& a, const W& b) {
    if constexpr (std::is_same_v<T, double>)
      return cast<T>(rounded<H>(matmul(cast<T>(rounded<H>(a)), cast<T>(rounded<H>(b)))));
    else
      return cast<T>(matmul(cast<H>(a), cast<H>(b)));
  }

  static M mul_add(M a, M b, R c) { return let(a * b + c); }
  static M tanh_sub(M a, M b) { return let(tanh(a) - b); }
  static M sigmoid_mul(R a, M b) { return let(sigmoid(a * b)); }
  static M dense(M a, W b, R c) { return let(tanh(matmul(a, b) + c)); }
  static M matmul_half(M a, W b) { return let(matmul(a, b) * 0.5); }
  static M dense_mean(M a, M b, W c) {  // the node that follows the product needs one that is computed after it
    const auto p = matmul(a, c);
    return let(tanh(p + mean<0>(a * b)));
  }
  static M wide(M a, W b, R c) {
    const auto hidden = let(tanh(matmul(a, concat<1>(b, transpose(b), b, b)) + 0.1));
    return let(matmul<transpose_of::b>(hidden, concat<1>(b, b, transpose(b), b)) * 0.25 + c);
  }
  static M softmax_of(M a) { return softmax(a); }
  static M log_softmax_of(M a) { return let(log_softmax(a) * 0.2); }
  static M batch_normal(M a, R b, R c) { return batch_normalization_training(a, b, c, {.epsilon = 0.1}).result; }
  static M batch_normal_relu(M a, R b, R c, M d) {
    const auto y = batch_normalization_training(a, b, c, d, {.epsilon = 0.1, .relu = true});
    return let(y.result + 0.1 * tanh(y.mean - y.variance));
  }
  static M batch_normal_by(M a, R b, R c) { return let(batch_normalization(a, b, square(c), c, b, {0.1})); }
  static M layer_normal(M a, R b, R c) { return layer_normalization(a, b, c, {0.1}); }
  static M rms_normal(M a, R b) { return rms_normalization(a, b, {0.1}); }
  static M scale_shift(C a, M b, S c) { return let(a * b + c); }
  static M select_greater(M a, M b) { return let(select(a > b, a, b * 0.5)); }
  static M select_mask(B p, M a, M b) { return let(select(p, tanh(a), b)); }
  static M cast_mask(B p, M a) { return let(cast<T>(p) * 0.5 + a); }
  static M relu_add(M a, M b) { return let(relu(a) + 0.1 * b); }
  static M min_max(M a, M b, R c) { return let(minimum(a, b) + maximum(a, c)); }
  static M one_hot_add(L a, M b) { return let(one_hot<Width, T>(a) * 0.5 + b); }
  static M cumsum_of(M a) { return let(tanh(cumsum<1>(a) * 0.3)); }
  static M cumsum_exclusive(M a) { return let(tanh(cumsum<-1>(a, {.exclusive = true}) * 0.3)); }
  static M cumsum_reverse(M a) { return let(tanh(cumsum<0>(a, {.reverse = true}) * 0.1)); }
  static M cumsum_both(M a, M b) { return let(tanh(cumsum<0>(a, {.exclusive = true, .reverse = true}) * 0.1) + b); }
  static M cumprod_both(M a) { return cumprod<0>(tanh(a), {.exclusive = true, .reverse = true}); }
  static M logcumsumexp_of(M a) { return let(tanh(logcumsumexp<1>(a, {.reverse = true}) * 0.3)); }
  static M cummax_of(M a) { return cummax<1>(a).values; }
  static M sort_rows(M a) { return sort<1>(a); }
  static M sort_columns(M a) { return sort<0>(a, direction::descending); }
  static M pool_scale(M a, P b) { return let(a * mean(square(max_pool2d<2>(b)))); }
  static M divide(M a, M b) { return let(a / (1.5 + square(b))); }
  static M exp_log_sqrt(M a, M b) {
    return let(exp(tanh(a) * 0.3 - 1.0) + log(square(b) + 1.0) - sqrt(square(a) + 0.5));
  }
  static M add_constant(world& at, M a) {
    tensor<T, dims<Width>> some;
    for (int i = 0; i < Width; ++i) some.data()[i] = static_cast<T>(i % 4) / 2 - 1;
    return let(a + constant(at.g, some) * 0.25);
  }
  static M turn(M a) {
    const auto [left, right] = split<1, 2>(a);
    return concat<1>(right, left * 0.5);
  }
  static M reversed(M a, M b) { return let(reverse<0>(a) * 0.5 + reverse<-1>(b)); }
  static M stepped(M a) { return let(pad<1, 1, Width / 2 - 1>(slice<1, Width - 1, Width / 2, -2>(a)) + tanh(a)); }
  static M pad_slice(M a, M b) { return let(pad<1, 1, 2>(slice<1, 1, Width - 3>(a)) + b); }
  static M rolled(M a) { return roll<0, 1>(a, 2, -1); }
  static M batched_t(M a, M b, R c) {
    const auto products = matmul<transpose_of::a>(squares(a), squares(b)) * 0.5 + reshape<dims<side, side>>(c);
    return let(flat(tanh(products)));
  }
  static M batched(M a, W b, M c) {
    return let(flat(matmul(squares(a), slice<0, 0, side>(slice<1, 1, side>(b))) * 0.5) + c);
  }
  static M einsum_of(M a, W b, M c) { return let(tanh(einsum<"bi,ij,bj->bi">(a, b, c))); }
  static M squares_minus(M a, M b) { return let(flat(squares(a)) - mean(b)); }
  static M erf_sin(M a, M b) { return let(erf(a) + sin(b) * 0.5); }
  static M cos_mul(M a, M b) { return let(cos(a * 2.0) * b); }
  static M trigonometric(M a, M b) { return let(atan2(asinh(a), cosh(tanh(b)))); }
  static M special(M a) { return let(erfc(a) * mish(a)); }
  static M log_of_sums(M a, R b) { return let(logaddexp(hypot(a, 0.5), b)); }
  static M pow_of(M a, M b) { return let(pow(square(tanh(a)) + 0.5, tanh(b))); }
  static M softplus_of(M a, M b) { return let(softplus(a) * 0.5 - b); }
  static M activated(M a, M b) { return let(gelu(a) * 0.5 + silu(b) - softsign(a * b)); }
  static M kinked(M a, M b, R c) { return let(relu6(a + 1.0) * 0.3 - hard_swish(b) + leaky_relu(a, sigmoid(c)) * 0.5); }
  static M exponential_units(M a, M b) { return let(elu(a) * 0.5 + selu(b) * 0.3 + gelu_tanh(b) * 0.1); }
  static M clamped(M a, R b) { return let(clamp(soft_shrink(a), b, b + 1)); }
  static M independent_loss(M a, M b) { return let(sigmoid_cross_entropy(a, sigmoid(b)) * 0.5); }
  static M robust_loss(M a, M b) {
    return let(huber_loss(a, tanh(b), 0.7) * 0.5 - hinge_loss(b, cast<T>(a > 0)) * 0.1);
  }
  static M tiled(M a) {
    const auto [left, right] = unstack<1>(reshape<dims<batch{}, 2, Width / 2>>(a));
    return let(tile<1, 2>(left) * 0.5 + reshape<dims<batch{}, Width>>(stack<2>(right, tanh(left))));
  }
  static M floor_of(M a, M b) { return let(floor(a * 3.0) * 0.1 + b); }
  static M sign_abs(M a, M b) { return let(sign(a) * 0.3 + abs(b)); }
  static M stopped(M a, M b) { return let(stop_gradient(tanh(a)) * b); }
  static M gather_rows(W a, L b) { return gather(a, b); }
  static M gather_columns(world& at, M a) {
    tensor<std::int32_t, dims<Width>> columns;
    for (int i = 0; i < Width; ++i) columns.data()[i] = i * 3 / 2 % Width;
    return gather<1>(a, constant(at.g, columns));
  }
  static M taken_along(M a, M b) { return let(take_along_axis<1>(a, argsort<1>(b)) * 0.5 + tanh(a)); }
  static M gather_unique(W a, L b) {
    const auto [different, indices] = unique(b);
    return gather(tanh(gather(a, different.values)), indices);
  }
  static M conditional(S p, M a, M b) {
    return cond(p > 0.1, [](auto x, auto y) { return tanh(x) * y; }, [](auto x, auto y) { return x * 0.5 - y; }, a, b);
  }
  static M captured_branch(S p, M a, M b) {
    return cond(p > 0.1, [&] { return tanh(a) * b; }, [&] { return a * 0.5 - b; });
  }
  static M captured_loop(M a, M b) {
    return while_loop([](auto x) { return mean(square(x)) > 0.05; }, [&](auto x) { return tanh(x) * 0.7 + b * 0.05; },
                      {.max_iterations = 4}, a);
  }
  static M nested_capture(S p, M a, M b) {
    return while_loop(
        [](auto x) { return mean(square(x)) > 0.05; },
        [&](auto x) { return cond(p > 0., [&] { return tanh(x * b) * 0.5; }, [&] { return x * 0.5 + a * 0.01; }); },
        {.max_iterations = 3}, a);
  }
  static M one_of_three(S p, M a, M b) {
    return case_of(cast<std::int32_t>(p * 3.), [&] { return a; }, [&] { return a * b; }, [&] { return tanh(b); });
  }
  static M mapped(M a, M b) {
    return map([&](auto row) { return row * mean(b); }, rows(a));
  }
  static M folded(M a, M b) {
    return let(a + fold([&](auto h, auto row) { return tanh(h * mean(b) + row); }, mean<0>(a), rows(b)));
  }
  static M swap_parts(M a) {
    const auto [l, r] = split<1, 2>(a);
    return concat<1>(let(r * 2.0), let(sigmoid(l)));
  }
  static M parts_of_joined(M a, M b) {
    const auto [l, r] = split<1, 2>(concat<1>(a * b, a + b));
    return let(l - r);
  }
  static M loop(M a, M b) {
    return while_loop([](auto x, auto) { return mean(square(x)) > 0.05; },
                      [](auto x, auto y) { return tanh(x) * 0.7 + y * 0.05; }, {.max_iterations = 4}, a, invariant(b));
  }
  static M loop_dense(M a, W b) {
    const auto [i, x] = while_loop([](auto i, auto, auto) { return i < 3; },
                                   [](auto i, auto x, auto y) { return std::tuple{i + 1, tanh(matmul(x, y) * 0.7)}; },
                                   {.max_iterations = 3}, tensor<int>(0), a, invariant(b));
    return x;
  }
  static M recomputed(M a, W b) {
    return checkpointed([](auto x, auto y) { return tanh(matmul(x, y)); }, a, b);
  }
  static M dropped(M a) { return dropout(a, 0.3); }
  static M uniform_add(world& at, M a) {
    return let(a + cast<T>(random_uniform<float, dims<batch{}, Width>>(at.g, -0.5, 0.5)));
  }
  static M normal_add(world& at, M a) {
    return let(a + cast<T>(random_normal<float, dims<batch{}, Width>>(at.g, 0, 0.3)));
  }
  static M shuffled(M a) { return shuffle(a); }
  static M half_dense(M a, W b, R c) { return let(tanh(product<weft::half>(a, b) + c)); }
  static M bfloat16_dense(M a, W b, R c) { return let(tanh(product<bfloat16>(a, b) + c)); }
  static M half_stored(M a, M b) {
    const auto both = concat<0>(rounded<weft::half>(tanh(a)), rounded<weft::half>(b));
    return let(mean<0>(cast<T>(both)) * cast<T>(sort<1>(rounded<weft::half>(a))));
  }

  static M reshaped(M a, M b) {
    const auto halves = let(reshape<dims<-1, Width / 2>>(tanh(a)) * reshape<dims<batch{} * extent<2>, Width / 2>>(b));
    return flat(halves - mean<-1, keep_dims>(halves));
  }
  static M normalised(M a) {
    const auto centred = let(a - mean<-1, keep_dims>(a));
    return let(centred * rsqrt(mean<-1, keep_dims>(square(centred)) + 0.5));
  }
  static M slice_computed(M a, L b) { return let(a * 0.5 + slice<1, 1>(tanh(a), min(b))); }
  static M filled(world& at, M a) {
    const auto ramp = cast<T>(range<std::int32_t, Width>(at.g)) * (0.1 / Width);
    return let(a * ones<T, dims<batch{}, 1>>(at.g) + broadcast_to<dims<batch{}, Width>>(mean(a)) * 0.5 + ramp +
               zeros_like(a));
  }

  static R batch_moments(M a) {
    const auto [mean, variance] = moments<0>(a);
    return let(tanh(mean + variance * 0.1));
  }
  static R mean_rows(M a, M b) { return mean<0>(a * b); }
  static R last_row(M a) { return squeeze<0>(slice<0, batch{} - extent<1>, 1>(a)); }
  static R scale_row(S a, R b) { return let(a * tanh(b)); }
  static R max_rows(M a) { return max<0>(a); }
  static R min_prod(M a, R b) { return let(min<0>(a) * let(prod(tanh(b) * 0.1 + 1.0))); }
  static R mean_concat(M a, M b) { return mean<0>(concat<0>(a, b, a)); }
  static R solve_row(world& at, W a, R b) {
    return reshape<dims<Width>>(solve(near_unit(at, a), reshape<dims<Width, 1>>(b)));
  }
  static R masked_rows(M a, L b, L c) { return let(tanh(sum<0>(boolean_mask(a, b <= c)) * 0.1)); }

  static R spread(M a) { return let(stddev<0>(a) * 0.5 + tanh(variance<0>(a))); }
  static R row_norms(M a, M b) {
    return let(norm<0, norm_order::infinity>(a) * 0.3 - norm<0, norm_order::one>(b) * 0.1);
  }
  static R bins(L a) { return let(cast<T>(bincount<Width>(a)) * 0.2); }
  static R diagonal(W a) { return diag_part(a); }

  static W banded(W a, R b) { return let(band_part(a, 1, 0) + diag(tanh(b)) * 0.5); }
  static W set_diagonal(W a, R b) { return set_diag(tanh(a), b); }
  static W kron_of(R a, R b) { return kron(reshape<dims<side, side>>(a), reshape<dims<side, side>>(b)); }
  static W segment_sums(M a, L b) { return let(tanh(unsorted_segment_sum<Width>(a, b))); }
  // The gradient of an update reaches all of several rows with one index.
  static W scatter_rows(W a, L b, M c) { return let(tanh(scatter<0>(scatter<0>(a, b, c, combine::add), b, c))); }
  static W scatter_largest(W a, L b, M c) { return scatter<0>(a, b, c, combine::max); }
  static W gram(M a, M b) { return let(tanh(matmul<transpose_of::a>(a, b) * 0.2)); }
  static W scale_weights(W a, R b) { return let(a * reshape<dims<Width, 1>>(b)); }
  static W transposed(W a) { return transpose(a); }
  static W flat_tanh(W a) {
    return let((reshape<dims<Width, Width>>(tanh(reshape<dims<Width * Width>>(a))) + a) * 0.5);
  }
  static W join(W a, W b) { return concat<0>(slice<0, 0, 1>(a), slice<0, 1, Width - 1>(b)); }
  static W inverse_of(world& at, W a) { return inverse(near_unit(at, a)); }
  static W product_ww(W a, W b) { return let(matmul(a, b) * 0.5); }
  static W product_wwt(W a, W b, R c) { return let(matmul<transpose_of::b>(a, b) * 0.5 + c * 0.25); }
  static W solve_of(world& at, W a, W b) { return solve<transpose_of::a>(near_unit(at, a), b); }
  static W cholesky_of(world& at, W a) {
    const auto n = near_unit(at, a);
    return cholesky(matmul<transpose_of::b>(n, n));
  }
  static W q_of(world& at, W a) { return std::get<0>(qr(near_unit(at, a))); }
  static W triangle_of(world& at, W a, W b) { return triangular_solve(near_unit(at, a), b, {.lower = false}); }
  static W exponential_of(W a) { return matrix_exp(tanh(a) * (1.0 / Width)); }
  static W cumsum_weights(W a) { return let(tanh(cumsum<0>(a) * 0.3)); }

  static C gates(M a) {
    const auto [l, r] = split<1, 2>(tanh(a));
    return let(as_column(sum<1>(sigmoid(l) * r)) * 0.5);
  }
  static C row_mean(M a, M b) { return let(as_column(mean<1>(a * b))); }
  static C kept_sum(M a) { return let(expand_dims<-1>(squeeze<1>(sum<1, keep_dims>(a))) * (1.0 / Width)); }
  static C matvec(M a, R b) { return let(matmul(a, reshape<dims<Width, 1>>(b)) * (1.0 / side)); }
  static C dense_loss(M a, M b) { return let(as_column(softmax_cross_entropy(a, softmax(b))) * 0.3); }
  static C smoothed_loss(M a, L b) {
    return let(as_column(softmax_cross_entropy(a, b, {.label_smoothing = 0.2})) * 0.3);
  }
  static C row_logsumexp(M a) { return let(logsumexp<1, keep_dims>(a) * 0.3); }
  static C row_norm(M a) { return let(norm<1, keep_dims>(a) * 0.5); }
  static C picked(W a, L b, L c) { return let(as_column(gather_nd(tanh(a), stack<1>(b, c)))); }
  static C class_loss(M a, L b) { return let(as_column(softmax_cross_entropy(a, b)) * 0.3); }
  static C batch_taken(M a, L b) { return let(as_column(batch_gather<1>(tanh(a), b)) * 0.5); }
  static C top_mean(M a) { return let(as_column(mean<1>(top_k<2>(a).values))); }
  static C row_extremes(M a) { return let(as_column(max<1>(a) * 0.5 - min<1>(a))); }
  static C row_product(M a) { return let(as_column(prod<1>(tanh(a) * 0.1 + 1.0))); }
  static C counted(L a) {
    const auto [different, indices, counts] = unique_with_counts(a);
    return let(as_column(cast<T>(gather(counts.values, indices)) * 0.1));
  }

  static S mean_mul(M a, M b) { return let(mean(a * b)); }
  static S mean_weights(W a) { return let(mean(a) + sum(square(a)) * (0.1 / Width)); }
  static S mean_loss(M a, L b) { return let(mean(softmax_cross_entropy(a, b))); }
  static S mean_pool(P a) { return let(mean(avg_pool2d<2>(a))); }
  static S determinant_of(world& at, W a) { return let(determinant(near_unit(at, a))); }
  static S log_determinant_of(world& at, W a) { return std::get<1>(slogdet(near_unit(at, a))); }
  static S trace_of(W a) { return let(matrix_trace(a) * 0.3 + l2_loss(a) * 0.05); }
  static S masked_mean(M a, B b) { return let(sum(boolean_mask(a, b).values) * 0.01); }
  static S deviation(M a) { return let(sqrt(mean(square(a)) + 0.1)); }
  static S largest(M a) { return let(max(a) * 0.5); }

  static L sampled(M a) { return categorical(a * 0.5); }
  static L integers(world& at, L a) { return let((a + random_int<std::int32_t, dims<batch{}>>(at.g, 0, Width)) / 2); }
  static L argmax_of(M a) { return argmax<1>(a); }
  static L argmin_of(M a) { return argmin<1>(a); }
  static L second_best(M a) {
    const auto best = top_k<2>(a);
    return reshape<dims<batch{}>>(slice<1, 1, 1>(best.indices));
  }
  static L smallest_index(M a) { return reshape<dims<batch{}>>(slice<1, 0, 1>(argsort<1>(a))); }
  static L class_of(C a) { return let(cast<std::int32_t>(minimum(reshape<dims<batch{}>>(abs(a) * 2.0), 3.0))); }
  static L bits_of(L a, L b) { return let(a ^ (b >> 1)); }
  static L middle(L a, L b) { return let((a + b) / 2); }
  static L select_labels(L a, L b) { return let(select(a < b, b - a, a)); }

  static B less_of(M a, R b) { return let(a < b); }
  static B greater_equal_of(M a, M b) { return let(a >= b * 0.5); }
  static B equal_floors(M a, M b) { return let(floor(a * 2.0) == floor(b * 2.0)); }
  static B in_top(M a, L b) { return let(a > 0.1 && expand_dims<1>(in_top_k(a, b, 2))); }
  static B any_all(B a, B b) { return let((a && any<1, keep_dims>(b)) || all<0>(b)); }
  static B logic(B a, B b) { return let((a && !b) || (b != a)); }

  static P conv(P a, K b) { return let(tanh(conv2d(a, b) * 0.3)); }
  static P batch_normal_pictures(P a, R b) {
    const auto y =
        batch_normalization_training(a, slice<0, 0, 2>(b), slice<0, 1, 2>(b), {.epsilon = 0.1, .relu = true});
    return let(y.result * 0.5);
  }
  static P group_normal(P a, R b) { return group_normalization<1>(a, slice<0, 0, 2>(b), slice<0, 1, 2>(b), {0.1}); }
  static P unfolded(P a) {
    constexpr unfold_options windows{.window = 3, .pad = padding::of(1)};
    return let(tanh(fold<4, 4, windows>(unfold<windows>(a)) * 0.1));
  }
  static P resized(P a) { return let(resize_bilinear<4, 4>(avg_pool2d<2>(a)) * 0.5 + tanh(a)); }
  static P tanh_pictures(P a, P b) { return let(tanh(a) * b); }
  static P flipped(P a) { return let(reverse<1, 2>(a) * 0.5 + reverse(a)); }
  static P swapped(P a) { return transpose<0, 2, 1, 3>(a); }
  static K scale_filters(K a, S b) { return let(tanh(a) * b); }

  static R assign_row(world& at, r a, R b) {
    const auto to = assign(a, tanh(b) + 0.25);
    at.targets.push_back(to.id().node);
    return R(to.erased());
  }
  static R assign_add_row(world& at, r a, R b) {
    const auto to = assign_add(a, 0.1 * b);
    at.targets.push_back(to.id().node);
    return R(to.erased());
  }
  static W assign_weights(world& at, w a, W b) {
    const auto to = assign(a, b * 0.5);
    at.targets.push_back(to.id().node);
    return W(to.erased());
  }
  static W assign_add_weights(world& at, w a, W b) {
    at.targets.push_back(assign_add(a, tanh(b) * 0.1).id().node);
    return b;
  }
  // Their first values are set, so that they are those of other types too.
  static r new_row(world& at) {
    return variable<T, dims<Width>>(at.g, "r" + std::to_string(at.values.size()), init::zeros{});
  }
  static w new_weights(world& at) {
    return variable<T, dims<Width, Width>>(at.g, "w" + std::to_string(at.values.size()), init::zeros{});
  }

  template <auto Block>
  struct builder;
  template <class N, class... A, N (*Block)(A...)>
    requires(!std::is_same_v<A, world&> && ...)
  struct builder<Block> {
    static std::string operands() { return std::string(std::initializer_list<char>{kind<A>()...}); }
    static constexpr char result = kind<N>();
    static symbol build(world& at, const std::size_t* o) {
      return [&]<std::size_t... I>(std::index_sequence<I...>) {
        return Block(A(at.values[o[I]])...).erased();
      }(std::index_sequence_for<A...>());
    }
  };
  template <class N, class... A, N (*Block)(world&, A...)>
  struct builder<Block> {
    static std::string operands() { return std::string(std::initializer_list<char>{kind<A>()...}); }
    static constexpr char result = kind<N>();
    static symbol build(world& at, [[maybe_unused]] const std::size_t* o) {
      return [&]<std::size_t... I>(std::index_sequence<I...>) {
        return Block(at, A(at.values[o[I]])...).erased();
      }(std::index_sequence_for<A...>());
    }
  };
};

template <class T, int Width>
const std::vector<typename world<T, Width>::block>& world<T, Width>::blocks() {
#define RANDOM_BLOCK(name, flags)                                                                                   \
  block {                                                                                                           \
    {#name, builder<&world::name>::operands(), builder<&world::name>::result, flags}, &builder<&world::name>::build \
  }
  static const std::vector<block> all = {
      RANDOM_BLOCK(mul_add, smooth),
      RANDOM_BLOCK(tanh_sub, smooth),
      RANDOM_BLOCK(sigmoid_mul, smooth),
      RANDOM_BLOCK(dense, smooth),
      RANDOM_BLOCK(matmul_half, smooth),
      RANDOM_BLOCK(dense_mean, smooth),
      RANDOM_BLOCK(wide, smooth),
      RANDOM_BLOCK(softmax_of, smooth),
      RANDOM_BLOCK(log_softmax_of, smooth),
      RANDOM_BLOCK(batch_normal, smooth),
      RANDOM_BLOCK(batch_normal_relu, 0),
      RANDOM_BLOCK(batch_normal_by, smooth),
      RANDOM_BLOCK(layer_normal, smooth),
      RANDOM_BLOCK(rms_normal, smooth),
      RANDOM_BLOCK(scale_shift, smooth),
      RANDOM_BLOCK(select_greater, 0),
      RANDOM_BLOCK(select_mask, 0),
      RANDOM_BLOCK(cast_mask, 0),
      RANDOM_BLOCK(relu_add, 0),
      RANDOM_BLOCK(min_max, 0),
      RANDOM_BLOCK(one_hot_add, 0),
      RANDOM_BLOCK(cumsum_of, smooth),
      RANDOM_BLOCK(cumsum_exclusive, smooth),
      RANDOM_BLOCK(cumsum_reverse, smooth),
      RANDOM_BLOCK(cumsum_both, smooth),
      RANDOM_BLOCK(sort_rows, 0),
      RANDOM_BLOCK(sort_columns, 0),
      RANDOM_BLOCK(pool_scale, 0),
      RANDOM_BLOCK(divide, smooth),
      RANDOM_BLOCK(exp_log_sqrt, smooth),
      RANDOM_BLOCK(add_constant, smooth),
      RANDOM_BLOCK(turn, smooth),
      RANDOM_BLOCK(reversed, smooth),
      RANDOM_BLOCK(stepped, smooth),
      RANDOM_BLOCK(pad_slice, smooth),
      RANDOM_BLOCK(rolled, smooth),
      RANDOM_BLOCK(batched_t, smooth),
      RANDOM_BLOCK(batched, smooth),
      RANDOM_BLOCK(einsum_of, smooth),
      RANDOM_BLOCK(squares_minus, smooth),
      RANDOM_BLOCK(erf_sin, smooth),
      RANDOM_BLOCK(cos_mul, smooth),
      RANDOM_BLOCK(trigonometric, smooth),
      RANDOM_BLOCK(special, smooth),
      RANDOM_BLOCK(log_of_sums, smooth),
      RANDOM_BLOCK(pow_of, smooth),
      RANDOM_BLOCK(softplus_of, smooth),
      RANDOM_BLOCK(activated, 0),
      RANDOM_BLOCK(kinked, 0),
      RANDOM_BLOCK(exponential_units, 0),
      RANDOM_BLOCK(clamped, 0),
      RANDOM_BLOCK(independent_loss, smooth),
      RANDOM_BLOCK(robust_loss, 0),
      RANDOM_BLOCK(tiled, smooth),
      RANDOM_BLOCK(floor_of, 0),
      RANDOM_BLOCK(sign_abs, 0),
      RANDOM_BLOCK(stopped, stops),
      RANDOM_BLOCK(gather_rows, 0),
      RANDOM_BLOCK(gather_columns, smooth),
      RANDOM_BLOCK(taken_along, 0),
      RANDOM_BLOCK(gather_unique, 0),
      RANDOM_BLOCK(conditional, 0),
      RANDOM_BLOCK(captured_branch, 0),
      RANDOM_BLOCK(captured_loop, 0),
      RANDOM_BLOCK(nested_capture, 0),
      RANDOM_BLOCK(one_of_three, 0),
      RANDOM_BLOCK(mapped, smooth),
      RANDOM_BLOCK(folded, smooth),
      RANDOM_BLOCK(swap_parts, smooth),
      RANDOM_BLOCK(parts_of_joined, smooth),
      RANDOM_BLOCK(loop, 0),
      RANDOM_BLOCK(loop_dense, smooth),
      RANDOM_BLOCK(recomputed, smooth),
      RANDOM_BLOCK(dropped, draws),
      RANDOM_BLOCK(uniform_add, draws),
      RANDOM_BLOCK(normal_add, draws),
      RANDOM_BLOCK(shuffled, draws),
      RANDOM_BLOCK(half_dense, rounds),
      RANDOM_BLOCK(bfloat16_dense, rounds),
      RANDOM_BLOCK(half_stored, rounds),
      RANDOM_BLOCK(reshaped, smooth),
      RANDOM_BLOCK(normalised, smooth),
      RANDOM_BLOCK(slice_computed, 0),
      RANDOM_BLOCK(filled, smooth),
      RANDOM_BLOCK(batch_moments, smooth),
      RANDOM_BLOCK(mean_rows, smooth),
      RANDOM_BLOCK(last_row, smooth),
      RANDOM_BLOCK(scale_row, smooth),
      RANDOM_BLOCK(max_rows, 0),
      RANDOM_BLOCK(min_prod, 0),
      RANDOM_BLOCK(mean_concat, smooth),
      RANDOM_BLOCK(solve_row, smooth),
      RANDOM_BLOCK(masked_rows, 0),
      RANDOM_BLOCK(spread, 0),
      RANDOM_BLOCK(row_norms, 0),
      RANDOM_BLOCK(bins, 0),
      RANDOM_BLOCK(diagonal, smooth),
      RANDOM_BLOCK(banded, smooth),
      RANDOM_BLOCK(set_diagonal, smooth),
      RANDOM_BLOCK(kron_of, smooth),
      RANDOM_BLOCK(segment_sums, 0),
      RANDOM_BLOCK(gram, smooth),
      RANDOM_BLOCK(scale_weights, smooth),
      RANDOM_BLOCK(transposed, smooth),
      RANDOM_BLOCK(flat_tanh, smooth),
      RANDOM_BLOCK(join, smooth),
      RANDOM_BLOCK(inverse_of, smooth),
      RANDOM_BLOCK(product_ww, smooth),
      RANDOM_BLOCK(product_wwt, smooth),
      RANDOM_BLOCK(solve_of, smooth),
      RANDOM_BLOCK(cumsum_weights, smooth),
      RANDOM_BLOCK(gates, smooth),
      RANDOM_BLOCK(row_mean, smooth),
      RANDOM_BLOCK(kept_sum, smooth),
      RANDOM_BLOCK(matvec, smooth),
      RANDOM_BLOCK(dense_loss, smooth),
      RANDOM_BLOCK(smoothed_loss, smooth),
      RANDOM_BLOCK(row_logsumexp, smooth),
      RANDOM_BLOCK(row_norm, 0),
      RANDOM_BLOCK(picked, 0),
      RANDOM_BLOCK(class_loss, 0),
      RANDOM_BLOCK(batch_taken, 0),
      RANDOM_BLOCK(top_mean, 0),
      RANDOM_BLOCK(row_extremes, 0),
      RANDOM_BLOCK(row_product, smooth),
      RANDOM_BLOCK(counted, 0),
      RANDOM_BLOCK(mean_mul, smooth),
      RANDOM_BLOCK(mean_weights, smooth),
      RANDOM_BLOCK(mean_loss, 0),
      RANDOM_BLOCK(mean_pool, smooth),
      RANDOM_BLOCK(determinant_of, smooth),
      RANDOM_BLOCK(log_determinant_of, smooth),
      RANDOM_BLOCK(trace_of, smooth),
      RANDOM_BLOCK(masked_mean, 0),
      RANDOM_BLOCK(deviation, smooth),
      RANDOM_BLOCK(largest, 0),
      RANDOM_BLOCK(sampled, draws),
      RANDOM_BLOCK(integers, draws),
      RANDOM_BLOCK(argmax_of, 0),
      RANDOM_BLOCK(argmin_of, 0),
      RANDOM_BLOCK(second_best, 0),
      RANDOM_BLOCK(smallest_index, 0),
      RANDOM_BLOCK(class_of, 0),
      RANDOM_BLOCK(bits_of, 0),
      RANDOM_BLOCK(middle, 0),
      RANDOM_BLOCK(select_labels, 0),
      RANDOM_BLOCK(less_of, 0),
      RANDOM_BLOCK(greater_equal_of, 0),
      RANDOM_BLOCK(equal_floors, 0),
      RANDOM_BLOCK(in_top, 0),
      RANDOM_BLOCK(any_all, 0),
      RANDOM_BLOCK(logic, 0),
      RANDOM_BLOCK(conv, smooth),
      RANDOM_BLOCK(batch_normal_pictures, 0),
      RANDOM_BLOCK(group_normal, smooth),
      RANDOM_BLOCK(unfolded, smooth),
      RANDOM_BLOCK(resized, smooth),
      RANDOM_BLOCK(tanh_pictures, smooth),
      RANDOM_BLOCK(flipped, smooth),
      RANDOM_BLOCK(swapped, smooth),
      RANDOM_BLOCK(scale_filters, smooth),
      RANDOM_BLOCK(assign_row, writes),
      RANDOM_BLOCK(assign_add_row, writes),
      RANDOM_BLOCK(assign_weights, writes),
      RANDOM_BLOCK(assign_add_weights, writes),
      RANDOM_BLOCK(new_row, smooth),
      RANDOM_BLOCK(new_weights, smooth),
  };
  // Operations whose kernels take long to compile at -O2, as random_float_graphs is.
  if constexpr (Width == 4) {
    static const std::vector<block> more = [] {
      std::vector<block> list = all;
      for (const block& b : {
               RANDOM_BLOCK(cumprod_both, smooth),
               RANDOM_BLOCK(logcumsumexp_of, smooth),
               RANDOM_BLOCK(cummax_of, 0),
               RANDOM_BLOCK(cholesky_of, smooth),
               RANDOM_BLOCK(q_of, smooth),
               RANDOM_BLOCK(triangle_of, smooth),
               RANDOM_BLOCK(exponential_of, smooth),
               RANDOM_BLOCK(scatter_rows, stops),
               RANDOM_BLOCK(scatter_largest, 0),
           })
        list.push_back(b);
      return list;
    }();
    return more;
  }
#undef RANDOM_BLOCK
  return all;
}

}  // namespace random_programs
