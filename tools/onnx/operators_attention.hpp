// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "rules.hpp"

/// Attention, positions, and layers that keep a state between calls.
namespace tool::importer {

/// Splits the last axis of [batch, steps, heads * width] into heads: [batch, heads, steps, width].
inline std::string split_heads(const std::string& text, integers& extents, const integer& heads) {
  if (!heads.is_number() || heads.number() < 1) throw std::out_of_range("heads");
  const integers split{extents[0], extents[1], heads, floor_quotient(extents[2], heads)};
  extents = {split[0], split[2], split[1], split[3]};
  return form("transpose<0, 2, 1, 3>($)", reshape_text(split, text));
}
inline std::string join_heads(const std::string& text, integers& extents) {
  extents = {extents[0], extents[2], extents[1] * extents[3]};
  return reshape_text(extents, form("transpose<0, 2, 1, 3>($)", text));
}
/// Repeats each head of the keys and the values for the heads of the queries that read it.
inline void repeat_heads(call& c, const integer& q_heads, const integer& kv_heads, std::string& k, std::string& v) {
  if (!q_heads.is_number() || !kv_heads.is_number() || kv_heads.is(0)) c.refuse("the heads must be numbers");
  const std::int64_t group = q_heads.number() / kv_heads.number();
  if (group <= 1) return;
  c.need_header("ops/arrays/stack.hpp");
  for (std::string* const text : {&k, &v}) *text = form("repeat<1, $>($)", group, *text);
}

inline void attended(call& c) {
  c.need_rank(0, 3, 4);
  for (const std::size_t i : {1u, 2u}) c.need_rank(i, c.rank());
  for (const std::size_t i : {4u, 5u}) c.need_rank(i, 4);
  c.need_rank(3, 1, 4);
  const bool flat = c.rank() == 3, causal = c.flag("is_causal"), has_mask = c.has(3), has_past = c.has(4),
             has_lengths = c.has(6), has_scale = c.has_attribute("scale");
  const std::int64_t left = c.number("left_window_size", -1), right = c.number("right_window_size", -1),
                     mode = c.number("qk_matmul_output_mode", 0);
  const double cap = c.real("softcap", 0);
  const int type = c.operand(0).type;
  c.number("softmax_precision", 1);
  const bool native = c.out.size() < 4 && cap == 0 && right < 0 && (left < 0 || causal);
  const auto text_of = [&](std::size_t i) { return native ? operand_hole(i) : widened(c, i); };
  const auto narrow = [&](const std::string& text) { return native ? text : narrowed(type, text); };
  const auto number = [&](double x) { return literal(wide(type), x); };
  integers qs = c.operand(0).extents, ks = c.operand(1).extents, vs = c.operand(2).extents;
  std::string q = text_of(0), k = text_of(1), v = text_of(2);
  const std::int64_t q_heads = c.number("q_num_heads", 0), kv_heads = c.number("kv_num_heads", 0);
  if (flat) {
    q = split_heads(q, qs, q_heads);
    k = split_heads(k, ks, kv_heads);
    v = split_heads(v, vs, kv_heads);
  }
  const integer past = has_past ? c.extent(4, 2) : integer(0);
  if (has_past) {
    k = form("concat<2>($, $)", text_of(4), k);
    v = form("concat<2>($, $)", text_of(5), v);
    ks[2] = ks[2] + past;
    vs[2] = vs[2] + c.extent(5, 2);
  }
  if (c.out.size() > 1) {
    k = stated(c, "keys", k);
    v = stated(c, "values", v);
    also(c, 1, narrow(k), ks);
    also(c, 2, narrow(v), vs);
  }
  integers ys{qs[0], qs[1], qs[2], vs[3]};
  const bool boolean_mask = has_mask && c.operand(3).type == boolean;
  const std::string infinity = number(-INFINITY);
  std::string mask = has_mask ? text_of(3) : "";
  if (has_mask) {  // fewer keys mask the others
    const integer missing = ks[2] - c.in[3]->extents.back();
    const bool is_short = !missing.is(0) && !c.in[3]->extents.back().is(1);
    if (is_short && !boolean_mask) c.need_header("ops/arrays/pad_modes.hpp");
    if (is_short) mask = form("pad<$, 0, $>($$)", c.rank(3) - 1, missing, mask, boolean_mask ? "" : ", " + infinity);
  }
  c.to.uses_graph = true;
  if (native) {
    c.need_header("ops/products/attention.hpp");
    const std::string options =
        options_text({{"causal", if_true(causal)},
                      {"window", left >= 0 ? part(left + 1) : ""},
                      {"scale", has_scale ? digits(static_cast<float>(c.finite("scale", 0))) : ""}});
    std::string operands = options.empty() ? "" : ", {" + options + "}";
    if (has_mask) operands += form(", attention_mask($)", mask);
    if (has_lengths) operands += ", key_lengths(cast<std::int32_t>({6}))";
    if (causal || left >= 0) {
      if (has_lengths)
        operands += form(", query_position(cast<std::int32_t>({6} - $))", qs[2]);
      else if (has_past && past.is_number())
        operands += form(", query_position(constant(g, tensor<std::int32_t>($)))", past);
      else if (has_past)
        operands += ", query_position(cast<std::int32_t>(squeeze<0>(slice<0, 2, 1>(shape_of({4})))))";
      if (has_past && !has_lengths && !past.is_number()) c.need_header("ops/arrays/shape.hpp");
    }
    c.text = form("attention($, $, $$)", q, k, v, operands);
  } else {
    if (!qs[3].is_number() && !has_scale) c.refuse("the width of the heads must be a number");
    const double scale = has_scale ? c.real("scale", 1) : 1 / std::sqrt(static_cast<double>(qs[3].number()));
    repeat_heads(c, qs[1], ks[1], k, v);
    std::string scores = stated(c, "scores", form("let(matmul($, transpose<0, 1, 3, 2>($)) * $)", q, k, number(scale)));
    std::string shown = scores;
    if (cap > 0) scores = stated(c, "capped", form("let($ * tanh($ / $))", number(cap), scores, number(cap)));
    if (mode == 1) shown = scores;
    std::vector<std::string> allowed;
    if (boolean_mask) {
      allowed.push_back(mask);
    } else if (has_mask) {
      mask = stated(c, "mask", mask);
      scores = form("($ + $)", scores, mask);
      allowed.push_back(form("$ > $", mask, infinity));
    }
    if (causal || left >= 0 || right >= 0 || has_lengths) {
      const std::string key = stated(c, "key", form("range<std::int64_t, $>(g)", ks[2])),
                        lengths = reshape_text({qs[0], 1, 1, 1}, has_lengths ? form("{6} - $", qs[2]) : "");
      std::string query = reshape_text({qs[2], 1}, form("range<std::int64_t, $>(g)", qs[2]));
      if (has_lengths || has_past) query += " + " + (has_lengths ? lengths : past.text());
      query = stated(c, "query", form("let($)", query));
      if (causal) allowed.push_back(form("$ <= $", key, query));
      if (left >= 0) allowed.push_back(form("$ - $ <= $", query, key, left));
      if (right >= 0) allowed.push_back(form("$ - $ <= $", key, query, right));
      if (has_lengths) allowed.push_back(form("$ < $", key, reshape_text({qs[0], 1, 1, 1}, "{6}")));
    }
    std::string weights = form("softmax($)", scores);
    if (mode == 2 && allowed.empty()) shown = scores;
    if (!allowed.empty()) {
      for (std::string& each : allowed)
        if (allowed.size() > 1 && each.find(' ') != each.npos) each = "(" + each + ")";
      const std::string all = stated(c, "allowed", form("let($)", joined(allowed, " && ")));
      if (mode == 2) shown = form("select($, $, $)", all, scores, infinity);
      // A query without keys gets zeros.
      weights = form("select($, softmax(select($, $, $)), 0)", all, all, scores, number(-3e38));
    }
    weights = stated(c, "weights", weights);
    also(c, 3, narrow(mode == 3 ? weights : shown), {qs[0], qs[1], qs[2], ks[2]});
    c.text = form("matmul($, $)", weights, v);
  }
  if (flat) c.text = join_heads(c.text, ys);
  c.result(0, ys);
  c.text = narrow(c.text);
}

/// The angles come from caches, by position.
inline void rotated(call& c) {
  c.need_rank(0, 3, 4);
  for (const std::size_t i : {1u, 2u}) c.need_rank(i, 2, 3);
  same_extents(c);
  const int type = c.operand(0).type;
  const bool flat = c.rank() == 3, interleaved = c.flag("interleaved");
  integers xs = c.operand(0).extents;
  const std::int64_t heads = c.number("num_heads", 0), given = c.number("rotary_embedding_dim", 0);
  const std::string turned = flat ? split_heads(widened(c, 0), xs, heads) : widened(c, 0);
  const integer width = given > 0 ? integer(given) : xs[3], half = floor_quotient(width, integer(2));
  if (!half.is_number()) c.refuse("the width of the heads must be a number");
  const auto angles = [&](std::size_t i) {
    if (c.has(3)) c.need_header("ops/index/gather.hpp");
    const std::string text = c.has(3) ? form("gather<0>($, {3})", widened(c, i)) : widened(c, i);
    return reshape_text({xs[0], 1, xs[2], half}, text);
  };
  const auto part_of = [&](std::int64_t which) {
    return interleaved ? form("slice<3, $, $, 2>({turned})", which, half)
                       : slice_text(3, half * which, half, "{turned}");
  };
  c.text = c.after_statements(form("turned = $; cosine = $; sine = $; first = $; second = $; ", turned, angles(1),
                                   angles(2), part_of(0), part_of(1)));
  const std::string real = "{cosine} * {first} - {sine} * {second}", other = "{sine} * {first} + {cosine} * {second}";
  std::string y = form("concat<3>($, $)", real, other);
  if (interleaved)
    y = reshape_text({xs[0], xs[1], xs[2], width},
                     form("concat<4>(expand_dims<4>($), expand_dims<4>($))", real, other));
  if (!(width == xs[3])) y = form("concat<3>($, $)", y, slice_text(3, width, xs[3] - width, "{turned}"));
  c.text = narrowed(type, flat ? join_heads(y, xs) : y);
}

/// A loop over the steps, which carries the products of keys and values.
inline void attended_linearly(call& c) {
  for (const std::size_t i : {0u, 1u, 2u, 4u, 5u}) c.need_rank(i, 3);
  c.need_rank(3, 4);
  const int type = c.operand(0).type, state_type = c.has(3) ? c.operand(3).type : type;
  const std::int64_t q_heads = c.number("q_num_heads", 1), kv_heads = c.number("kv_num_heads", 1);
  const std::string rule_name = c.word_of("update_rule", {"gated_delta", "linear", "gated", "delta"});
  const bool gated = rule_name.starts_with("gated"), delta = rule_name.ends_with("delta");
  c.number("chunk_size", 0);
  if (q_heads < 1 || kv_heads < 1 || q_heads % kv_heads != 0) c.refuse("kv_num_heads must divide q_num_heads");
  const integer &batch = c.extent(0, 0), &steps = c.extent(0, 1), dk = floor_quotient(c.extent(0, 2), q_heads),
                dv = floor_quotient(c.extent(2, 2), kv_heads);
  if (!dk.is_number()) c.refuse("the width of the heads must be a number");
  const double asked = c.real("scale", 0), scale = asked == 0 ? 1 / std::sqrt(static_cast<double>(dk.number())) : asked;
  const integers state{batch, kv_heads, dk, dv}, ys{batch, steps, dv * q_heads};
  c.need_header("control_flow.hpp");
  c.to.uses_graph = true;
  // Steps first: [steps, batch, heads, width].
  const auto rows = [&](std::size_t i, const integer& heads) {
    const integers split{batch, steps, heads, floor_quotient(c.extent(i, 2), heads)};
    return form(", rows(transpose<1, 0, 2, 3>($))", reshape_text(split, widened(c, i)));
  };
  std::string operands = rows(0, q_heads) + rows(1, kv_heads) + rows(2, kv_heads);
  if (gated) operands += rows(4, kv_heads);
  if (delta) operands += rows(5, c.extent(5, 2).is(1) ? 1 : kv_heads);
  const std::int64_t group = q_heads / kv_heads;
  if (group > 1) c.need_header("ops/arrays/stack.hpp");
  const std::string loop = form(
      "[](auto s, auto q, auto k, auto v$$) { const auto old = $; const auto next = let(old + expand_dims<3>(k) * "
      "expand_dims<2>($)); return std::tuple(next, $ * sum<2>($ * expand_dims<3>(q))); }",
      gated ? ", auto decay" : "", delta ? ", auto beta" : "", gated ? "let(s * expand_dims<3>(exp(decay)))" : "s",
      delta ? "beta * (v - sum<2>(old * expand_dims<3>(k)))" : "v", literal(float32, scale),
      group == 1 ? "next" : form("repeat<1, $>(next)", group));
  const std::string first = c.has(3) ? widened(c, 3) : form("zeros<float, $>(g)", state);
  c.text = c.after_statements(form("state, outputs = scan($, $$); ", loop, first, operands));
  c.result(0, ys);
  also(c, 1, narrowed(state_type, c.holes["state"]), state, false, state_type);
  c.text = narrowed(type, reshape_text(ys, "transpose<1, 0, 2, 3>({outputs})"));
}

/// A depthwise convolution of [batch, channels, steps] that begins with the last steps of the call before.
inline void convolved_causally(call& c) {
  for (const std::size_t i : {0u, 1u, 3u}) c.need_rank(i, 3);
  const int type = c.operand(0).type;
  const integers& xs = c.operand(0).extents;
  const integer &window = c.extent(1, 2), before = window - integer(1);
  if (!before.is_number()) c.refuse("the window must be a number");
  const bool activated = c.word_of("activation", {"none", "silu", "swish"}) != "none";
  const std::string padded = stated(c, "padded",
                                    c.has(3) ? form("concat<2>($, $)", widened(c, 3), widened(c, 0))
                                             : form("pad<2, $, 0>($)", before, widened(c, 0)));
  c.need_header("ops/images/depthwise_conv2d.hpp");
  const std::string y = form(
      "depthwise_conv2d<conv2d_options{.pad = padding::valid}>(transpose<0, 2, 3, 1>(expand_dims<2>($)), "
      "transpose<2, 3, 0, 1>($))$",
      padded, reshape_text({xs[1], 1, 1, window}, widened(c, 1)), c.has(2) ? " + " + widened(c, 2) : "");
  c.result(0, xs);
  also(c, 1, narrowed(type, slice_text(2, xs[2], before, padded)), {xs[0], xs[1], before});
  c.text = narrowed(type, form("squeeze<2>(transpose<0, 3, 1, 2>($))", activated ? form("silu($)", y) : y));
}

inline constexpr row attention_rows[] = {
    {"Attention",
     {attended},
     "attention attention_mask key_lengths query_position softmax repeat tanh concat shape_of scan"},
    {"CausalConvWithState", {convolved_causally}, "depthwise_conv2d conv2d_options silu"},
    {"LinearAttention", {attended_linearly}, "scan rows zeros exp sum"},
    {"RotaryEmbedding", {rotated}, "gather slice concat expand_dims"},
};

}  // namespace tool::importer
