// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <limits>

#include <weft/ops/arrays/expand_dims.hpp>
#include <weft/ops/losses/operands.hpp>
#include <weft/ops/products/matmul.hpp>

/// Distances and similarities of vectors, and losses of them. Not part of <weft/weft.hpp>.
namespace weft {
namespace detail {

constexpr bool vectors_fit(const shape& a, const shape& b, int axis) {
  const auto rank = static_cast<int>(a.rank), at = axis < 0 ? axis + rank : axis;
  return a.rank == b.rank && at >= 0 && at < rank &&
         a[static_cast<std::size_t>(at)] == b[static_cast<std::size_t>(at)] && broadcastable(a, b);
}

}  // namespace detail

/// Vectors must have equal extents along their axis; along others their extents broadcast.
template <class A, class B, int Axis>
struct vectors_differ : mistake<!detail::vectors_fit(A::spec, B::spec, Axis)> {};

/// Points must be rows of matrices with equal numbers of columns, and equal leading extents.
template <class A, class B>
struct points_differ : mistake<!detail::matmul_fits(A::spec, B::spec, transpose_of::b)> {};

/// The first mistake in pairs of vectors, if any.
template <class A, class B, int Axis = -1>
using vectors_mistake = first_mistake<vectors_differ<dims_t<A>, dims_t<B>, Axis>,
                                      element_types_differ<value_t<A>, value_t<B>>, not_floating<value_t<A>>>;

namespace detail {

/// The p-norm along an axis. The gradients at 0 are 0.
template <int Axis, class X>
auto p_norm(const X& x, double p) {
  if (p == 2) return materialize(norm<Axis>(x));
  if (p == 1) return materialize(norm<Axis, norm_order::one>(x));
  if (p == std::numeric_limits<double>::infinity()) return materialize(norm<Axis, norm_order::infinity>(x));
  if (!(p > 0))
    throw error(error_code::invalid_argument, "distance",
                {"the order of the norm must be positive; it is ", format_number("%.*g", 6, p)});
  const auto powers = materialize(sum<Axis>(weft::select(x == 0, 0, pow(weft::select(x == 0, 1, abs(x)), p))));
  return materialize(weft::select(powers == 0, 0, pow(weft::select(powers == 0, 1, powers), 1 / p)));
}

template <class X>
auto unit_rows(const X& x) {
  return materialize(x * rsqrt(maximum(sum<-1, keep_dims>(square(x)), 1e-24)));
}

}  // namespace detail

/// The options of pairwise_distance.
struct distance_options {
  double p = 2;           ///< the order of the norm, positive or infinity
  double epsilon = 1e-6;  ///< added to each difference
};

/// Returns the norm of a - b + epsilon along the last axis, which it removes (torch.nn.functional.pairwise_distance):
/// `[batch]` for vectors `[batch, n]`. Other axes broadcast. Throws invalid_argument unless p is positive.
template <Expression A, Expression B>
[[nodiscard]] auto pairwise_distance(const A& a, const B& b, distance_options options = {}) {
  static_assert(correct<vectors_mistake<A, B>>,
                "pairwise_distance: needs float or double vectors of one type and rank, equally long along their axis");
  return detail::unless<vectors_mistake<A, B>>(
      a, b, [&](const auto& x, const auto& y) { return detail::p_norm<-1>(x - y + options.epsilon, options.p); });
}

/// The options of cdist.
struct cdist_options {
  double p = 2;        ///< the order of the norm, positive or infinity
  bool exact = false;  ///< subtracts the points of each pair even if p is 2
};

/// Returns the distances between all points of a `[..., n, d]` and of b `[..., m, d]`, `[..., n, m]` (torch.cdist). For
/// p = 2 it multiplies matrices, as |a|^2 + |b|^2 - 2 a b, so distances below about 2e-3 of the points' norms, 6e-8 in
/// double, are 0; `{.exact = true}` subtracts the points, as for other p. The gradient of a distance of 0 is 0.
template <Expression A, Expression B>
[[nodiscard]] auto cdist(const A& a, const B& b, cdist_options options = {}) {
  using T = value_t<A>;
  using mistake =
      first_mistake<points_differ<dims_t<A>, dims_t<B>>, element_types_differ<T, value_t<B>>, not_floating<T>>;
  static_assert(correct<mistake>,
                "cdist: needs points [..., n, d] and [..., m, d] of float or double, with equal leading extents");
  return detail::unless<mistake>(a, b, [&](const auto& x, const auto& y) {
    if (options.p != 2 || options.exact) return detail::p_norm<-1>(expand_dims<-2>(x) - expand_dims<-3>(y), options.p);
    const auto size = materialize(expand_dims<-1>(sum<-1>(square(x))) + expand_dims<-2>(sum<-1>(square(y))));
    const auto squares = materialize(size - 2 * matmul<transpose_of::b>(x, y));
    const auto rounded = size * (16 * std::numeric_limits<T>::epsilon());
    return materialize(detail::root(select(squares <= rounded, 0, squares)));
  });
}

/// Returns the cosine of the angle between vectors along an axis, which it removes (torch.nn.functional.
/// cosine_similarity). Norms below epsilon count as epsilon. Other axes broadcast: `[n, 1, d]` and `[1, m, d]` yield
/// all pairs.
template <int Axis = -1, Expression A, Expression B>
[[nodiscard]] auto cosine_similarity(const A& a, const B& b, double epsilon = 1e-8) {
  static_assert(correct<vectors_mistake<A, B, Axis>>,
                "cosine_similarity: needs float or double vectors of one type and rank, equally long along their axis");
  return detail::unless<vectors_mistake<A, B, Axis>>(a, b, [&](const auto& x, const auto& y) {
    return sum<Axis>(x * y) / (maximum(norm<Axis>(x), epsilon) * maximum(norm<Axis>(y), epsilon));
  });
}

/// Returns 1 - cosine for pairs of vectors `[..., d]` with label 1, and max(0, cosine - margin) for those with label -1
/// (torch.nn.functional.cosine_embedding_loss). The labels have the type of the vectors.
template <Expression A, Expression B, Expression Y>
[[nodiscard]] auto cosine_embedding_loss(const A& a, const B& b, const Y& labels, double margin = 0) {
  static_assert(
      correct<vectors_mistake<A, B>>,
      "cosine_embedding_loss: needs float or double vectors of one type and rank, equally long along their axis");
  return detail::unless<vectors_mistake<A, B>>(a, b, [&](const auto& x, const auto& y) {
    const auto squares = materialize((sum<-1>(square(x)) + 1e-12) * (sum<-1>(square(y)) + 1e-12));
    const auto cosine = materialize(sum<-1>(x * y) * rsqrt(squares));
    return detail::loss_of(
        cosine, labels, [&](const auto& c, const auto& label) { return select(label > 0, 1 - c, relu(c - margin)); });
  });
}

/// The options of triplet_margin_loss.
struct triplet_options {
  double margin = 1;
  double p = 2;           ///< the order of the norm
  double epsilon = 1e-6;  ///< added to each difference
  bool swap = false;      ///< uses the distance from the positive to the negative if it is smaller than the anchor's
};

/// Returns max(0, d(anchor, positive) - d(anchor, negative) + margin) for vectors `[..., n]` (torch.nn.functional.
/// triplet_margin_loss).
template <Expression A, Expression P, Expression Elements>
[[nodiscard]] auto triplet_margin_loss(const A& anchors, const P& positives, const Elements& negatives,
                                       triplet_options options = {}) {
  const distance_options how{options.p, options.epsilon};
  const auto far = pairwise_distance(anchors, negatives, how);
  const auto farther = pairwise_distance(anchors, positives, how) + options.margin;
  return options.swap ? materialize(relu(farther - minimum(far, pairwise_distance(positives, negatives, how))))
                      : materialize(relu(farther - far));
}

/// Returns max(0, margin - y (a - b)) for scores a and b; the label y is 1 if a should be larger, and -1 otherwise
/// (torch.nn.functional.margin_ranking_loss).
template <Expression A, Operand B, Operand Y>
[[nodiscard]] auto margin_ranking_loss(const A& a, const B& b, const Y& labels, double margin = 0) {
  static_assert(correct<loss_mistake<A, B>>,
                "margin_ranking_loss: needs two operands of one type, float or double, and of equal extents");
  return detail::loss_of(a, b, [&](const auto& x, const auto& y) { return relu(margin - labels * (x - y)); });
}

/// Returns x for label 1, and max(0, margin - x) for label -1 (torch.nn.functional.hinge_embedding_loss).
template <Expression X, Expression Y>
[[nodiscard]] auto hinge_embedding_loss(const X& x, const Y& labels, double margin = 1) {
  static_assert(correct<loss_mistake<X, Y>>,
                "hinge_embedding_loss: needs two operands of one type, float or double, and of equal extents");
  return detail::loss_of(x, labels,
                         [&](const auto& d, const auto& label) { return select(label > 0, d, relu(margin - d)); });
}

/// Returns d^2 for a distance d of equals, label 1, and max(0, margin - d)^2 for label 0 (Hadsell, Chopra and LeCun,
/// CVPR 2006).
template <Expression X, Expression Y>
[[nodiscard]] auto contrastive_loss(const X& distances, const Y& labels, double margin = 1) {
  static_assert(correct<loss_mistake<X, Y>>,
                "contrastive_loss: needs two operands of one type, float or double, and of equal extents");
  return detail::loss_of(distances, labels, [&](const auto& d, const auto& label) {
    return label * square(d) + (1 - label) * square(relu(margin - d));
  });
}

/// Returns the cross-entropy of finding key i by query i among all keys, by the cosines of the vectors `[n, d]` divided
/// by the temperature (van den Oord, Li and Vinyals, 2018; SimCLR, CLIP): `[n]`.
template <Expression Ranks, Expression K>
[[nodiscard]] auto info_nce_loss(const Ranks& queries, const K& keys, double temperature = 0.1) {
  static_assert(correct<loss_mistake<Ranks, K>>,
                "info_nce_loss: needs two operands of one type, float or double, and of equal extents");
  return detail::loss_of(queries, keys, [&](const auto& x, const auto& y) {
    const auto q = detail::unit_rows(materialize(x));
    const auto k = detail::unit_rows(materialize(y));
    return materialize(logsumexp<-1>(matmul<transpose_of::b>(q, k) / temperature) - sum<-1>(q * k) / temperature);
  });
}

template <auto...>
auto cdist(...) WEFT_DELETED;  // points [n, d] and [m, d], then options: cdist(a, b, {.p = 1})
template <auto...>
auto cosine_similarity(...) WEFT_DELETED;  // the axis is a template argument: cosine_similarity<1>(a, b)
template <auto...>
auto triplet_margin_loss(...) WEFT_DELETED;  // options are named: triplet_margin_loss(a, p, n, {.margin = 0.5})

}  // namespace weft
