// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/cpu/non_max_suppression.hpp>
#include <weft/ops/images/window.hpp>
#include <weft/ops/index/boolean_mask.hpp>
#include <weft/ops/index/sort.hpp>

/// Boxes around objects. Not part of <weft/weft.hpp>.
namespace weft {

/// The options of non_max_suppression, with TensorFlow's default values.
struct suppression_options {
  double iou_threshold = 0.5;                      ///< a box that shares more than this with a better one is dropped
  double score_threshold = -__builtin_huge_val();  ///< boxes need a greater score
};

/// Boxes must be `[n, 4]`.
template <class Dims>
struct boxes_are_not_of_4 : mistake<(Dims::rank != 2 || Dims::spec[1] != 4)> {};

/// There must be one score for each box, and at least one index to return.
template <class Boxes, class Scores, int Max>
struct scores_do_not_fit_boxes
    : mistake<(Scores::rank != 1 || Max < 1 || (Boxes::rank > 0 && Scores::spec[0] != Boxes::spec[0]))> {};

WEFT_COLD_BEGIN

/// Inputs: boxes, their scores, and the order of descending scores. Outputs: the indices of the kept boxes, followed by
/// zeros, and their number.
template <class T>
struct non_max_suppression_op {
  static constexpr const char* name = "non_max_suppression";
  static constexpr const char* onnx = "non_max_suppression()";
  struct attributes {
    attribute<double> iou_threshold, score_threshold;
  };
  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::non_max_suppression_kernel<T>(p, a.iou_threshold, a.score_threshold);
  }
};

WEFT_COLD_END

/// Returns the area that boxes a `[n, 4]` and b `[m, 4]` share, divided by the area that they cover together, `[n, m]`
/// (torchvision.ops.box_iou). A box is two opposite corners, (y1, x1, y2, x2) or (x1, y1, x2, y2), the lower
/// coordinates first. float or double. Two boxes without area yield 0.
template <Expression A, Expression B>
[[nodiscard]] auto box_iou(const A& a, const B& b) {
  using T = value_t<A>;
  using mistaken = first_mistake<boxes_are_not_of_4<dims_t<A>>, boxes_are_not_of_4<dims_t<B>>, not_floating<T>,
                                 element_types_differ<T, value_t<B>>>;
  static_assert(correct<mistaken>, "box_iou: needs boxes [n, 4] and [m, 4], both float or both double");
  return detail::unless<mistaken>(a, b, [](const auto& x, const auto& rows) {
    const auto y = transpose<1, 0>(rows);
    const auto side = [&]<int Index>(std::integral_constant<int, Index>) {
      const auto shared = minimum(slice<1, Index + 2, 1>(x), slice<0, Index + 2, 1>(y)) -
                          maximum(slice<1, Index, 1>(x), slice<0, Index, 1>(y));
      return materialize(maximum(shared, T(0)));
    };
    const auto shared = materialize(side(std::integral_constant<int, 0>{}) * side(std::integral_constant<int, 1>{}));
    const auto of_a = materialize((slice<1, 2, 1>(x) - slice<1, 0, 1>(x)) * (slice<1, 3, 1>(x) - slice<1, 1, 1>(x)));
    const auto of_b = materialize((slice<0, 2, 1>(y) - slice<0, 0, 1>(y)) * (slice<0, 3, 1>(y) - slice<0, 1, 1>(y)));
    const auto all = materialize(of_a + of_b - shared);
    return materialize(select(all > 0, shared / select(all > 0, all, T(1)), T(0)));
  });
}

/// Returns the indices of boxes `[n, 4]` by descending scores `[n]`, without boxes that overlap a better one: at most
/// `Max` of std::int32_t (tf.image.non_max_suppression, torchvision.ops.nms): `non_max_suppression<100>(boxes, scores,
/// {.iou_threshold = 0.6})`. In a graph, the result is a bounded value (ops/bounded.hpp) of bound `Max`, from which
/// `gather(boxes, kept.values)` takes rows; over tensors, it has one element for each index. `Count` names their number
/// in the type of a fetched result. The corners of a box are any two opposite ones. Of equal scores, the first box is
/// better; a score that is NaN is never kept. Has no gradient. Runs on the CPU, even in a step on a GPU.
template <int Max, auto Count = dyn<"count">, Expression Boxes, Expression Scores>
[[nodiscard]] auto non_max_suppression(const Boxes& boxes, const Scores& scores,
                                       const suppression_options& options = {}) {
  using T = value_t<Boxes>;
  using mistaken =
      first_mistake<boxes_are_not_of_4<dims_t<Boxes>>, scores_do_not_fit_boxes<dims_t<Boxes>, dims_t<Scores>, Max>,
                    not_floating<T>, element_types_differ<T, value_t<Scores>>>;
  static_assert(
      correct<mistaken>,
      "non_max_suppression<max>: needs boxes [n, 4] and scores [n], both float or both double, and a max of at "
      "least 1");
  if constexpr (correct<mistaken>) {
    const auto b = materialize(boxes);
    const auto s = materialize(scores);
    auto [kept, count] = call_operation<non_max_suppression_op<T>>(
        std::tuple{typed_result<std::int32_t, dims<Max>>{shape(Max)}, typed_result<std::int64_t, dims<>>{shape()}},
        {options.iou_threshold, options.score_threshold}, b, s, argsort<0>(s, direction::descending));
    using result = bounded<std::remove_cvref_t<decltype(kept)>, dims<Count>>;
    if constexpr (Boxes::symbolic || Scores::symbolic)
      return result{kept, count};
    else
      return tensor<std::int32_t, dims<Count>>(shape(count.data()[0]), kept, first_elements{});
  } else {
    return detail::after_mistake<std::int32_t, dims<Max>>(boxes, scores);
  }
}

template <auto...>
auto non_max_suppression(...)
    WEFT_DELETED;  // the largest number is in brackets: non_max_suppression<100>(boxes, scores)

}  // namespace weft
