// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <type_traits>

#include <weft/ops/check.hpp>
#include <weft/ops/cpu/one_hot.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/lowering.hpp>

namespace weft {

template <class T>
struct one_hot_op {
  static constexpr const char* name = "one_hot";
  static constexpr const char* onnx = "Cast<to=type>(Equal(Unsqueeze(Cast<to=7>(a), [-1]), Range(0L, $0, 1L)))";
  struct attributes {
    attribute<std::size_t> depth;
  };

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::one_hot_kernel<T>(p, a.depth);
  }
};

/// Returns rows of zeros with a one at each label, `[..., Depth]`, or only zeros if a label is out of range
/// (tf.one_hot).
template <int Depth, class T = float, Expression Expr>
[[nodiscard]] auto one_hot(const Expr& labels) {
  using U = value_t<Expr>;
  static_assert(
      correct<element_types_differ<std::conditional_t<std::is_same_v<U, std::int64_t>, std::int32_t, U>, std::int32_t>>,
      "one_hot: labels must be std::int32_t or std::int64_t");
  static_assert(std::is_floating_point_v<T>, "one_hot: the result must be float or double");
  constexpr std::size_t rank = dims_t<Expr>::rank;
  using To = with_extent<detail::select<dims_t<Expr>, rank + 1, detail::pick_kept<0>>, rank, Depth>;
  const auto x = materialize(labels);
  shape extents = extents_of(x);
  extents.push_back(Depth);
  return call_operation<one_hot_op<T>, T, To>(extents, {Depth}, x);
}

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/one_hot.hpp>
#endif
