// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "rules.hpp"

/// Convolutions and pools.
namespace tool::importer {

using numbers = std::vector<std::int64_t>;

/// Returns the extent of a windowed result along one axis.
inline integer windows(const integer& extent, std::int64_t window, std::int64_t stride, std::int64_t dilation,
                       std::int64_t padding) {
  return floor_quotient(extent + integer(padding - (window - 1) * dilation - 1), integer(stride)) + integer(1);
}

inline bool all_are(const numbers& all, std::int64_t n) {
  return std::all_of(all.begin(), all.end(), [&](std::int64_t each) { return each == n; });
}

/// The windows of a convolution or a pool.
struct window_shape {
  numbers extents, strides, dilations, before, after;
  numbers asked;  ///< `after` without what ceil_mode adds
  integers results;
  bool same = false;  ///< padding::same

  static std::string size(const numbers& each) {
    return all_are(each, each.at(0)) ? part(each[0]) : form(each.size() == 2 ? "size2d($)" : "size3d($)", each);
  }
  bool padded() const { return !all_are(before, 0) || !all_are(after, 0); }
  std::string padding() const {
    const bool volume = extents.size() == 3;
    const std::string type = volume ? "padding3d" : "padding";
    if (same) return type + "::same";
    if (!padded()) return type + "::valid";
    if (volume && before == after)
      return form("$::of($)", type, all_are(before, before[0]) ? numbers{before[0]} : before);
    numbers each;
    if (extents.size() == 1) each = {0, 0};
    for (std::size_t i = 0; i < extents.size(); ++i) each.insert(each.end(), {before[i], after[i]});
    if (volume)
      return form("padding3d{.front = $, .back = $, .top = $, .bottom = $, .left = $, .right = $}", each[0], each[1],
                  each[2], each[3], each[4], each[5]);
    return form("$::of($)", type, extents.size() > 1 && all_are(each, each[0]) ? numbers{each[0]} : each);
  }
};

/// Refuses lists of other lengths, windows, strides and dilations below 1, other numbers below 0, and numbers above
/// 2^30.
inline void check_windows(call& c, const window_shape& w, const numbers& pads, const numbers& more) {
  const std::size_t axes = c.rank() - 2;
  const auto check = [&](const numbers& list, std::size_t length, std::int64_t least) {
    if (list.size() != length) c.refuse("the windows do not have " + std::to_string(axes) + " axes");
    for (const std::int64_t n : list)
      if (n < least || n > (1 << 30)) c.refuse("its windows, strides, dilations and pads must be positive");
  };
  for (const auto* list : {&w.extents, &w.strides, &w.dilations}) check(*list, axes, 1);
  check(pads, 2 * axes, 0);
  check(more, axes, 0);
}

inline window_shape windows_of(call& c, numbers extents) {
  c.need_rank(0, 3, 5);
  const value& x = c.operand(0);
  const std::size_t axes = x.rank() - 2;
  const numbers ones(axes, 1), none(2 * axes, 0);
  window_shape w;
  w.extents = std::move(extents);
  w.strides = c.list("strides", ones);
  w.dilations = c.list("dilations", ones);
  const std::string automatic = c.word_of("auto_pad", {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"});
  const numbers given = c.list("pads", none), &pads = automatic == "VALID" ? none : given;
  const bool ceil = c.flag("ceil_mode");
  check_windows(c, w, given, numbers(axes, 0));
  w.same = true;
  for (std::size_t i = 0; i < axes; ++i) {
    const integer& n = x.extents[2 + i];
    const std::int64_t step = w.strides[i], reach = (w.extents[i] - 1) * w.dilations[i];
    std::int64_t before = pads[i], after = pads[axes + i], more = 0;
    integer result = windows(n, w.extents[i], step, w.dilations[i], before + after);
    if (automatic.starts_with("SAME")) {
      result = floor_quotient(n + integer(step - 1), integer(step));
      if (automatic == "SAME_LOWER" && !n.is_number() && (reach % 2 != 0 || step != 1))
        c.refuse("auto_pad SAME_LOWER needs static extents");
      const std::int64_t all =
          n.is_number() ? std::max<std::int64_t>(0, (result.number() - 1) * step + reach + 1 - n.number()) : 0;
      before = automatic == "SAME_UPPER" ? all / 2 : all - all / 2;
      after = all - before;
      w.same &= automatic == "SAME_UPPER" || before == after;
    } else {
      if (ceil && step > 1) {
        if (!n.is_number()) c.refuse("ceil_mode needs static extents");
        const std::int64_t room = n.number() + before + after - reach - 1;
        std::int64_t count = (room + step - 1) / step + 1;
        if ((count - 1) * step >= n.number() + before) --count;  // windows begin in the image
        more = std::max<std::int64_t>(0, (count - 1) * step - room);
        result = count;
      }
      w.same &= step == 1 && before == after + more && 2 * before == reach;
    }
    w.before.push_back(before);
    w.asked.push_back(after);
    w.after.push_back(after + more);
    w.results.push_back(result);
  }
  return w;
}

/// Returns [batch, channels, ...].
inline integers image_extents(const integer& batch, const integer& channels, const integers& spatial) {
  integers extents{batch, channels};
  append(extents, spatial);
  return extents;
}

/// Returns the text of operand i with other axes: a constant that is stored so, or a transpose. Its elements are seen
/// with the extents `view`.
inline std::string turned(call& c, std::size_t i, const integers& view, const std::vector<int>& order) {
  if (value* const v = c.to.permuted_constant(*c.in[i], view, order)) {
    c.in[i] = v;
    return operand_hole(i);
  }
  const std::string text = operand_hole(i);
  return form("transpose<$>($)", order, view == c.in[i]->extents ? text : reshape_text(view, text));
}

/// The parts that Conv and ConvTranspose have in common.
struct convolution_parts {
  std::size_t axes;  ///< of the images
  std::int64_t groups;
  numbers kernel;          ///< the extents of the windows
  std::vector<int> order;  ///< of the filters' axes: [a, b, height, width] becomes [height, width, b, a]
  bool is_layer;           ///< filters and bias are parameters of the model
};
inline convolution_parts parts_of_convolution(call& c) {
  const value &x = c.operand(0), &filters = c.operand(1);
  if (x.rank() < 3 || x.rank() > 5 || filters.rank() != x.rank()) c.refuse("images must have 1 to 3 spatial axes");
  convolution_parts p{x.rank() - 2, c.number("group", 1), {}, std::vector<int>(x.rank()), false};
  if (p.groups < 1 || p.groups > (1 << 20)) c.refuse("group must be from 1 to 2^20");
  const integers spatial = extents_from(filters.extents, 2);
  if (!all_numbers(spatial)) c.refuse("the extents of the windows must be numbers");
  p.kernel = numbers_of(spatial);
  if (c.list("kernel_shape", p.kernel) != p.kernel) c.refuse("kernel_shape differs from the extents of the filters");
  std::iota(p.order.begin(), p.order.end() - 2, 2);
  p.order[p.axes] = 1;
  p.order[p.axes + 1] = 0;
  p.is_layer =
      filters.trained() && !filters.shared && (!c.has(2) || c.in[2]->trained()) && !x.known() && x.type == float32;
  return p;
}

/// Makes the text a layer, `nn::conv2d<...>`, with these weights and operand 2, the bias. `full`: its arguments with
/// options that are the defaults.
inline void convolution_layer(call& c, const std::string& name, const std::string& arguments, const weight& filters,
                              const std::string& full = "") {
  std::vector<weight> weights{filters};
  if (c.has(2)) weights.push_back(permuted_weight("bias", *c.in[2], {0}));
  if (name != "conv2d") c.need_header("nn/" + name + ".hpp");
  const std::string layer = c.layer(form("nn::$<$>", name, arguments), c.has(2) ? "" : ".use_bias = false", weights);
  if (!full.empty()) c.to.find_member(layer).full = form("nn::$<$>", name, full);
}

/// Returns the text of a convolution of each group of channels and its filters. `filters`: the first extent of a
/// group's.
inline std::string by_groups(call& c, std::int64_t groups, const integer& filters, const std::string& convolution,
                             const std::vector<int>& order) {
  if (groups == 1) return form("$({0}, $)", convolution, turned(c, 1, c.in[1]->extents, order));
  if (groups > 64) c.refuse("more than 64 groups are not supported");
  const std::string x = named(c, 0), by = named(c, 1, "filters");
  const integer channels = floor_quotient(c.extent(0, 1), integer(groups));
  std::vector<std::string> parts;
  for (std::int64_t g = 0; g < groups; ++g)
    parts.push_back(form("$($, transpose<$>($))", convolution,
                         slice_text(c.rank() - 1, channels * integer(g), channels, x), order,
                         slice_text(0, filters * integer(g), filters, by)));
  return form("concat<$>($)", c.rank() - 1, joined(parts));
}

/// Sequences as images of one row.
inline void convolved_groups_of_sequences(call& c, window_shape w, std::int64_t groups) {
  const value &x = c.operand(0), &filters = c.operand(1);
  for (auto* each : {&w.extents, &w.strides, &w.dilations}) each->insert(each->begin(), 1);
  for (auto* each : {&w.before, &w.after}) each->insert(each->begin(), 0);
  w.same = false;
  const bool depthwise = x.extents[1].is(groups) && filters.extents[1].is(1) && filters.extents[0].is_number();
  const std::string name = depthwise ? "depthwise_conv2d" : "grouped_conv2d",
                    options = form("conv2d_options{.stride = $, .pad = $, .dilation = $}", w.size(w.strides),
                                   w.padding(), w.size(w.dilations)),
                    arguments = depthwise ? options : form("$, $", groups, options);
  const integers split{integer(groups), floor_quotient(filters.extents[0], integer(groups)), filters.extents[2]};
  const std::string filter = depthwise ? form("transpose<2, 0, 1>($)", reshape_text(split, widened(c, 1)))
                                       : form("transpose<2, 1, 0>($)", widened(c, 1));
  c.need_header("ops/images/" + name + ".hpp");
  c.text = narrowed(x.type, form("squeeze<1>($<$>(expand_dims<1>($), expand_dims<0>($)))$", name, arguments,
                                 widened(c, 0), filter, c.has(2) ? " + " + widened(c, 2) : ""));
}

inline void convolved(call& c) {
  const auto [axes, groups, kernel, order, is_layer] = parts_of_convolution(c);
  const value &x = c.operand(0), &filters = c.operand(1);
  const integer count = filters.extents[0], channels = filters.extents[1] * integer(groups);
  if (!(channels == x.extents[1]))
    c.refuse("the filters read " + channels.text(true) + " channels, but the images have " + x.extents[1].text(true));
  const window_shape w = windows_of(c, kernel);
  c.result(0, image_extents(x.extents[0], count, w.results), true);
  if (groups > 1 && axes == 1) return convolved_groups_of_sequences(c, w, groups);

  const std::string rank = std::to_string(axes) + "d";
  const bool depthwise = axes == 2 && groups > 1 && channels.is(groups) && count.is_number();
  const std::string name = depthwise ? "depthwise_conv2d" : groups > 1 && axes == 2 ? "grouped_conv2d" : "conv" + rank;
  std::string options = options_text({{"stride", w.size(w.strides), "1"},
                                      {"pad", w.padding(), axes == 3 ? "padding3d::same" : "padding::same"},
                                      {"dilation", w.size(w.dilations), "1"}});
  if (!options.empty()) options = form("conv$_options{$}", rank, options);
  if (name != "conv2d") c.need_header((axes != 2 ? "ops/images/conv" + rank : "ops/images/" + name) + ".hpp");
  const std::string bias = c.has(2) ? " + {2}" : "";
  if (groups > 1 && axes == 3) {
    c.text = by_groups(c, groups, floor_quotient(count, integer(groups)), form("conv3d<$>", options), order) + bias;
    return;
  }
  const integer each = depthwise ? integer(count.number() / groups) : count;
  const integers view = depthwise ? integers{groups, each, kernel[0], kernel[1]} : filters.extents;
  const std::vector<int> turns = depthwise ? std::vector{2, 3, 0, 1} : order;
  std::vector<std::string> arguments;
  if (is_layer) arguments = {w.size(kernel), each.text()};
  if (is_layer && depthwise && each.is(1) && options.empty()) arguments.pop_back();
  if (groups > 1 && !depthwise) arguments.push_back(part(groups));
  std::string full;
  bool is_known = axes == 2;
  for (std::size_t i = 0; i < axes; ++i)
    is_known &= !w.same || x.extents[2 + i].is_number() || w.before[i] + w.after[i] == (kernel[i] - 1) * w.dilations[i];
  if (is_known) {
    window_shape shown = w;
    shown.same = false;
    full = form("$, $, $conv2d_options{.stride = $, .pad = $$}", w.size(kernel), each.text(),
                groups > 1 && !depthwise ? part(groups) + ", " : "", w.size(w.strides),
                w.padded() ? shown.padding() : "padding::of(0)",
                all_are(w.dilations, 1) ? "" : ", .dilation = " + w.size(w.dilations));
  }
  if (!options.empty()) arguments.push_back(options);
  if (is_layer)
    return convolution_layer(c, name, joined(arguments), permuted_weight("weights", filters, turns, numbers_of(view)),
                             full);
  c.text = form("$$({0}, $)$", name, arguments.empty() ? "" : "<" + joined(arguments) + ">", turned(c, 1, view, turns),
                bias);
}

/// The filters of a transposed convolution are [in, out, ...].
inline void convolved_back(call& c) {
  const auto [axes, groups, kernel, order, is_layer] = parts_of_convolution(c);
  const numbers ones(axes, 1), none(axes, 0);
  const value &x = c.operand(0), &filters = c.operand(1);
  if (!(filters.extents[0] == x.extents[1])) c.refuse("the filters and the images have different numbers of channels");
  window_shape w;
  w.extents = kernel;
  w.strides = c.list("strides", ones);
  w.dilations = c.list("dilations", ones);
  const numbers pads = c.list("pads", numbers(2 * axes, 0)), wanted = c.list("output_shape", {});
  numbers more = c.list("output_padding", none), zeros = none;
  const std::string automatic = c.word_of("auto_pad", {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"});
  check_windows(c, w, pads, more);
  if (!wanted.empty() && wanted.size() < axes) c.refuse("output_shape has too few numbers");
  integers extents{x.extents[0], filters.extents[1] * integer(groups)};
  for (std::size_t i = 0; i < axes; ++i) {
    const std::int64_t step = w.strides[i], reach = (kernel[i] - 1) * w.dilations[i] + 1;
    const integer whole = (x.extents[i + 2] - integer(1)) * integer(step) + integer(more[i] + reach);
    std::int64_t before = pads[i], after = pads[axes + i];
    if (!wanted.empty() || automatic.starts_with("SAME")) {
      const integer all =
          whole - (wanted.empty() ? x.extents[i + 2] * integer(step) : integer(wanted[wanted.size() - axes + i]));
      if (!all.is_number()) c.refuse("output_shape needs static extents");
      before = all.number() < 0 ? 0 : automatic == "SAME_UPPER" ? all.number() / 2 : all.number() - all.number() / 2;
      after = all.number() - before;
    }
    if (automatic == "VALID") before = after = 0;
    extents.push_back(whole - integer(before + after));
    // The end of the result that no window reaches is zero.
    const std::int64_t reached = std::max<std::int64_t>(0, after - more[i]);
    zeros[i] = reached - (after - more[i]);
    more[i] = 0;
    if (before < 0) c.refuse("its padding in front is negative");
    w.before.push_back(before);
    w.after.push_back(reached);
    if (zeros[i] > 0 && zeros[i] < step) std::swap(more[i], zeros[i]);
  }
  c.result(0, extents, true);
  const std::string name = form("conv$d_transpose", axes);
  const std::string options = form("$_options{$}", name,
                                   options_text({{"stride", w.size(w.strides), "1"},
                                                 {"pad", w.padding()},
                                                 {"output_padding", w.size(more), "0"},
                                                 {"dilation", w.size(w.dilations), "1"}}));
  c.need_header("ops/images/" + (axes == 3 ? "conv3d" : name) + ".hpp");
  if (is_layer && zeros == none && groups == 1 && axes < 3)
    return convolution_layer(c, name, form("$, $, $", w.size(kernel), filters.extents[1], options),
                             permuted_weight("weights", filters, order));
  c.text = by_groups(c, groups, floor_quotient(x.extents[1], integer(groups)), form("$<$>", name, options), order);
  for (std::size_t i = 0; i < axes; ++i)
    if (zeros[i] > 0) c.text = form("pad<$, 0, $>($)", i + 1, zeros[i], c.text);
  if (c.has(2)) c.text += " + {2}";
}

/// A pool as strided slices, along one axis after the other: of integers, with dilations, or with windows that count
/// their borders in part. `element`: the text of an element's part in the result, with `{0}`.
inline void pool_by_slices(call& c, const window_shape& w, bool maxima, bool average, bool count,
                           const std::string& element) {
  const value& x = c.operand(0);
  const int type = wide(x.type);
  const std::string border = maxima ? ", " + literal(type, is_float(type) ? -INFINITY : type == int8 ? -128 : 0) : "";
  c.text = element;
  std::vector<std::string> divisors;
  double divisor = 1;
  for (std::size_t i = 0; i < w.extents.size(); ++i) {
    const std::size_t axis = i + 1;
    const integer& extent = x.extents[i + 2];
    if (!extent.is_number()) c.refuse("such windows need static extents");
    const std::int64_t n = extent.number(), m = w.results[i].number(), k = w.extents[i], step = w.strides[i],
                       d = w.dilations[i];
    if (k > 64 && !maxima) c.refuse("such windows must have at most 64 elements per axis");
    const std::int64_t after = std::max<std::int64_t>(0, (m - 1) * step + (k - 1) * d + 1 - n - w.before[i]);
    if (w.before[i] > 0 || after > 0) {
      if (maxima) c.need_header("ops/arrays/pad_modes.hpp");
      c.text = form("pad<$, $, $>($$)", axis, w.before[i], after, c.text, border);
    }
    std::string from = stated(c, "padded", c.text);
    const auto every = [&](std::int64_t begin) {
      return step > 1 ? form("slice<$, $, $, $>($)", axis, begin, m, step, from) : slice_text(axis, begin, m, from);
    };
    std::int64_t reached = 1, length = n + w.before[i] + after;
    while (maxima && k > 8 && reached < k) {  // windows of 2, 4, 8... elements, and then of all
      const std::int64_t by = std::min(reached, k - reached);
      length -= by * d;
      from = stated(c, "largest",
                    form("maximum($, $)", slice_text(axis, 0, length, from), slice_text(axis, by * d, length, from)));
      reached += by;
    }
    c.text = every(0);
    for (std::int64_t j = reached; j < k; ++j) c.text = form(maxima ? "maximum($, $)" : "$ + $", c.text, every(j * d));
    c.text = stated(c, maxima ? "largest" : "sums", c.text);
    std::vector<double> counts;
    for (std::int64_t o = 0; o < m; ++o) {
      counts.push_back(0);
      for (std::int64_t at = o * step - w.before[i], j = 0; j < k; ++j, at += d)
        counts.back() += count ? at < n + w.asked[i] : at >= 0 && at < n;
    }
    if (std::equal(counts.begin() + (m > 0), counts.end(), counts.begin()))
      divisor *= m > 0 ? counts[0] : 1;
    else if (average)
      divisors.push_back(
          constant_text(c, "counts", numbers_of(with_extent(integers(x.rank(), 1), axis, m)), counts, type));
  }
  if (divisor != 1) divisors.push_back(literal(type, divisor));
  for (const std::string& each : divisors)
    if (average) c.text += " / " + each;
}

/// Returns the number of the first element of each image and channel, with the channels last.
inline std::string image_offsets(call& c, const integers& extents) {
  const integer pixels = extents[2] * extents[3];
  if (!pixels.is_number()) c.refuse("indices need images of static extents");
  c.to.uses_graph = true;
  return reshape_text({extents[0], 1, 1, extents[1]},
                      form("range<std::int64_t, $>(g, 0, $)", extents[0] * extents[1], pixels));
}

/// Texts: `max_pool{rank}<{windows}>({0})`, or a function for the powers of LpPool.
inline void pooled(call& c) {
  const value& x = c.operand(0);
  const window_shape w = windows_of(c, c.list("kernel_shape", {}));
  const bool by_column = c.flag("storage_order"), average = c.of.op == "AveragePool", powers = c.of.op == "LpPool",
             counted = c.flag("count_include_pad"), grown = c.flag("ceil_mode");
  const auto p = static_cast<double>(c.number("p", 2));
  const integers extents = image_extents(x.extents[0], x.extents[1], w.results);
  c.result(0, extents, true);
  bool by_slices = powers || !is_float(x.type) || (average && counted && grown && w.padded());
  for (std::size_t i = 0; i < w.extents.size(); ++i)
    by_slices |= w.dilations[i] != 1 || w.before[i] >= w.extents[i] || w.after[i] >= w.extents[i];
  if (by_slices) {
    if (c.out.size() > 1) c.refuse("its indices are read, but it has dilations, or elements that are integers");
    const std::string element = widened(c, 0), exponent = literal(wide(x.type), p), root = literal(wide(x.type), 1 / p);
    pool_by_slices(c, w, !average && !powers, average, counted,
                   !powers  ? element
                   : p == 1 ? form("abs($)", element)
                   : p == 2 ? form("square($)", element)
                            : form("pow(abs($), $)", element, exponent));
    if (powers && p != 1) c.text = p == 2 ? form("sqrt($)", c.text) : form("pow($, $)", c.text, root);
    c.text = narrowed(x.type, c.text);
    return;
  }
  const bool counts_padding = average && counted && w.padded(),
             padded = counts_padding || w.padded() || (w.same && !all_numbers(w.results));
  std::string arguments = w.size(w.extents);
  if (w.strides != w.extents || padded) arguments += ", " + w.size(w.strides);
  if (padded) arguments += ", " + w.padding();
  if (counts_padding) arguments += ", count_padding";
  const std::size_t axes = x.rank() - 2;
  if (axes != 2) c.need_header(form("ops/images/pooling$d.hpp", axes));
  c.holes["rank"] = form("$d", axes);
  c.holes["windows"] = arguments;
  if (c.out.size() < 2) return;
  if (axes != 2) c.refuse("its indices are read, but only images of two spatial axes have them");
  c.need_header("ops/images/max_unpool.hpp");
  const std::string all = image_offsets(c, x.extents);
  c.text = c.after_statements("maxima, places = max_pool2d_with_indices<{windows}>({0}); {maxima}");
  const std::string place = "cast<std::int64_t>({places})";
  if (by_column) c.need_header("ops/elementwise/rounding.hpp");
  also(c, 1,
       all + " + " +
           (by_column ? form("$ / $ + floor_mod($, $) * $", place, x.extents[3], place, x.extents[3], x.extents[2])
                      : place),
       extents, true, int64);
}

/// MaxUnpool: indices count the elements of all images of the extents that the pool had without output_shape.
inline void unpooled(call& c) {
  c.need_rank(0, 4);
  const value& x = c.operand(0);
  c.reorder(1, true);
  const numbers kernel = c.list("kernel_shape", {}), strides = c.list("strides", {1, 1}),
                pads = c.list("pads", {0, 0, 0, 0});
  integers inner{x.extents[0], x.extents[1]};
  for (std::size_t i = 0; i < 2; ++i)
    inner.push_back((x.extents[i + 2] - integer(1)) * integer(strides.at(i)) +
                    integer(kernel.at(i) - pads.at(i) - pads.at(i + 2)));
  const integers extents = c.has(2) ? c.known_integers(2) : inner;
  c.result(0, extents, true);
  c.text = form("max_unpool2d<$, $>({0}, {1} - $)", inner[2], inner[3], image_offsets(c, inner));
  for (std::size_t i = 2; i < 4; ++i)
    if (!(extents[i] == inner[i])) c.text = form("pad<$, 0, $>($)", i - 1, extents[i] - inner[i], c.text);
}

/// Texts: `mean<{axes}, keep_dims>({0})`, or a function for the powers of GlobalLpPool.
inline void pooled_globally(call& c) {
  c.need_rank(0, 2, 8);
  const value& x = c.operand(0);
  c.result(0, image_extents(x.extents[0], x.extents[1], integers(x.rank() - 2, 1)), true);
  c.holes["axes"] = part(numbers_to(x.rank() - 1, 1));
  if (c.of.op != "GlobalLpPool") return;
  const auto p = static_cast<double>(c.number("p", 2));
  c.text = p == 1 ? "sum<{axes}, keep_dims>(abs({0}))"
           : p == 2
               ? "sqrt(sum<{axes}, keep_dims>(square({0})))"
               : form("pow(sum<{axes}, keep_dims>(pow(abs({0}), $)), $)", literal(x.type, p), literal(x.type, 1 / p));
}

/// The windows of images of two axes.
inline void summed_columns(call& c) {
  c.need_rank(0, 3);
  const value& x = c.operand(0);
  const integers &image = c.known_integers(1), &window = c.known_integers(2);
  const std::size_t axes = image.size();
  const numbers strides = c.list("strides", numbers(axes, 1)), dilations = c.list("dilations", numbers(axes, 1)),
                pads = c.list("pads", numbers(2 * axes, 0));
  if (axes != 2) c.refuse("images must have two spatial axes");
  integers counts{x.extents[0]};
  for (std::size_t i = 0; i < 2; ++i)
    counts.push_back(
        windows(image[i], window[i].number(), strides.at(i), dilations.at(i), pads.at(i) + pads.at(i + 2)));
  counts.push_back(x.extents[1]);
  const integer channels = floor_quotient(x.extents[1], product_of(window));
  c.result(0, {x.extents[0], channels, image[0], image[1]}, true);
  const auto pair = [](const numbers& two) { return form("size2d($)", two); };
  const std::string options = options_text(
      {{"window", pair(numbers_of(window))},
       {"stride", pair(strides), "size2d(1, 1)"},
       {"pad", form("padding::of($, $, $, $)", pads[0], pads[2], pads[1], pads[3]), "padding::of(0, 0, 0, 0)"},
       {"dilation", pair(dilations), "size2d(1, 1)"},
       {"order", "depth_order::crd"}});
  c.text = form("fold<$, $, unfold_options{$}>($)", image[0], image[1], options,
                reshape_text(counts, "transpose<0, 2, 1>({0})"));
}

inline constexpr row window_rows[] = {
    {"AveragePool", {pooled, layout::channels}, "avg_pool{rank}<{windows}>({0})"},
    {"Col2Im", {summed_columns}, "fold unfold_options size2d", "ops/images/unfold.hpp"},
    {"Conv", {convolved, layout::channels}},
    {"ConvTranspose",
     {convolved_back, layout::channels},
     "conv1d_transpose conv2d_transpose conv3d_transpose concat pad"},
    {"GlobalAveragePool", {pooled_globally, layout::channels}, "mean<{axes}, keep_dims>({0})"},
    {"GlobalLpPool", {pooled_globally, layout::channels}, "sum sqrt pow abs square keep_dims"},
    {"GlobalMaxPool", {pooled_globally, layout::channels}, "max<{axes}, keep_dims>({0})"},
    {"LpPool", {pooled, layout::channels}, "pow sqrt square abs"},
    {"MaxPool", {pooled, layout::channels}, "max_pool{rank}<{windows}>({0})"},
    {"MaxUnpool", {unpooled, layout::channels}, "max_unpool2d", "ops/images/max_unpool.hpp"},
};

}  // namespace tool::importer
