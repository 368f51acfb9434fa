// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "rules.hpp"

/// Normalizations.
namespace tool::importer {

inline std::string float_text(double x) { return digits(static_cast<float>(x)); }
inline std::string epsilon_text(call& c) { return form("{.epsilon = $}", float_text(c.finite("epsilon", 1e-5))); }

inline void batch_normalized(call& c) {
  c.need_rank(0, 2, 8);
  for (const std::size_t i : {1u, 2u, 3u, 4u}) c.need_rank(i, 1);
  same_extents(c);
  const value& x = c.operand(0);
  const integer& channels = x.extents[1];
  const double momentum = c.finite("momentum", 0.9);
  const std::string epsilon = float_text(c.finite("epsilon", 1e-5));
  const bool training = c.flag("training_mode");
  if (c.opset < 7) c.flag("is_test");
  if (c.opset < 9 && !c.flag("spatial", true)) c.refuse("spatial = 0 is not supported");
  if (c.out.size() > (training ? 3u : 1u)) c.refuse("its further results are read");
  bool constants = channels.is_number() && !x.known() && (x.type == float32 || x.type == float64);
  for (const std::size_t i : {1u, 2u, 3u, 4u}) constants &= c.operand(i).trained();
  // A model that was exported for training becomes a layer, whose mode decides.
  if (constants && (!training || c.out.size() == 1)) {
    std::vector<weight> weights;
    for (const auto& [i, name] : {std::pair(1u, "scale"), {2u, "offset"}, {3u, "moving_mean"}, {4u, "moving_variance"}})
      weights.push_back(permuted_weight(name, *c.in[i], {0}));
    c.layer(x.type == float32 ? "nn::batch_norm<>" : form("nn::batch_norm<$, double>", channels),
            form(".momentum = $, .epsilon = $", float_text(momentum), epsilon), weights, true);
    return;
  }
  c.need_header("ops/reduce/normalization.hpp");
  c.text = form("batch_normalization({0}, {3}, {4}, {1}, {2}, {.epsilon = $})", epsilon);
  if (!training) return;
  c.text = c.after_statements(
      form("mean_of, variance_of = moments<$>({0}); batch_normalization({0}, {mean_of}, {variance_of}, {1}, {2}, "
           "{.epsilon = $})",
           numbers_to(x.rank() - 1), epsilon));
  const std::string kept = literal(x.type, momentum), added = literal(x.type, 1 - momentum);
  also(c, 1, form("$ * {3} + $ * {mean_of}", kept, added), {channels});
  also(c, 2, form("$ * {4} + $ * {variance_of}", kept, added), {channels});
}

inline void layer_normalized(call& c) {
  same_extents(c);
  const value& x = c.operand(0);
  const std::size_t axis = c.axis(c.number("axis", -1), x.rank()), axes = x.rank() - axis;
  const double epsilon = c.finite("epsilon", 1e-5);
  c.number("stash_type", 1);
  if (c.out.size() > 1) {
    c.need_header("ops/reduce/normalization.hpp");
    integers rows = extents_of(x.extents, 0, axis);
    append(rows, integers(axes, 1));
    c.text = c.after_statements(
        form("mean_of, variance_of = moments<$, keep_dims>({0}); inverse = rsqrt({variance_of} + $); "
             "({0} - {mean_of}) * {inverse} * {1}",
             numbers_to(x.rank(), axis), literal(x.type, epsilon)));
    if (c.has(2)) c.text += " + {2}";
    also(c, 1, c.holes["mean_of"], rows);
    also(c, 2, c.holes["inverse"], rows);
    return;
  }
  const bool constants = c.operand(1).trained() && c.has(2) && c.in[2]->trained();
  if (constants && axes == 1 && x.type == float32 && x.rank() > 1 && c.in[1]->rank() == 1 && c.in[2]->rank() == 1) {
    c.layer("nn::layer_norm<>", ".epsilon = " + float_text(epsilon),
            {permuted_weight("scale", *c.in[1], {0}), permuted_weight("offset", *c.in[2], {0})});
    return;
  }
  for (const std::size_t i : {1u, 2u})
    if (c.has(i) && c.in[i]->extents != extents_from(x.extents, axis))
      c.refuse("the scale and the bias must have the extents of the normalized axes");
  c.need_header("ops/reduce/normalization.hpp");
  c.text = form("layer_normalization$({0}, {1}, $, {.epsilon = $})", axes == 1 ? "" : form("<$>", axes),
                c.has(2) ? "{2}" : "zeros_like({1})", float_text(epsilon));
}

inline void local_response(call& c) {
  c.need_rank(0, 2, 8);
  same_extents(c);
  const std::int64_t size = c.number("size", 1);
  if (size % 2 == 0) c.refuse("size must be odd");
  const float alpha = static_cast<float>(c.finite("alpha", 0.0001)) / static_cast<float>(size);
  c.text = form("local_response_normalization({0}, {.depth_radius = $, .bias = $, .alpha = $, .beta = $})", size / 2,
                float_text(c.finite("bias", 1)), digits(alpha), float_text(c.finite("beta", 0.75)));
}

inline void instance_normalized(call& c) {
  c.need_rank(0, 2, 8);
  same_extents(c);
  c.text = form("instance_normalization({0}, {1}, {2}, $)", epsilon_text(c));
}

inline void group_normalized(call& c) {
  c.need_rank(0, 2, 8);
  c.need_rank(1, 1);
  c.need_rank(2, 1);
  same_extents(c);
  const integer& channels = c.extent(0, 1);
  c.number("stash_type", 1);
  const integer groups(c.number("num_groups", 1)), size = floor_quotient(channels, groups);
  // Before opset 21, the parameters belong to groups.
  const auto parameter = [&](std::size_t i) {
    if (c.extent(i, 0) == channels) return operand_hole(i);
    const std::string column = reshape_text({groups, 1}, operand_hole(i));
    return reshape_text({channels}, form("broadcast_to<$>($)", integers{groups, size}, column));
  };
  c.text = form("group_normalization<$>({0}, $, $, $)", groups, parameter(1), parameter(2), epsilon_text(c));
}

inline void root_mean_square(call& c) {
  same_extents(c);
  const std::size_t rank = c.rank(), axis = c.axis(c.number("axis", -1), rank), axes = rank - axis;
  c.number("stash_type", 1);
  c.text = c.rank(1) == axes
               ? form("rms_normalization$({0}, {1}, $)", axes == 1 ? "" : form("<$>", axes), epsilon_text(c))
               : form("{0} * rsqrt(mean<$, keep_dims>(square({0})) + $) * {1}", numbers_to(rank, axis),
                      literal(c.operand(0).type, c.finite("epsilon", 1e-5)));
}

/// {axes}: those of an attribute.
inline void with_axes(call& c, const std::vector<std::int64_t>& given) {
  same_extents(c);
  std::vector<std::size_t> axes;
  for (const std::int64_t a : given) axes.push_back(c.physical_axis(0, c.axis(a, c.rank())));
  std::sort(axes.begin(), axes.end());
  c.holes["axes"] = part(axes);
}
inline void mean_variance(call& c) {
  with_axes(c, c.list("axes", {0, 2, 3}));
  c.text += literal(c.operand(0).type, 1e-9) + ")";
}
inline void norm_of_one(call& c) {
  with_axes(c, {c.number("axis", -1)});
  c.text =
      form("norm = $; select({norm} == 0, 0, {0} / {norm})",
           c.number("p", 2) == 1 ? "sum<{axes}, keep_dims>(abs({0}))" : "sqrt(sum<{axes}, keep_dims>(square({0})))");
}

inline constexpr row normalization_rows[] = {
    {"BatchNormalization", {batch_normalized, layout::channels}},
    {"GroupNormalization", {group_normalized, layout::channels}, "group_normalization", "ops/reduce/normalization.hpp"},
    {"InstanceNormalization",
     {instance_normalized, layout::channels},
     "instance_normalization",
     "ops/reduce/normalization.hpp"},
    {"LRN",
     {local_response, layout::channels},
     "local_response_normalization",
     "ops/images/local_response_normalization.hpp"},
    {"LayerNormalization", {layer_normalized}},
    {"LpNormalization", {norm_of_one, layout::kept}, "select norm"},
    {"MeanVarianceNormalization",
     {mean_variance, layout::kept},
     "centred = {0} - mean<{axes}, keep_dims>({0}); {centred} / (sqrt(mean<{axes}, keep_dims>(square({centred}))) + "},
    {"RMSNormalization", {root_mean_square}, "rms_normalization rsqrt square", "ops/reduce/normalization.hpp"},
};

}  // namespace tool::importer
