// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/check.hpp>
#include <weft/ops/cpu/ctc_loss.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/lowering.hpp>
#include <weft/ops/reduce/softmax.hpp>

/// The loss of connectionist temporal classification. Not part of <weft/weft.hpp>.
namespace weft {

/// The options of ctc_loss.
struct ctc_options {
  std::int64_t blank = 0;      ///< the class of a blank; -1 is the last class
  bool zero_infinity = false;  ///< makes infinite losses and their gradients 0
};

/// Outputs: the losses and, unless nothing reads it, their gradient.
template <class T>
struct ctc_loss_op {
  static constexpr const char* name = "ctc_loss";
  struct attributes {
    attribute<std::int64_t> blank;
    attribute<bool> zero_infinity;
  };

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::ctc_loss_kernel<T>(p, a.blank, a.zero_infinity);
  }
  static void gradient(gradient_context& g, const attributes&) {
    if (g.has_upstream(1))
      throw error(error_code::unimplemented, name, "has no gradient of its gradient, as in PyTorch and TensorFlow");
    g.set_gradient(0, expand_dims(g.upstream(0), {1, 2}) * g.output(1));
  }
  static bool optional(const node_def&, std::uint32_t output) { return output == 1; }
};

namespace detail {

constexpr bool is_batch(const shape& logits, const shape& other, std::size_t rank) {
  return logits.rank == 3 && other.rank == rank && other[0] == logits[0];
}

}  // namespace detail

/// Sequences are logits [batch, time, classes], and integers for each element of the batch.
template <class Logits, class Other, class T, std::size_t Rank>
struct sequences_do_not_fit : mistake<!detail::is_batch(Logits::spec, Other::spec, Rank) || !detail::are_classes<T>> {};

/// Returns -log(probability) of label sequences, summed over all alignments: `[batch]` (Graves et al., ICML 2006;
/// tf.nn.ctc_loss, torch.nn.functional.ctc_loss). Logits are `[batch, time, classes]`, float or double; softmax is
/// applied, so log-probabilities may be passed too. For time-major logits, pass `transpose<1, 0, 2>(x)`. Labels are
/// `[batch, labels]`, and both lengths `[batch]`, std::int32_t or std::int64_t; elements behind a length are ignored.
/// The loss is infinite and its gradient NaN if there are too few frames. Throws out_of_range if a length or a label is
/// invalid; on a GPU, loss and gradient are NaN. Gradients of gradients throw unimplemented.
template <Expression X, Expression Y, Expression Frames, Expression Many>
[[nodiscard]] auto ctc_loss(const X& logits, const Y& labels, const Frames& logit_lengths, const Many& label_lengths,
                            ctc_options options = {}) {
  using T = value_t<X>;
  using D = dims_t<X>;
  using mistake = first_mistake<sequences_do_not_fit<D, dims_t<Y>, value_t<Y>, 2>,
                                sequences_do_not_fit<D, dims_t<Frames>, value_t<Frames>, 1>,
                                sequences_do_not_fit<D, dims_t<Many>, value_t<Many>, 1>, not_floating<T>>;
  static_assert(correct<mistake>,
                "ctc_loss: needs logits [batch, time, classes] of float or double, labels [batch, n] and the lengths "
                "[batch] of both, std::int32_t or std::int64_t");
  if constexpr (correct<mistake>) {
    const auto x = materialize(logits);
    using rows = dims<detail::extent_at<D, 0>::value>;
    return std::get<0>(call_operation<ctc_loss_op<T>>(
        std::tuple{typed_result<T, rows>{shape(extents_of(x)[0])}, typed_result<T, D>{extents_of(x)}},
        {options.blank, options.zero_infinity}, x, materialize(cast<std::int32_t>(labels)),
        materialize(cast<std::int32_t>(logit_lengths)), materialize(cast<std::int32_t>(label_lengths))));
  } else {
    return detail::after_mistake<T, dims<>>(logits, labels, logit_lengths, label_lengths);
  }
}

template <auto...>
auto ctc_loss(...) WEFT_DELETED;  // logits, labels and the lengths of both: ctc_loss(x, y, frames, n, {.blank = -1})

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/ctc_loss.hpp>
#endif
