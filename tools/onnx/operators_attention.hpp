// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "rules.hpp"

/// Attention, positions, and layers that keep a state between calls.
namespace tool::importer {

/// Splits the last axis of [batch, steps, heads * width] into heads: [batch, heads, steps, width].
inline std::string split_heads(const std::string& text, integers from, std::int64_t heads, integers& to) {
  if (heads < 1) throw std::out_of_range("heads");
  const integer n(heads), width = floor_quotient(from[2], n);
  to = {from[0], n, from[1], width};
  return "transpose<0, 2, 1, 3>(" + reshape_text({from[0], from[1], n, width}, text) + ")";
}
inline std::string join_heads(const std::string& text, integers from, integers& to) {
  to = {from[0], from[2], from[1] * from[3]};
  return reshape_text(to, "transpose<0, 2, 1, 3>(" + text + ")");
}
/// Repeats each head of the keys and the values for the heads of the queries that read it.
inline void repeat_heads(call& c, const integer& q_heads, const integer& kv_heads, std::string& k, std::string& v) {
  if (!q_heads.is_number() || !kv_heads.is_number() || kv_heads.is(0)) c.refuse("the heads must be numbers");
  const std::int64_t group = q_heads.number() / kv_heads.number();
  if (group <= 1) return;
  c.need_header("ops/arrays/stack.hpp");
  for (std::string* const text : {&k, &v}) *text = "repeat<1, " + std::to_string(group) + ">(" + *text + ")";
}

inline void attended(call& c) {
  c.need_rank(0, 3, 4);
  for (const std::size_t i : {1u, 2u}) c.need_rank(i, c.rank());
  for (const std::size_t i : {4u, 5u}) c.need_rank(i, 4);
  c.need_rank(3, 1, 4);
  const bool flat = c.rank() == 3, causal = c.number("is_causal", 0) != 0, has_past = c.has(4), has_lengths = c.has(6);
  const std::int64_t left = c.number("left_window_size", -1), right = c.number("right_window_size", -1);
  const std::int64_t mode = c.number("qk_matmul_output_mode", 0);
  const double cap = c.real("softcap", 0);
  const int type = c.operand(0).type, wide = is_half(type) ? static_cast<int>(float32) : type;
  c.number("softmax_precision", 1);
  integers qs = c.operand(0).extents, ks = c.operand(1).extents, vs = c.operand(2).extents;
  const std::int64_t q_heads = c.number("q_num_heads", 0), kv_heads = c.number("kv_num_heads", 0);
  const bool shows_scores = c.out.size() > 3;
  const bool native = !shows_scores && cap == 0 && right < 0 && (left < 0 || causal);
  const auto text_of = [&](std::size_t i) { return native ? "{" + std::to_string(i) + "}" : widened(c, i); };
  std::string q = text_of(0), k = text_of(1), v = text_of(2);
  if (flat) {
    q = split_heads(q, qs, q_heads, qs);
    k = split_heads(k, ks, kv_heads, ks);
    v = split_heads(v, vs, kv_heads, vs);
  }
  if (has_past) {
    k = "concat<2>(" + text_of(4) + ", " + k + ")";
    v = "concat<2>(" + text_of(5) + ", " + v + ")";
    ks[2] = ks[2] + c.extent(4, 2), vs[2] = vs[2] + c.extent(5, 2);
  }
  if (c.out.size() > 1) {
    k = stated(c, "keys", k), v = stated(c, "values", v);
    also(c, 1, native ? k : narrowed(type, k), ks);
    also(c, 2, native ? v : narrowed(type, v), vs);
  }
  integers ys{qs[0], qs[1], qs[2], vs[3]}, joined_extents;
  // A mask of fewer keys masks the others.
  std::string mask = c.has(3) ? (native ? "{3}" : widened(c, 3)) : "";
  const bool boolean_mask = c.has(3) && c.operand(3).type == boolean;
  const std::string infinity =
      "-std::numeric_limits<" + std::string(wide == float64 ? "double" : "float") + ">::infinity()";
  if (c.has(3)) {
    const integers& ms = c.operand(3).extents;
    const integer missing = ks[2] - ms.back();
    if (!missing.is(0) && !ms.back().is(1)) {
      if (!boolean_mask) c.need_header("ops/arrays/pad_modes.hpp");
      mask = "pad<" + std::to_string(ms.size() - 1) + ", 0, " + missing.text() + ">(" + mask +
             (boolean_mask ? ")" : ", " + infinity + ")");
    }
  }
  const integer past = has_past ? c.extent(4, 2) : integer(0);
  c.to.uses_graph = true;
  if (native) {
    c.need_header("ops/products/attention.hpp");
    std::string options, operands;
    const auto option = [&](const std::string& text) { options += (options.empty() ? "" : ", ") + text; };
    if (causal) option(".causal = true");
    if (left >= 0) option(".window = " + std::to_string(left + 1));
    if (c.has_attribute("scale")) option(".scale = " + digits(static_cast<float>(c.finite("scale", 0))));
    if (c.has(3)) operands += ", attention_mask(" + mask + ")";
    if (has_lengths) operands += ", key_lengths(cast<std::int32_t>({6}))";
    if ((causal || left >= 0) && has_lengths)
      operands += ", query_position(cast<std::int32_t>({6} - " + qs[2].text() + "))";
    else if ((causal || left >= 0) && has_past && past.is_number())
      operands += ", query_position(constant(g, tensor<std::int32_t>(" + past.text() + ")))";
    else if ((causal || left >= 0) && has_past) {
      c.need_header("ops/arrays/shape.hpp");
      operands += ", query_position(cast<std::int32_t>(squeeze<0>(slice<0, 2, 1>(shape_of({4})))))";
    }
    std::string y =
        "attention(" + q + ", " + k + ", " + v + (options.empty() ? "" : ", {" + options + "}") + operands + ")";
    if (flat) y = join_heads(y, ys, joined_extents);
    c.result(0, flat ? joined_extents : ys);
    c.text = y;
    return;
  }
  if (!qs[3].is_number() && !c.has_attribute("scale")) c.refuse("the width of the heads must be a number");
  const double scale =
      c.has_attribute("scale") ? c.real("scale", 1) : 1 / std::sqrt(static_cast<double>(qs[3].number()));
  repeat_heads(c, qs[1], ks[1], k, v);
  std::string scores = "matmul(" + q + ", transpose<0, 1, 3, 2>(" + k + ")) * " + literal(wide, scale);
  integers ss{qs[0], qs[1], qs[2], ks[2]};
  std::string shown;
  const auto state_scores = [&](const char* name) { return stated(c, name, "let(" + scores + ")"); };
  scores = state_scores("scores");
  shown = scores;
  if (cap > 0)
    scores = literal(wide, cap) + " * tanh(" + scores + " / " + literal(wide, cap) + ")",
    scores = state_scores("capped");
  if (mode == 1) shown = scores;
  std::vector<std::string> allowed;
  if (boolean_mask) allowed.push_back(mask);
  if (c.has(3) && !boolean_mask) {
    mask = stated(c, "mask", mask);
    scores = "(" + scores + " + " + mask + ")";
    allowed.push_back(mask + " > " + infinity);
  }
  if (causal || left >= 0 || right >= 0 || has_lengths) {
    const std::string key = stated(c, "key", "range<std::int64_t, " + ks[2].text() + ">(g)");
    std::string query = reshape_text({qs[2], 1}, "range<std::int64_t, " + qs[2].text() + ">(g)");
    if (has_lengths)
      query += " + " + reshape_text({qs[0], 1, 1, 1}, "{6} - " + qs[2].text());
    else if (has_past)
      query += " + " + past.text();
    query = stated(c, "query", "let(" + query + ")");
    if (causal) allowed.push_back(key + " <= " + query);
    if (left >= 0) allowed.push_back(query + " - " + key + " <= " + std::to_string(left));
    if (right >= 0) allowed.push_back(key + " - " + query + " <= " + std::to_string(right));
    if (has_lengths) allowed.push_back(key + " < " + reshape_text({qs[0], 1, 1, 1}, "{6}"));
  }
  std::string weights;
  if (allowed.empty()) {
    if (mode == 2) shown = scores;
    weights = "softmax(" + scores + ")";
  } else {
    std::string all;
    for (const std::string& each : allowed)
      all +=
          (all.empty() ? "" : " && ") + (allowed.size() > 1 && each.find(' ') != each.npos ? "(" + each + ")" : each);
    all = stated(c, "allowed", "let(" + all + ")");
    if (mode == 2) shown = "select(" + all + ", " + scores + ", " + infinity + ")";
    // A query without keys gets zeros.
    weights = "select(" + all + ", softmax(select(" + all + ", " + scores + ", " + literal(wide, -3e38) + ")), 0)";
  }
  weights = stated(c, "weights", weights);
  if (mode == 3) shown = weights;
  also(c, 3, narrowed(type, shown), ss);
  std::string y = "matmul(" + weights + ", " + v + ")";
  if (flat) y = join_heads(y, ys, joined_extents);
  c.result(0, flat ? joined_extents : ys);
  c.text = narrowed(type, y);
}

/// Attention whose scores and probabilities pass through graphs.
inline void attended_flexibly(call& c) {
  for (const std::size_t i : {0u, 1u, 2u}) c.need_rank(i, 4);
  const int type = c.operand(0).type, wide = is_half(type) ? static_cast<int>(float32) : type;
  const integers &qs = c.operand(0).extents, &ks = c.operand(1).extents, &vs = c.operand(2).extents;
  c.number("softmax_precision", 1);
  if (!qs[3].is_number()) c.refuse("the heads must be numbers");
  const double scale =
      c.has_attribute("scale") ? c.real("scale", 1) : 1 / std::sqrt(static_cast<double>(qs[3].number()));
  std::string k = widened(c, 1), v = widened(c, 2);
  repeat_heads(c, qs[1], ks[1], k, v);
  const auto changed = [&](const char* name, const std::string& text) {
    const auto* a = c.find(name);
    if (!a || !a->g) return text;
    value x;
    x.type = wide;
    x.extents = {qs[0], qs[1], qs[2], ks[2]};
    x.text = is_name(text) ? text : stated(c, "scores", "let(" + text + ")");
    x.stated = true;
    const auto results = c.to.import_graph(*a->g, {&x});
    if (results.size() != 1) c.refuse(std::string("its graph ") + name + " must have one result");
    return c.to.text_of(*results[0]);
  };
  const std::string product =
      "matmul(" + widened(c, 0) + ", transpose<0, 1, 3, 2>(" + k + ")) * " + literal(wide, scale);
  const std::string scores = changed("score_mod", c.filled(product));
  c.result(0, {qs[0], qs[1], qs[2], vs[3]});
  c.text = narrowed(type, "matmul(" + changed("prob_mod", "softmax(" + scores + ")") + ", " + v + ")");
}

/// The angles come from caches, by position.
inline void rotated(call& c) {
  c.need_rank(0, 3, 4);
  for (const std::size_t i : {1u, 2u}) c.need_rank(i, 2, 3);
  same_extents(c);
  const int type = c.operand(0).type;
  const bool flat = c.rank() == 3, interleaved = c.number("interleaved", 0) != 0;
  integers xs = c.operand(0).extents, all;
  const std::int64_t heads = c.number("num_heads", 0);
  std::string x = widened(c, 0);
  if (flat) x = split_heads(x, xs, heads, xs);
  x = stated(c, "turned", x);
  const std::int64_t given = c.number("rotary_embedding_dim", 0);
  const integer width = given > 0 ? integer(given) : xs[3], half = floor_quotient(width, integer(2));
  if (!half.is_number()) c.refuse("the width of the heads must be a number");
  const auto angles = [&](std::size_t i, const char* name) {
    std::string text = widened(c, i);
    if (c.has(3)) {
      c.need_header("ops/index/gather.hpp");
      text = "gather<0>(" + text + ", {3})";
    }
    return stated(c, name, reshape_text({xs[0], 1, xs[2], half}, text));
  };
  const std::string cosine = angles(1, "cosine"), sine = angles(2, "sine");
  const auto part = [&](std::int64_t which) {
    const std::int64_t n = half.number();
    return interleaved ? "slice<3, " + list_text({which, n, 2}) + ">(" + x + ")"
                       : "slice<3, " + list_text({which * n, n}) + ">(" + x + ")";
  };
  const std::string a = stated(c, "first", part(0)), b = stated(c, "second", part(1));
  const std::string real = cosine + " * " + a + " - " + sine + " * " + b,
                    imaginary_part = sine + " * " + a + " + " + cosine + " * " + b;
  std::string y;
  if (interleaved)
    y = reshape_text({xs[0], xs[1], xs[2], width},
                     "concat<4>(expand_dims<4>(" + real + "), expand_dims<4>(" + imaginary_part + "))");
  else
    y = "concat<3>(" + real + ", " + imaginary_part + ")";
  if (!(width == xs[3]))
    y = "concat<3>(" + y + ", slice<3, " + width.text() + ", " + (xs[3] - width).text() + ">(" + x + "))";
  if (flat) y = join_heads(y, xs, all);
  c.text = narrowed(type, y);
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
  const integers& qs = c.operand(0).extents;
  const integers& vs = c.operand(2).extents;
  const integer steps = qs[1], dk = floor_quotient(qs[2], integer(q_heads)),
                dv = floor_quotient(vs[2], integer(kv_heads));
  if (!dk.is_number()) c.refuse("the width of the heads must be a number");
  const double asked = c.real("scale", 0), scale = asked == 0 ? 1 / std::sqrt(static_cast<double>(dk.number())) : asked;
  const integers state{qs[0], integer(kv_heads), dk, dv};
  c.need_header("control_flow.hpp");
  c.to.uses_graph = true;
  // Steps first: [steps, batch, heads, width].
  const auto rows = [&](std::size_t i, std::int64_t heads) {
    const integer n(heads);
    return ", rows(transpose<1, 0, 2, 3>(" +
           reshape_text({qs[0], steps, n, floor_quotient(c.extent(i, 2), n)}, widened(c, i)) + "))";
  };
  std::string parameters = "auto s, auto q, auto k, auto v",
              operands = rows(0, q_heads) + rows(1, kv_heads) + rows(2, kv_heads), old = "s", written = "v";
  if (gated) {
    parameters += ", auto decay";
    operands += rows(4, kv_heads);
    old = "let(s * expand_dims<3>(exp(decay)))";
  }
  if (delta) {
    parameters += ", auto beta";
    operands += rows(5, c.extent(5, 2).is(1) ? 1 : kv_heads);
    written = "beta * (v - sum<2>(old * expand_dims<3>(k)))";
  }
  if (q_heads != kv_heads) c.need_header("ops/arrays/stack.hpp");
  const std::string group = std::to_string(q_heads / kv_heads),
                    read = group == "1" ? "next" : "repeat<1, " + group + ">(next)";
  const std::string body = "[](" + parameters + ") { const auto old = " + old +
                           "; const auto next = let(old + expand_dims<3>(k) * expand_dims<2>(" + written +
                           ")); return std::tuple(next, " + literal(float32, scale) + " * sum<2>(" + read +
                           " * expand_dims<3>(q))); }";
  const std::string first = c.has(3) ? widened(c, 3) : "zeros<float, " + importer::dims_text(state) + ">(g)";
  const std::string last = c.to.name_for("state"), all = c.to.name_for("outputs");
  c.to.add_statement({{last, all}, c.filled("scan(" + body + ", " + first + operands + ")"), ""});
  c.result(0, {qs[0], steps, integer(q_heads) * dv});
  also(c, 1, narrowed(state_type, last), state, false, state_type);
  c.text = narrowed(type, reshape_text({qs[0], steps, integer(q_heads) * dv}, "transpose<1, 0, 2, 3>(" + all + ")"));
}

/// A depthwise convolution of [batch, channels, steps] that begins with the last steps of the call before.
inline void convolved_causally(call& c) {
  for (const std::size_t i : {0u, 1u, 3u}) c.need_rank(i, 3);
  const int type = c.operand(0).type;
  const integers& xs = c.operand(0).extents;
  const integer window = c.extent(1, 2), before = window - integer(1);
  if (!before.is_number()) c.refuse("the window must be a number");
  const std::string activation = c.word_of("activation", {"none", "silu", "swish"});
  std::string padded = c.has(3) ? "concat<2>(" + widened(c, 3) + ", " + widened(c, 0) + ")"
                                : "pad<2, " + before.text() + ", 0>(" + widened(c, 0) + ")";
  padded = stated(c, "padded", padded);
  c.need_header("ops/images/depthwise_conv2d.hpp");
  const integers filter{xs[1], 1, 1, window};
  std::string y = "depthwise_conv2d<conv2d_options{.pad = padding::valid}>(transpose<0, 2, 3, 1>(expand_dims<2>(" +
                  padded + ")), transpose<2, 3, 0, 1>(" + reshape_text(filter, widened(c, 1)) + "))" +
                  (c.has(2) ? " + " + widened(c, 2) : "");
  if (activation == "silu" || activation == "swish") y = "silu(" + y + ")";
  c.result(0, xs);
  also(c, 1, narrowed(type, "slice<2, " + xs[2].text() + ", " + before.text() + ">(" + padded + ")"),
       {xs[0], xs[1], before});
  c.text = narrowed(type, "squeeze<2>(transpose<0, 3, 1, 2>(" + y + "))");
}

inline constexpr row attention_rows[] = {
    {"Attention",
     {attended},
     "attention attention_mask key_lengths query_position softmax repeat tanh concat shape_of scan"},
    {"CausalConvWithState", {convolved_causally}, "depthwise_conv2d conv2d_options silu"},
    {"LinearAttention", {attended_linearly}, "scan rows zeros exp sum"},
    {"ai.onnx.preview.FlexAttention", {attended_flexibly}, "softmax matmul"},
    {"RotaryEmbedding", {rotated}, "gather slice concat expand_dims"},
};

}  // namespace tool::importer
