// SPDX-License-Identifier: BSL-1.0
#include "statements.hpp"

#include <algorithm>
#include <numeric>

namespace tool::importer {

namespace onnx = weft::onnx;

namespace {

std::vector<std::int64_t> numbers_of(const integers& extents) {
  std::vector<std::int64_t> numbers;
  for (const integer& n : extents) numbers.push_back(n.number());
  return numbers;
}
/// Returns the weights of a layer: a constant with its axes in another order.
weight permuted_weight(const std::string& name, const value& v, const std::vector<int>& order) {
  const std::vector<std::int64_t> view = numbers_of(v.extents);
  return {name, v.constant, view, order, permuted(view, order)};
}

}  // namespace

// ---- elementwise ----

integers broadcast_of(const call& c, const integers& a, const integers& b) {
  integers result(std::max(a.size(), b.size()), integer(1));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto at = [&](const integers& e) {
      return i + e.size() < result.size() ? integer(1) : e[i + e.size() - result.size()];
    };
    const integer x = at(a), y = at(b);
    if (!(x == y) && !x.is(1) && !y.is(1))
      c.refuse("the extents " + importer::shape_text(a) + " and " + importer::shape_text(b) + " do not broadcast");
    result[i] = x.is(1) ? y : x;
  }
  return result;
}

void same_extents(call& c) { c.result(0, c.operand(0).extents, c.operand(0).last); }

void broadcast_extents(call& c) {
  integers extents = c.operand(0).extents;
  int type = c.operand(0).type;
  if (c.opset < 7 && c.number("broadcast", 0) != 0 && c.has(1)) {  // operand 1 begins at an axis of operand 0
    const std::size_t own = c.rank(1),
                      axis = c.axis(c.number("axis", static_cast<std::int64_t>(c.rank() - own)), c.rank() + 1);
    if (own > 0 && axis + own != c.rank())
      c.refuse("axis is supported from opset 7 on, in which operands broadcast from the last one");
  }
  for (std::size_t i = 1; i < c.in.size(); ++i)
    if (c.has(i)) extents = broadcast_of(c, extents, c.in[i]->extents);
  if (c.from.op_type == "Where") {
    type = c.operand(1).type;
    if (c.in[1]->known() && c.in[1]->scalar() && c.operand(2).known() && c.in[2]->scalar() && c.numbers_allowed) {
      c.text = "select({0}, constant(g, {1}), {2})";
      c.to.uses_graph = true;
    }
  }
  c.result(0, extents, c.last_order, c.of.type == same_type ? type : same_type);
  // A product with the weights of a dense layer, plus a bias.
  if (c.from.op_type != "Add" || c.in.size() != 2) return;
  for (const std::size_t i : {0u, 1u}) {
    const value &product = *c.in[i], &bias = *c.in[1 - i];
    if (product.layer.empty() || product.uses != 1 || !bias.trained() || bias.rank() != 1 ||
        !(bias.extents[0] == product.extents.back()) || bias.type != product.type)
      continue;
    member& dense = c.to.find_member(product.layer);
    dense.options = "";
    dense.weights.push_back({"bias", bias.constant, numbers_of(bias.extents), {0}, numbers_of(bias.extents)});
    c.fuses = false;
    return c.pass(i);
  }
}

void joined_operands(call& c) {
  broadcast_extents(c);
  std::string text = "{0}";
  for (std::size_t i = 1; i < c.in.size(); ++i) {
    std::string next;
    for (std::size_t at = 0; at < c.of.text.size(); ++at)
      if (c.of.text.substr(at, 3) == "{0}")
        next += text, at += 2;
      else if (c.of.text.substr(at, 3) == "{1}")
        next += "{" + std::to_string(i) + "}", at += 2;
      else
        next += c.of.text[at];
    text = next;
  }
  c.text = text;
}

/// Makes the result a constant if operand 0 is one. Large integers are converted when the model runs.
void convert_constant(call& c, int to) {
  const value& x = c.operand(0);
  const onnx::tensor_value* const from = x.constant;
  if (from && to == x.type) {
    c.out[0]->constant = from;
    c.out[0]->elements = x.elements;
    c.out[0]->parameter = x.parameter;
    return;
  }
  if (!from || !is_float(to) || weft::size_of(element_type(x.type)) == 8) return;
  auto& t = c.to.new_constant();
  t.name = from->name;
  t.type = to;
  t.extents = from->extents;
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < count_of(*from); ++i) append_number(bytes, to, number_at(*from, i));
  t.own(std::move(bytes));
  set_constant(*c.out[0], t);
  c.out[0]->parameter = x.parameter;
}

void cast_to(call& c, int to) {
  c.number("saturate", 1);
  c.word("round_mode", "");
  c.result(0, c.operand(0).extents, c.operand(0).last, to);
  c.holes["to"] = cpp_type(to);
  if (to == c.operand(0).type)
    c.pass(0);
  else if (c.operand(0).type == boolean)
    c.fuses = true;
  if (!c.operand(0).last) convert_constant(c, to);
}

void casted(call& c) { cast_to(c, static_cast<int>(c.number("to", float32))); }

/// The element type is that of operand 1.
void casted_like(call& c) {
  const int to = c.operand(1).type;
  c.in.resize(1);
  cast_to(c, to);
}

void passed(call& c) {
  same_extents(c);
  c.out[0]->constant = c.operand(0).constant;
  c.out[0]->elements = c.in[0]->elements;
  c.out[0]->parameter = c.in[0]->parameter;
  c.fuses = false;
  c.pass(0);
}

void dropped_out(call& c) {
  same_extents(c);
  value& x = c.operand(0);
  const double rate = c.opset < 12 ? c.real("ratio", 0.5) : c.has(1) ? c.known_numbers(1).at(0) : 0.5;
  const bool training = c.has(2) && c.known_numbers(2).at(0) != 0;
  if (!(rate >= 0 && rate < 1)) c.refuse("the ratio must be at least 0 and less than 1");
  c.number("seed", 0);
  c.fuses = false;
  c.to.uses_graph |= c.out.size() > 1;
  const std::string of = cpp_type(x.type) + ", " + c.to.dims_of(x) + ">(g, ",
                    all = "fill<bool, " + c.to.dims_of(x) + ">(g, true)";
  // Without its mask it is a layer, whose mode decides.
  if (training && rate > 0 && c.out.size() > 1) {
    c.need_header("ops/random/distributions.hpp");
    const std::string mask = stated(c, "mask", "random_bernoulli(fill<" + of + literal(x.type, 1 - rate) + ")) > 0");
    c.text = "select(" + mask + ", {0} / " + literal(x.type, 1 - rate) + ", 0)";
    return also(c, 1, mask, x.extents, x.last, boolean);
  }
  if (c.out.size() > 1 || rate == 0) {
    c.pass(0);
    return also(c, 1, all, x.extents, x.last, boolean);
  }
  c.layer("nn::dropout", ".rate = " + literal(float64, rate), {}, true);
}

void clipped(call& c) {
  broadcast_extents(c);
  if (c.opset < 11) {
    const double low = c.real("min", -INFINITY), high = c.real("max", INFINITY);
    const int type = c.operand(0).type;
    c.text = std::isinf(low) && std::isinf(high) ? "{0}"
             : std::isinf(high)                  ? "maximum({0}, " + literal(type, low) + ")"
             : std::isinf(low)                   ? "minimum({0}, " + literal(type, high) + ")"
                               : "minimum(maximum({0}, " + literal(type, low) + "), " + literal(type, high) + ")";
    return;
  }
  const auto is = [&](std::size_t i, double x) {
    return c.operand(i).constant && c.in[i]->scalar() && number_at(*c.in[i]->constant, 0) == x;
  };
  c.text = c.has(1) && c.has(2) ? (is(1, 0) && is(2, 6) ? "relu6({0})" : "minimum(maximum({0}, {1}), {2})")
           : c.has(1)           ? "maximum({0}, {1})"
           : c.has(2)           ? "minimum({0}, {2})"
                                : "{0}";
}

// ---- reductions ----

void reduced(call& c) {
  value& x = c.operand(0);
  const bool keep = c.number("keepdims", 1) != 0, noop = c.number("noop_with_empty_axes", 0) != 0;
  std::vector<std::int64_t> given = c.list_or_operand("axes", 1);
  if (given.empty() && !noop)
    for (std::size_t i = 0; i < x.rank(); ++i) given.push_back(static_cast<std::int64_t>(i));
  std::vector<bool> gone(x.rank());
  for (const std::int64_t a : given) gone[c.axis(a, x.rank())] = true;
  // Without the axes, the others must be in ONNX's order, or the channels last.
  if (x.last && !keep) {
    std::vector<std::size_t> order;
    for (const int axis : channel_order(x.rank(), true))
      if (!gone[static_cast<std::size_t>(axis)]) order.push_back(static_cast<std::size_t>(axis));
    if (!std::is_sorted(order.begin(), order.end())) c.reorder(0, false);
  }
  const value& from = c.operand(0);
  integers extents;
  std::vector<std::size_t> axes;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (gone[i]) axes.push_back(c.physical_axis(0, i));
    if (!gone[i] || keep) extents.push_back(gone[i] ? integer(1) : x.extents[i]);
  }
  std::sort(axes.begin(), axes.end());
  c.result(0, extents, from.last && keep);
  c.holes["axes"] = list_text(axes);
  c.holes["keep"] = keep ? ", keep_dims" : "";
  if (x.type == boolean) {
    c.need_header("ops/reduce/reductions.hpp");
    c.text = c.of.op == "ReduceMax" ? "any<{axes}{keep}>({0})" : "all<{axes}{keep}>({0})";
  }
  if (!axes.empty()) return;
  // The function of the elements remains: log({0}) of log(sum<>({0})).
  constexpr std::string_view mark = "<{axes}{keep}>(";
  const std::size_t at = c.text.find(mark), name = c.text.rfind('(', at) + 1, inner = at + mark.size();
  std::size_t end = inner;
  for (int depth = 1; depth > 0; ++end) depth += c.text[end] == '(' ? 1 : c.text[end] == ')' ? -1 : 0;
  c.text = c.of.op == "ReduceL2" ? "abs({0})"
                                 : c.text.substr(0, name) + c.text.substr(inner, end - 1 - inner) + c.text.substr(end);
}

void reduced_index(call& c) {
  const std::size_t axis = c.axis(c.number("axis", 0), c.rank());
  const bool keep = c.number("keepdims", 1) != 0;
  integers extents = c.operand(0).extents;
  const integer count = extents[axis];
  if (keep)
    extents[axis] = 1;
  else
    extents.erase(extents.begin() + static_cast<std::ptrdiff_t>(axis));
  c.result(0, extents);
  c.holes["axis"] = std::to_string(axis);
  if (c.number("select_last_index", 0) != 0) {
    if (!count.is_number()) c.refuse("select_last_index requires an extent that is a number");
    c.need_header("ops/arrays/reverse.hpp");
    c.text.replace(c.text.find("{0}"), 3, "reverse<{axis}>({0})");
    c.text = std::to_string(count.number() - 1) + " - " + c.text;
  }
  c.text = "cast<std::int64_t>(" + c.text + ")";
  if (keep) c.text = "expand_dims<{axis}>(" + c.text + ")";
}

void along_axis(call& c) {
  const std::size_t at = c.of.text.find("{axis=");
  const std::int64_t otherwise = at == c.of.text.npos ? -1 : std::stoll(std::string(c.of.text.substr(at + 6)));
  const std::size_t axis = c.axis(c.number("axis", otherwise), c.rank());
  c.holes["axis"] = std::to_string(c.physical_axis(0, axis));
  same_extents(c);
}

/// The text is a function of the last axis. Before opset 13, all axes from `axis` on are one.
void softmax_of(call& c) {
  value& x = c.operand(0);
  const std::size_t axis = c.axis(c.number("axis", c.opset < 13 ? 1 : -1), x.rank());
  const std::string function(c.of.text);
  same_extents(c);
  bool ones = true;
  for (std::size_t i = axis + 1; i < x.rank(); ++i) ones &= x.extents[i].is(1);
  if (c.opset < 13 && axis + 1 < x.rank() && !ones) {
    c.reorder(0, false);
    same_extents(c);
    integers rows(x.extents.begin(), x.extents.begin() + static_cast<std::ptrdiff_t>(axis));
    rows.push_back(product_of({x.extents.begin() + static_cast<std::ptrdiff_t>(axis), x.extents.end()}));
    c.text = reshape_text(x.extents, function + "(" + reshape_text(rows, "{0}") + ")");
    return;
  }
  const std::size_t at = c.physical_axis(0, axis);
  if (at + 1 == x.rank()) {
    c.text = function + "({0})";
    return;
  }
  std::vector<std::size_t> order(x.rank());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::swap(order[at], order.back());
  c.text = "transpose<" + list_text(order) + ">(" + function + "(transpose<" + list_text(order) + ">({0})))";
}

// ---- products ----

integers product_extents(const call& c, const integers& a, const integers& b) {
  if (a.size() < 2 || b.size() < 2) c.refuse("the operands must be matrices");
  integers extents = broadcast_of(c, {a.begin(), a.end() - 2}, {b.begin(), b.end() - 2});
  extents.push_back(a[a.size() - 2]);
  extents.push_back(b.back());
  return extents;
}

void multiplied(call& c) {
  value &a = c.operand(0), &b = c.operand(1);
  if (a.rank() == 0 || b.rank() == 0) c.refuse("a scalar operand");
  integers extents;
  if (a.rank() > 1 && b.rank() > 1) {
    extents = product_extents(c, a.extents, b.extents);
  } else if (a.rank() > 1) {
    extents.assign(a.extents.begin(), a.extents.end() - 1);
  } else if (b.rank() > 1) {
    extents.assign(b.extents.begin(), b.extents.end() - 2);
    extents.push_back(b.extents.back());
  }
  const integer &k = a.extents.back(), &n = b.extents[b.rank() > 1 ? b.rank() - 2 : 0];
  if (!(k == n)) c.refuse("operand 0 has " + k.text(true) + " columns, but operand 1 has " + n.text(true) + " rows");
  c.result(0, extents);
  if (b.trained() && b.rank() == 2 && a.rank() > 1 && b.uses == 1 && !a.known() &&
      (b.type == float32 || b.type == float64)) {
    const std::string type = b.type == float32 ? ">" : ", " + k.text() + ", double>";
    const std::string name = c.layer("nn::dense<" + b.extents[1].text() + type, ".use_bias = false",
                                     {permuted_weight("weights", b, {0, 1})});
    c.out[0]->layer = name;
    return;
  }
  const bool batches_equal =
      a.rank() > 1 && b.rank() > 1 &&
      ((a.rank() == b.rank() && std::equal(a.extents.begin(), a.extents.end() - 2, b.extents.begin())) ||
       b.rank() == 2);
  if (batches_equal) return;
  c.need_header("ops/products/tensordot.hpp");
  c.text = a.rank() > 1 && b.rank() > 1 ? "broadcast_matmul({0}, {1})"
           : a.rank() > 1               ? "matvec({0}, {1})"
           : b.rank() == 1              ? "vecdot({0}, {1})"
                                        : "squeeze<-2>(broadcast_matmul(expand_dims<0>({0}), {1}))";
}

void gemm_of(call& c) {
  value &a = c.operand(0), &b = c.operand(1);
  const bool ta = c.number("transA", 0) != 0, tb = c.number("transB", 0) != 0;
  // Nodes that simplify.cpp has changed have operands of more axes.
  if (a.rank() < 2 || (ta && a.rank() > 2) || b.rank() != 2) c.refuse("operands must be matrices");
  const double alpha = c.real("alpha", 1), beta = c.real("beta", 1);
  if (c.opset < 7) c.number("broadcast", 0);
  const integer& n = b.extents[tb ? 0 : 1];
  integers extents = a.extents;
  if (ta) extents[0] = extents[1];
  extents.back() = n;
  c.result(0, extents);
  const bool bias_fits = !c.has(2) || (c.in[2]->trained() && c.in[2]->rank() == 1 && c.in[2]->extents[0] == n);
  if (b.trained() && bias_fits && !ta && alpha == 1 && beta == 1 && !a.known() &&
      (b.type == float32 || b.type == float64)) {
    std::vector<weight> weights{permuted_weight("weights", b, tb ? std::vector<int>{1, 0} : std::vector<int>{0, 1})};
    if (c.has(2)) weights.push_back(permuted_weight("bias", *c.in[2], {0}));
    c.layer("nn::dense<" + n.text() + (b.type == float32 ? ">" : ", " + a.extents.back().text() + ", double>"),
            c.has(2) ? "" : ".use_bias = false", weights);
    return;
  }
  const std::string transposed = ta && tb ? "<transpose_of::both>"
                                 : ta     ? "<transpose_of::a>"
                                 : tb     ? "<transpose_of::b>"
                                          : "";
  c.text = a.rank() > 2 && tb ? "matmul({0}, transpose<1, 0>({1}))" : "matmul" + transposed + "({0}, {1})";
  if (alpha != 1) c.text = literal(a.type, alpha) + " * " + c.text;
  if (c.has(2)) {
    c.numbers_allowed = true;
    c.text += beta == 1 ? " + {2}" : " + " + literal(a.type, beta) + " * {2}";
  }
}

// ---- images ----

integer windows(const integer& extent, std::int64_t window, std::int64_t stride, std::int64_t dilation,
                std::int64_t padding) {
  return floor_quotient(extent + integer(padding - (window - 1) * dilation - 1), integer(stride)) + integer(1);
}

namespace {

/// The windows of a convolution or a pool.
struct window_shape {
  std::vector<std::int64_t> extents, strides, dilations, before, after;
  std::vector<std::int64_t> asked;  ///< `after` without what ceil_mode adds
  integers results;
  bool same = false;  ///< padding::same

  std::string size(const std::vector<std::int64_t>& each) const {
    const bool equal = std::all_of(each.begin(), each.end(), [&](std::int64_t n) { return n == each[0]; });
    if (equal) return std::to_string(each[0]);
    return (each.size() == 2 ? "size2d(" : "size3d(") + list_text(each) + ")";
  }
  bool padded() const {
    return std::any_of(before.begin(), before.end(), [](auto n) { return n != 0; }) ||
           std::any_of(after.begin(), after.end(), [](auto n) { return n != 0; });
  }
  std::string padding() const {
    const std::string type = extents.size() == 3 ? "padding3d" : "padding";
    if (same) return type + "::same";
    if (!padded()) return type + "::valid";
    std::vector<std::int64_t> each;
    if (extents.size() == 1) each = {0, 0};
    for (std::size_t i = 0; i < extents.size(); ++i) each.insert(each.end(), {before[i], after[i]});
    if (extents.size() > 1 && std::all_of(each.begin(), each.end(), [&](auto n) { return n == each[0]; }))
      return type + "::of(" + std::to_string(each[0]) + ")";
    if (extents.size() == 3 && before == after) return type + "::of(" + list_text(before) + ")";
    if (extents.size() == 3) {
      constexpr const char* sides[] = {
          ".front = ", ", .back = ", ", .top = ", ", .bottom = ", ", .left = ", ", .right = "};
      std::string text = type + "{";
      for (std::size_t i = 0; i < 6; ++i) text += sides[i] + std::to_string(each[i]);
      return text + "}";
    }
    return type + "::of(" + list_text(each) + ")";
  }
};

/// Refuses windows, strides and dilations below 1, other numbers below 0, and numbers above 2^30.
void check_range(call& c, const window_shape& w, std::initializer_list<const std::vector<std::int64_t>*> others) {
  const auto check = [&](const std::vector<std::int64_t>& list, std::int64_t least) {
    for (const std::int64_t n : list)
      if (n < least || n > (1 << 30)) c.refuse("its windows, strides, dilations and pads must be positive");
  };
  for (const auto* list : {&w.extents, &w.strides, &w.dilations}) check(*list, 1);
  for (const auto* list : others) check(*list, 0);
}

window_shape windows_of(call& c, std::vector<std::int64_t> extents) {
  const value& x = c.operand(0);
  const std::size_t axes = x.rank() - 2;
  window_shape w;
  w.extents = std::move(extents);
  w.strides = c.list("strides", std::vector<std::int64_t>(axes, 1));
  w.dilations = c.list("dilations", std::vector<std::int64_t>(axes, 1));
  const std::vector<std::int64_t> pads = c.list("pads", std::vector<std::int64_t>(2 * axes, 0));
  const std::string automatic = c.word_of("auto_pad", {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"});
  const bool ceil = c.number("ceil_mode", 0) != 0;
  if (w.extents.size() != axes || w.strides.size() != axes || w.dilations.size() != axes || pads.size() != 2 * axes)
    c.refuse("the windows do not have " + std::to_string(axes) + " axes");
  check_range(c, w, {&pads});
  bool is_same = true;
  for (std::size_t i = 0; i < axes; ++i) {
    const integer& n = x.extents[2 + i];
    w.asked.push_back(0);
    const std::int64_t reach = (w.extents[i] - 1) * w.dilations[i];
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      const integer result = floor_quotient(n + integer(w.strides[i] - 1), integer(w.strides[i]));
      w.results.push_back(result);
      if (n.is_number()) {
        const std::int64_t all =
            std::max<std::int64_t>(0, (result.number() - 1) * w.strides[i] + reach + 1 - n.number());
        w.before.push_back(automatic == "SAME_UPPER" ? all / 2 : all - all / 2);
        w.after.push_back(all - w.before.back());
        w.asked.back() = w.after.back();
      } else if (automatic == "SAME_LOWER" && (reach % 2 != 0 || w.strides[i] != 1)) {
        c.refuse("auto_pad SAME_LOWER needs static extents");
      } else {
        w.before.push_back(0), w.after.push_back(0);
      }
      is_same &= automatic == "SAME_UPPER" || w.before.back() == w.after.back();
      continue;
    }
    const bool valid = automatic == "VALID";
    w.before.push_back(valid ? 0 : pads[i]);
    w.after.push_back(valid ? 0 : pads[axes + i]);
    w.asked.back() = w.after.back();
    integer result = windows(n, w.extents[i], w.strides[i], w.dilations[i], w.before[i] + w.after[i]);
    if (ceil && w.strides[i] > 1) {
      if (!n.is_number()) c.refuse("ceil_mode needs static extents");
      const std::int64_t room = n.number() + w.before[i] + w.after[i] - reach - 1;
      std::int64_t count = (room + w.strides[i] - 1) / w.strides[i] + 1;
      if ((count - 1) * w.strides[i] >= n.number() + w.before[i]) --count;  // windows begin in the image
      w.after[i] += std::max<std::int64_t>(0, (count - 1) * w.strides[i] - room);
      result = count;
    }
    w.results.push_back(result);
    is_same &= w.strides[i] == 1 && w.before[i] == w.after[i] && 2 * w.before[i] == reach;
  }
  w.same = is_same;
  return w;
}

/// Returns the text of a convolution, `conv3d<...>`, of each group of channels and its filters, whose axes `turned`
/// puts in Weft's order. `filters`: the first extent of a group's.
std::string by_groups(call& c, std::int64_t groups, const integer& filters, const std::string& convolution,
                      const std::string& turned) {
  const auto text_of = [&](const std::string& x, const std::string& by) {
    return convolution + "(" + x + ", " + turned + "(" + by + "))";
  };
  if (groups == 1) return text_of("{0}", "{1}");
  if (groups > 64) c.refuse("more than 64 groups are not supported");
  const std::string x = named(c, 0), by = named(c, 1, "filters"), last = std::to_string(c.rank() - 1);
  const integer channels = floor_quotient(c.extent(0, 1), integer(groups));
  std::string text;
  for (std::int64_t g = 0; g < groups; ++g) {
    const auto part = [&](const std::string& axis, const integer& size, const std::string& of) {
      return "slice<" + axis + ", " + (size * integer(g)).text() + ", " + size.text() + ">(" + of + ")";
    };
    text += (g > 0 ? ", " : "") + text_of(part(last, channels, x), part("0", filters, by));
  }
  return "concat<" + last + ">(" + text + ")";
}

/// The parts that Conv and ConvTranspose have in common.
struct convolution_parts {
  std::size_t axes;  ///< of the images
  std::int64_t groups;
  std::vector<std::int64_t> kernel;  ///< the extents of the windows
  std::vector<int> order;            ///< of the filters' axes: [a, b, height, width] becomes [height, width, b, a]
  bool trained;                      ///< filters and bias are parameters of the model
};
convolution_parts parts_of_convolution(call& c) {
  const value &x = c.operand(0), &filters = c.operand(1);
  if (x.rank() < 3 || x.rank() > 5 || filters.rank() != x.rank()) c.refuse("images must have 1 to 3 spatial axes");
  convolution_parts p{x.rank() - 2, c.number("group", 1), {}, std::vector<int>(x.rank()), false};
  if (p.groups < 1 || p.groups > (1 << 20)) c.refuse("group must be from 1 to 2^20");
  const integers spatial(filters.extents.begin() + 2, filters.extents.end());
  if (!all_numbers(spatial)) c.refuse("the extents of the windows must be numbers");
  p.kernel = numbers_of(spatial);
  if (c.list("kernel_shape", p.kernel) != p.kernel) c.refuse("kernel_shape differs from the extents of the filters");
  std::iota(p.order.begin(), p.order.end() - 2, 2);
  p.order[p.axes] = 1, p.order[p.axes + 1] = 0;
  p.trained = filters.trained() && (!c.has(2) || c.in[2]->trained());
  return p;
}

struct option_text {
  const char* member;
  std::string text, otherwise;
};
/// Returns the members of options whose texts differ from their defaults: `.stride = 2, .dilation = 3`.
std::string options_text(std::initializer_list<option_text> all) {
  std::string options;
  for (const option_text& each : all)
    if (each.text != each.otherwise)
      options += (options.empty() ? "." : ", .") + std::string(each.member) + " = " + each.text;
  return options;
}

/// Sequences as images of one row.
void convolved_groups_of_sequences(call& c, window_shape w, std::int64_t groups) {
  const value &x = c.operand(0), &filters = c.operand(1);
  for (auto* each : {&w.extents, &w.strides, &w.dilations}) each->insert(each->begin(), 1);
  for (auto* each : {&w.before, &w.after}) each->insert(each->begin(), 0);
  const bool depthwise = x.extents[1].is(groups) && filters.extents[1].is(1) && filters.extents[0].is_number();
  const std::string name = depthwise ? "depthwise_conv2d" : "grouped_conv2d";
  w.same = false;
  const std::string options = "conv2d_options{.stride = " + w.size(w.strides) + ", .pad = " + w.padding() +
                              ", .dilation = " + w.size(w.dilations) + "}";
  const integers split{integer(groups), floor_quotient(filters.extents[0], integer(groups)), filters.extents[2]};
  const std::string filter = depthwise ? "transpose<2, 0, 1>(" + reshape_text(split, widened(c, 1)) + ")"
                                       : "transpose<2, 1, 0>(" + widened(c, 1) + ")";
  c.need_header("ops/images/" + name + ".hpp");
  c.text = narrowed(x.type, "squeeze<1>(" + name + "<" + (depthwise ? "" : std::to_string(groups) + ", ") + options +
                                ">(expand_dims<1>(" + widened(c, 0) + "), expand_dims<0>(" + filter + ")))" +
                                (c.has(2) ? " + " + widened(c, 2) : ""));
}

}  // namespace

void convolved(call& c) {
  const auto [axes, groups, kernel, order, trained] = parts_of_convolution(c);
  value &x = c.operand(0), &filters = c.operand(1);
  if (!(filters.extents[1] * integer(groups) == x.extents[1]))
    c.refuse("the filters read " + (filters.extents[1] * integer(groups)).text(true) +
             " channels, but the images have " + x.extents[1].text(true));
  const window_shape w = windows_of(c, kernel);
  integers extents{x.extents[0], filters.extents[0]};
  extents.insert(extents.end(), w.results.begin(), w.results.end());
  c.result(0, extents, true);

  const std::string rank = std::to_string(axes) + "d";
  const bool depthwise =
      axes == 2 && groups > 1 && x.extents[1].is(groups) && filters.extents[1].is(1) && filters.extents[0].is_number();
  if (groups > 1 && axes == 1) return convolved_groups_of_sequences(c, w, groups);
  const std::string name = depthwise ? "depthwise_conv2d" : groups > 1 && axes == 2 ? "grouped_conv2d" : "conv" + rank;
  std::string options = options_text({{"stride", w.size(w.strides), "1"},
                                      {"pad", w.padding(), axes == 3 ? "padding3d::same" : "padding::same"},
                                      {"dilation", w.size(w.dilations), "1"}});
  if (!options.empty()) options = "conv" + rank + "_options{" + options + "}";
  if (name != "conv2d") c.need_header((axes != 2 ? "ops/images/conv" + rank : "ops/images/" + name) + ".hpp");
  const bool has_bias = c.has(2);
  const std::string turned = "transpose<" + list_text(order) + ">";
  if (groups > 1 && axes == 3) {
    c.text =
        by_groups(c, groups, floor_quotient(filters.extents[0], integer(groups)), "conv3d<" + options + ">", turned) +
        (has_bias ? " + {2}" : "");
    return;
  }
  if (trained && !x.known() && x.type == float32) {
    std::vector<weight> weights{permuted_weight("weights", filters, order)};
    std::string sizes = w.size(kernel) + ", ";
    if (depthwise) {
      const std::int64_t multiplier = filters.extents[0].number() / groups;
      weight& f = weights[0];
      f.view = {groups, multiplier, kernel[0], kernel[1]};
      f.order = {2, 3, 0, 1};
      f.extents = permuted(f.view, f.order);
      sizes += std::to_string(multiplier);
      if (multiplier == 1 && options.empty()) sizes = w.size(kernel);
    } else {
      sizes += filters.extents[0].text() + (groups > 1 ? ", " + std::to_string(groups) : "");
    }
    if (has_bias) weights.push_back(permuted_weight("bias", *c.in[2], {0}));
    if (name != "conv2d") c.need_header("nn/" + name + ".hpp");
    c.layer("nn::" + name + "<" + sizes + (options.empty() ? "" : ", " + options) + ">",
            has_bias ? "" : ".use_bias = false", weights);
    return;
  }
  std::string filter = turned + "({1})";
  if (depthwise) {
    const std::int64_t multiplier = filters.extents[0].number() / groups;
    filter = "transpose<2, 3, 0, 1>(reshape<dims<" +
             list_text(std::vector<std::int64_t>{groups, multiplier, kernel[0], kernel[1]}) + ">>({1}))";
  }
  std::string arguments = options;
  if (groups > 1 && !depthwise) arguments = std::to_string(groups) + (options.empty() ? "" : ", " + options);
  c.text =
      name + (arguments.empty() ? "" : "<" + arguments + ">") + "({0}, " + filter + ")" + (has_bias ? " + {2}" : "");
}

/// The filters of a transposed convolution are [in, out, ...].
void convolved_back(call& c) {
  const auto [axes, groups, kernel, order, trained] = parts_of_convolution(c);
  const std::vector<std::int64_t> ones(axes, 1), none(axes, 0);
  value &x = c.operand(0), &filters = c.operand(1);
  if (!(filters.extents[0] == x.extents[1])) c.refuse("the filters and the images have different numbers of channels");
  window_shape w;
  w.extents = kernel;
  w.strides = c.list("strides", ones);
  w.dilations = c.list("dilations", ones);
  const std::vector<std::int64_t> pads = c.list("pads", std::vector<std::int64_t>(2 * axes, 0)),
                                  wanted = c.list("output_shape", {});
  std::vector<std::int64_t> more = c.list("output_padding", none), zeros = none;
  const std::string automatic = c.word_of("auto_pad", {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"});
  if (w.strides.size() != axes || w.dilations.size() != axes || more.size() != axes || pads.size() != 2 * axes ||
      (!wanted.empty() && wanted.size() < axes))
    c.refuse("the windows do not have " + std::to_string(axes) + " axes");
  check_range(c, w, {&pads, &more});
  integers extents{x.extents[0], filters.extents[1] * integer(groups)};
  for (std::size_t i = 0; i < axes; ++i) {
    const std::int64_t step = w.strides[i], reach = (kernel[i] - 1) * w.dilations[i] + 1;
    const integer whole = (x.extents[i + 2] - integer(1)) * integer(step) + integer(more[i] + reach);
    std::int64_t before = pads[i], after = pads[axes + i];
    if (!wanted.empty() || automatic.starts_with("SAME")) {
      const integer result =
          wanted.empty() ? x.extents[i + 2] * integer(step) : integer(wanted[wanted.size() - axes + i]);
      const integer all = whole - result;
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
  const std::string rank = std::to_string(axes) + "d", name = "conv" + rank + "_transpose";
  const std::string options = name + "_options{" +
                              options_text({{"stride", w.size(w.strides), "1"},
                                            {"pad", w.padding(), ""},
                                            {"output_padding", w.size(more), "0"},
                                            {"dilation", w.size(w.dilations), "1"}}) +
                              "}";
  c.need_header("ops/images/" + (axes == 3 ? "conv3d" : name) + ".hpp");
  const bool has_bias = c.has(2), fits = std::all_of(zeros.begin(), zeros.end(), [](auto n) { return n == 0; });
  if (trained && fits && groups == 1 && axes < 3 && !x.known() && x.type == float32) {
    std::vector<weight> weights{permuted_weight("weights", filters, order)};
    if (has_bias) weights.push_back(permuted_weight("bias", *c.in[2], {0}));
    c.need_header("nn/" + name + ".hpp");
    c.layer("nn::" + name + "<" + w.size(kernel) + ", " + filters.extents[1].text() + ", " + options + ">",
            has_bias ? "" : ".use_bias = false", weights);
    return;
  }
  std::string text = by_groups(c, groups, floor_quotient(x.extents[1], integer(groups)), name + "<" + options + ">",
                               "transpose<" + list_text(order) + ">");
  for (std::size_t i = 0; i < axes; ++i)
    if (zeros[i] > 0) text = "pad<" + std::to_string(i + 1) + ", 0, " + std::to_string(zeros[i]) + ">(" + text + ")";
  c.text = text + (has_bias ? " + {2}" : "");
}

namespace {

/// A pool as strided slices, along one axis after the other: of integers, with dilations, or with windows that count
/// their borders in part. `type` is the type in which it is computed, and `element` the text of an element's part in
/// the result, with `{0}`.
void pool_by_slices(call& c, const window_shape& w, bool maxima, bool average, bool count, int type,
                    const std::string& element) {
  const value& x = c.operand(0);
  const std::string border = maxima ? literal(type, is_float(type) ? -INFINITY : type == int8 ? -128 : 0) : "";
  std::string text = element;
  std::vector<std::string> divisors;
  double divisor = 1;
  for (std::size_t i = 0; i < w.extents.size(); ++i) {
    const std::string axis = std::to_string(i + 1);
    const integer& extent = x.extents[i + 2];
    if (!extent.is_number()) c.refuse("such windows need static extents");
    const std::int64_t n = extent.number(), m = w.results[i].number(), k = w.extents[i], step = w.strides[i],
                       d = w.dilations[i];
    if (k > 64 && !maxima) c.refuse("such windows must have at most 64 elements per axis");
    const std::int64_t after = std::max<std::int64_t>(0, (m - 1) * step + (k - 1) * d + 1 - n - w.before[i]);
    if (w.before[i] > 0 || after > 0) {
      if (maxima) c.need_header("ops/arrays/pad_modes.hpp");
      text = "pad<" + axis + ", " + list_text({w.before[i], after}) + ">(" + text + (maxima ? ", " + border : "") + ")";
    }
    std::string padded = stated(c, "padded", text);
    text.clear();
    const auto part = [&](std::int64_t begin, std::int64_t size, std::int64_t by) {
      return "slice<" + axis + ", " + list_text(std::vector{begin, size}) + (by > 1 ? ", " + std::to_string(by) : "") +
             ">(" + padded + ")";
    };
    if (maxima && k > 8) {  // windows of 2, 4, 8... elements, and then of all
      std::int64_t reached = 1, length = n + w.before[i] + after;
      while (reached < k) {
        const std::int64_t by = std::min(reached, k - reached);
        length -= by * d;
        padded = stated(c, "largest", "maximum(" + part(0, length, 1) + ", " + part(by * d, length, 1) + ")");
        reached += by;
      }
      text = part(0, m, step);
    } else {
      for (std::int64_t j = 0; j < k; ++j) {
        const std::string next = part(j * d, m, step);
        text = text.empty() ? next : maxima ? "maximum(" + text + ", " + next + ")" : text + " + " + next;
      }
    }
    text = stated(c, maxima ? "largest" : "sums", text);
    std::vector<double> counts;
    bool equal = true;
    for (std::int64_t o = 0; o < m; ++o) {
      double elements = 0;
      for (std::int64_t j = 0; j < k; ++j) {
        const std::int64_t at = o * step + j * d - w.before[i];
        elements += count ? at < n + w.asked[i] : at >= 0 && at < n;
      }
      counts.push_back(elements);
      equal &= elements == counts[0];
    }
    std::vector<std::int64_t> column(x.rank(), 1);
    column[i + 1] = m;
    if (equal)
      divisor *= counts.empty() ? 1 : counts[0];
    else if (!maxima)
      divisors.push_back(constant_text(c, "counts", column, counts, type));
  }
  if (divisor != 1) divisors.push_back(literal(type, divisor));
  c.text = text;
  if (!average) return;
  for (const std::string& each : divisors) c.text += " / " + each;
}

/// Returns the number of the first element of each image and channel, with the channels last.
std::string image_offsets(call& c, const integers& extents) {
  const integers to{extents[0], 1, 1, extents[1]};
  const integer pixels = extents[2] * extents[3];
  if (!pixels.is_number()) c.refuse("indices need images of static extents");
  c.to.uses_graph = true;
  return reshape_text(to, "range<std::int64_t, " + (extents[0] * extents[1]).text() + ">(g, 0, " + pixels.text() + ")");
}

}  // namespace

/// Texts: `max_pool{rank}<{windows}>({0})`, or a function for the powers of LpPool.
void pooled(call& c) {
  value& x = c.operand(0);
  if (x.rank() < 3 || x.rank() > 5) c.refuse("images must have 1 to 3 spatial axes");
  const window_shape w = windows_of(c, c.list("kernel_shape", {}));
  const bool by_column = c.number("storage_order", 0) != 0, count = c.number("count_include_pad", 0) != 0;
  const bool average = c.from.op_type == "AveragePool", powers = c.from.op_type == "LpPool";
  const auto p = static_cast<double>(c.number("p", 2));
  integers extents{x.extents[0], x.extents[1]};
  extents.insert(extents.end(), w.results.begin(), w.results.end());
  c.result(0, extents, true);
  bool by_slices = powers || !is_float(x.type) || (average && count && c.number("ceil_mode", 0) != 0 && w.padded());
  for (std::size_t i = 0; i < w.extents.size(); ++i)
    by_slices |= w.dilations[i] != 1 || w.before[i] >= w.extents[i] || w.after[i] >= w.extents[i];
  if (by_slices) {
    if (c.out.size() > 1) c.refuse("its indices are read, but it has dilations, or elements that are integers");
    const int type = is_half(x.type) ? static_cast<int>(float32) : x.type;
    const std::string element = widened(c, 0), power = p == 1   ? "abs(" + element + ")"
                                                       : p == 2 ? "square(" + element + ")"
                                                                : "pow(abs(" + element + "), " + literal(type, p) + ")";
    pool_by_slices(c, w, !average && !powers, average, count, type, powers ? power : element);
    if (powers && p != 1)
      c.text = p == 2 ? "sqrt(" + c.text + ")" : "pow(" + c.text + ", " + literal(type, 1 / p) + ")";
    c.text = narrowed(x.type, c.text);
    return;
  }
  const bool counted = average && count && w.padded();
  std::string arguments = w.size(w.extents);
  const bool padded = w.padded() || (w.same && !all_numbers(w.results));
  if (w.strides != w.extents || padded || counted) arguments += ", " + w.size(w.strides);
  if (padded || counted) arguments += ", " + w.padding();
  if (counted) arguments += ", count_padding";
  const std::size_t axes = x.rank() - 2;
  if (axes != 2) c.need_header("ops/images/pooling" + std::to_string(axes) + "d.hpp");
  c.holes["rank"] = std::to_string(axes) + "d";
  c.holes["windows"] = arguments;
  if (c.out.size() < 2) return;
  if (axes != 2) c.refuse("its indices are read, but only images of two spatial axes have them");
  c.need_header("ops/images/max_unpool.hpp");
  const std::string values = c.to.name_for("maxima"), places = c.to.name_for("places"),
                    all = image_offsets(c, x.extents);
  c.to.add_statement({{values, places}, c.filled("max_pool2d_with_indices<" + arguments + ">({0})"), ""});
  const std::string place = "cast<std::int64_t>(" + places + ")", columns = x.extents[3].text(),
                    rows = x.extents[2].text();
  c.text = values;
  also(
      c, 1,
      all + " + " +
          (by_column ? place + " / " + columns + " + " + "floor_mod(" + place + ", " + columns + ") * " + rows : place),
      extents, true, int64);
  if (by_column) c.need_header("ops/elementwise/rounding.hpp");
}

/// MaxUnpool: indices count the elements of all images of the extents that the pool had without output_shape.
void unpooled(call& c) {
  const value& x = c.operand(0);
  if (x.rank() != 4) c.refuse("images must have two spatial axes");
  c.reorder(1, true);
  const auto kernel = c.list("kernel_shape", {}), strides = c.list("strides", {1, 1}),
             pads = c.list("pads", {0, 0, 0, 0});
  integers inner{x.extents[0], x.extents[1]};
  for (std::size_t i = 0; i < 2; ++i)
    inner.push_back((x.extents[i + 2] - integer(1)) * integer(strides[i]) +
                    integer(kernel.at(i) - pads[i] - pads[i + 2]));
  const integers extents = c.has(2) ? c.known_integers(2) : inner;
  c.result(0, extents, true);
  c.text = "max_unpool2d<" + inner[2].text() + ", " + inner[3].text() + ">({0}, {1} - " + image_offsets(c, inner) + ")";
  for (std::size_t i = 2; i < 4; ++i)
    if (!(extents[i] == inner[i]))
      c.text = "pad<" + std::to_string(i - 1) + ", 0, " + (extents[i] - inner[i]).text() + ">(" + c.text + ")";
}

/// Texts: `mean<{axes}, keep_dims>({0})`.
void pooled_globally(call& c) {
  c.need_rank(0, 2, 8);
  value& x = c.operand(0);
  integers extents = x.extents;
  std::vector<std::size_t> axes;
  for (std::size_t i = 2; i < x.rank(); ++i) extents[i] = 1, axes.push_back(i - 1);
  c.result(0, extents, true);
  c.holes["axes"] = list_text(axes);
}

void batch_normalized(call& c) {
  c.need_rank(0, 2, 8);
  for (const std::size_t i : {1u, 2u, 3u, 4u}) c.need_rank(i, 1);
  same_extents(c);
  value& x = c.operand(0);
  const double epsilon = c.finite("epsilon", 1e-5), momentum = c.finite("momentum", 0.9);
  const bool training = c.number("training_mode", 0) != 0;
  if (c.opset < 7) c.number("is_test", 1);
  if (c.out.size() > (training ? 3u : 1u)) c.refuse("its further results are read");
  bool constants = x.extents[1].is_number() && !x.known() && (x.type == float32 || x.type == float64);
  for (const std::size_t i : {1u, 2u, 3u, 4u}) constants &= c.operand(i).trained();
  // A model that was exported for training becomes a layer, whose mode decides.
  if (training && !(constants && c.out.size() == 1)) {
    std::vector<std::size_t> axes;
    for (std::size_t i = 0; i + 1 < x.rank(); ++i) axes.push_back(i);
    c.need_header("ops/reduce/normalization.hpp");
    const std::string mean = c.to.name_for("mean_of"), variance = c.to.name_for("variance_of"), from = named(c, 0);
    c.to.add_statement({{mean, variance}, "moments<" + list_text(axes) + ">(" + from + ")", ""});
    c.text = "batch_normalization(" + from + ", " + mean + ", " + variance +
             ", {1}, {2}, {.epsilon = " + digits(static_cast<float>(epsilon)) + "})";
    const auto moved = [&](const std::string& hole, const std::string& to) {
      return literal(x.type, momentum) + " * " + hole + " + " + literal(x.type, 1 - momentum) + " * " + to;
    };
    also(c, 1, moved("{3}", mean), {x.extents[1]});
    also(c, 2, moved("{4}", variance), {x.extents[1]});
    return;
  }
  if (c.opset < 9 && c.number("spatial", 1) == 0) c.refuse("spatial = 0 is not supported");
  const auto exact = [](double f) { return digits(static_cast<float>(f)); };
  if (constants && x.extents[1].is_number()) {
    std::vector<weight> weights;
    for (const auto& [i, name] : {std::pair(1u, "scale"), {2u, "offset"}, {3u, "moving_mean"}, {4u, "moving_variance"}})
      weights.push_back(permuted_weight(name, *c.in[i], {0}));
    c.layer(x.type == float32 ? "nn::batch_norm<>" : "nn::batch_norm<" + x.extents[1].text() + ", double>",
            ".momentum = " + exact(momentum) + ", .epsilon = " + exact(epsilon), weights, true);
    return;
  }
  c.need_header("ops/reduce/normalization.hpp");
  c.text = "batch_normalization({0}, {3}, {4}, {1}, {2}, {.epsilon = " + exact(epsilon) + "})";
}

void layer_normalized(call& c) {
  same_extents(c);
  value& x = c.operand(0);
  const std::size_t axis = c.axis(c.number("axis", -1), x.rank());
  const double epsilon = c.finite("epsilon", 1e-5);
  c.number("stash_type", 1);
  if (c.out.size() > 1) {
    std::vector<std::int64_t> axes;
    integers reduced_extents = x.extents;
    for (std::size_t i = axis; i < x.rank(); ++i) axes.push_back(static_cast<std::int64_t>(i)), reduced_extents[i] = 1;
    c.need_header("ops/reduce/normalization.hpp");
    const std::string mean = c.to.name_for("mean_of"), variance = c.to.name_for("variance_of"), from = named(c, 0);
    c.to.add_statement({{mean, variance}, "moments<" + list_text(axes) + ", keep_dims>(" + from + ")", ""});
    const std::string inverse = stated(c, "inverse", "rsqrt(" + variance + " + " + literal(x.type, epsilon) + ")");
    also(c, 1, mean, reduced_extents);
    also(c, 2, inverse, reduced_extents);
    c.text = "(" + from + " - " + mean + ") * " + inverse + " * {1}" + (c.has(2) ? " + {2}" : "");
    return;
  }
  const auto exact = digits(static_cast<float>(epsilon));
  const bool constants = c.operand(1).trained() && c.has(2) && c.in[2]->trained();
  const std::size_t axes = x.rank() - axis;
  const auto has_axes = [&](std::size_t i) {
    const integers& e = c.operand(i).extents;
    return e.size() == axes && std::equal(e.begin(), e.end(), x.extents.begin() + static_cast<std::ptrdiff_t>(axis));
  };
  if (constants && axes == 1 && x.type == float32 && x.rank() > 1 && c.in[1]->rank() == 1 && c.in[2]->rank() == 1) {
    c.layer("nn::layer_norm<>", ".epsilon = " + exact,
            {permuted_weight("scale", *c.in[1], {0}), permuted_weight("offset", *c.in[2], {0})});
    return;
  }
  if (!has_axes(1) || (c.has(2) && !has_axes(2)))
    c.refuse("the scale and the bias must have the extents of the normalized axes");
  c.need_header("ops/reduce/normalization.hpp");
  c.text = "layer_normalization" + (axes == 1 ? "" : "<" + std::to_string(axes) + ">") + "({0}, {1}, " +
           (c.has(2) ? "{2}" : "zeros_like({1})") + ", {.epsilon = " + exact + "})";
}

// ---- arrays ----

void concatenated(call& c) {
  const std::size_t rank = c.rank(), axis = c.axis(c.number("axis", 1), rank);
  bool last = false;
  for (const value* v : c.in) last |= v && v->last;
  for (std::size_t i = 0; i < c.in.size(); ++i) c.reorder(i, last);
  integers extents = c.operand(0).extents;
  for (std::size_t i = 1; i < c.in.size(); ++i)
    for (std::size_t k = 0; k < rank; ++k)
      if (k == axis)
        extents[k] = extents[k] + c.extent(i, k);
      else if (!(c.extent(i, k) == extents[k]))
        c.refuse("operands of " + importer::shape_text(c.in[0]->extents) + " and " +
                 importer::shape_text(c.in[i]->extents) + " may differ beside axis " + std::to_string(axis) +
                 ": fix an extent that has a name by --extent NAME=NUMBER");
  c.result(0, extents, last);
  if (c.in.size() == 1) return c.pass(0);
  c.holes["axis"] = std::to_string(c.physical_axis(0, axis));
}

void reshaped(call& c) {
  const value& x = c.operand(0);
  const integers& asked = c.known_integers(1);
  const bool zero_is_zero = c.number("allowzero", 0) != 0;
  integers extents;
  std::optional<std::size_t> rest;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (asked[i].is(-1) && rest) c.refuse("the shape has several axes of -1");
    if (asked[i].is(-1)) rest = i;
    extents.push_back(asked[i].is(-1) ? integer(1) : asked[i].is(0) && !zero_is_zero ? c.extent(0, i) : asked[i]);
  }
  if (rest) {
    const integer all = product_of(x.extents), others = product_of(extents);
    const auto quotient = others.is(0) ? std::nullopt : exact_quotient(all, others);
    if (!quotient)
      c.refuse(importer::shape_text(x.extents) + " has no shape with an axis of -1 beside " + others.text(true) +
               " elements");
    extents[*rest] = *quotient;
  }
  if (!(product_of(extents) == product_of(x.extents)))
    c.refuse(importer::shape_text(x.extents) + " cannot become " + importer::shape_text(extents) +
             " for all extents: fix an extent that has a name by --extent NAME=NUMBER");
  // Without other axes of several elements, the order does not matter.
  std::size_t long_axes = 0;
  for (std::size_t i = 1; i < x.rank(); ++i) long_axes += !x.extents[i].is(1);
  if (extents == x.extents) {
    c.result(0, extents, x.last);
    return c.pass(0);
  }
  if (long_axes > 1 || extents.empty()) c.reorder(0, false);
  c.result(0, extents);
  c.holes["dims"] = importer::dims_text(extents);
}

void flattened(call& c) {
  const value& x = c.operand(0);
  const std::int64_t given = c.number("axis", 1);
  const std::size_t axis = given == static_cast<std::int64_t>(x.rank()) ? x.rank() : c.axis(given, x.rank());
  const auto middle = x.extents.begin() + static_cast<std::ptrdiff_t>(axis);
  const integers extents{product_of({x.extents.begin(), middle}), product_of({middle, x.extents.end()})};
  std::size_t long_axes = 0;
  for (std::size_t i = 1; i < x.rank(); ++i) long_axes += !x.extents[i].is(1);
  if (long_axes > 1) c.reorder(0, false);
  c.result(0, extents);
  if (extents == x.extents) return c.pass(0);
  c.holes["dims"] = importer::dims_text(extents);
}

void squeezed(call& c) {
  const value& x = c.operand(0);
  std::vector<std::int64_t> axes = c.list_or_operand("axes", 1);
  std::vector<bool> gone(x.rank());
  for (const std::int64_t a : axes) gone[c.axis(a, x.rank())] = true;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (axes.empty()) gone[i] = x.extents[i].is(1);
    if (gone[i] && !x.extents[i].is(1))
      c.refuse("axis " + std::to_string(i) + " has " + x.extents[i].text(true) + " elements, not 1");
  }
  if (x.last) {
    std::vector<int> left;
    for (const int axis : channel_order(x.rank(), true))
      if (!gone[static_cast<std::size_t>(axis)]) left.push_back(axis);
    if (!std::is_sorted(left.begin(), left.end())) c.reorder(0, false);
  }
  integers extents;
  std::vector<std::size_t> at;
  for (std::size_t i = 0; i < x.rank(); ++i)
    if (gone[i])
      at.push_back(c.physical_axis(0, i));
    else
      extents.push_back(x.extents[i]);
  std::sort(at.begin(), at.end());
  c.result(0, extents);
  c.holes["dims"] = importer::dims_text(extents);
  if (at.empty()) c.pass(0);
}

void unsqueezed(call& c) {
  const value& x = c.operand(0);
  const std::vector<std::int64_t> axes = c.list_or_operand("axes", 1);
  const std::size_t rank = x.rank() + axes.size();
  std::vector<bool> fresh(rank);
  for (const std::int64_t a : axes) fresh[c.axis(a, rank)] = true;
  if (std::count(fresh.begin(), fresh.end(), true) != static_cast<std::ptrdiff_t>(axes.size()))
    c.refuse("axes must be different");
  integers extents;
  for (std::size_t i = 0, from = 0; i < rank; ++i)
    extents.push_back(fresh[i] || from == x.rank() ? integer(1) : x.extents[from++]);
  c.result(0, extents);
  c.holes["dims"] = importer::dims_text(extents);
}

void transposed(call& c) {
  value& x = c.operand(0);
  std::vector<std::int64_t> given(x.rank());
  for (std::size_t i = 0; i < x.rank(); ++i) given[i] = static_cast<std::int64_t>(x.rank() - 1 - i);
  given = c.list("perm", given);
  std::vector<int> perm;
  std::set<int> seen;
  for (const std::int64_t a : given) perm.push_back(static_cast<int>(c.axis(a, x.rank()))), seen.insert(perm.back());
  if (perm.size() != x.rank() || seen.size() != x.rank()) c.refuse("perm must contain each axis once");
  const auto text_order = [&](bool last) {
    std::vector<int> order;
    for (const int axis : last ? permuted(perm, channel_order(x.rank(), true)) : perm)
      order.push_back(x.last ? static_cast<int>(c.physical_axis(0, static_cast<std::size_t>(axis))) : axis);
    return order;
  };
  const integers extents = permuted(x.extents, perm);
  // Channels that are last already stay there.
  for (const bool last : {false, true}) {
    const std::vector<int> order = text_order(last && x.rank() >= 3);
    if (!std::is_sorted(order.begin(), order.end()) || x.known()) continue;
    if (last && !c.to.wants_channels_last(*c.out[0])) continue;
    c.result(0, extents, last);
    return c.pass(0);
  }
  c.result(0, extents);
  c.holes["perm"] = list_text(text_order(false));
}

void expanded(call& c) {
  const integers extents = broadcast_of(c, c.operand(0).extents, c.known_integers(1));
  c.result(0, extents);
  c.out[0]->zeros = is_zero(c.operand(0));
  c.holes["dims"] = importer::dims_text(extents);
  if (extents == c.in[0]->extents) c.pass(0);
}

void gathered(call& c) {
  value &x = c.operand(0), &indices = c.operand(1);
  const std::size_t axis = c.axis(c.number("axis", 0), x.rank());
  integers extents(x.extents.begin(), x.extents.begin() + static_cast<std::ptrdiff_t>(axis));
  extents.insert(extents.end(), indices.extents.begin(), indices.extents.end());
  extents.insert(extents.end(), x.extents.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.extents.end());
  c.result(0, extents);
  if (x.trained() && x.rank() == 2 && axis == 0 && x.uses == 1 && !indices.known() && x.type == float32) {
    c.layer("nn::embedding<" + x.extents[0].text() + ", " + x.extents[1].text() + ">", "",
            {permuted_weight("table", x, {0, 1})});
    c.text.replace(c.text.find("{0}"), 3, "{1}");
    return;
  }
  c.holes["axis"] = std::to_string(axis);
  // Negative indices count from the end.
  if (indices.elements && all_numbers(*indices.elements)) {
    const auto index = [&](std::size_t i) {
      const std::int64_t n = (*indices.elements)[i].number();
      return n < 0 ? x.extents[axis] + integer(n) : integer(n);
    };
    if (indices.rank() == 0) {
      c.text =
          "squeeze<" + std::to_string(axis) + ">(slice<" + std::to_string(axis) + ", " + index(0).text() + ", 1>({0}))";
      return;
    }
    for (std::size_t i = 0; i < indices.elements->size(); ++i) (*indices.elements)[i] = index(i);
  } else {
    c.need_header("ops/index/gather.hpp");
    if (x.extents[axis].is_number() && !indices.known())
      c.text = "gather<{axis}>({0}, select({1} < 0, {1} + " + x.extents[axis].text() + ", {1}))";
  }
}

void sliced(call& c) {
  const value& x = c.operand(0);
  integers starts, ends, axes, steps;
  if (c.opset < 10) {
    for (const auto n : c.list("starts", {})) starts.emplace_back(n);
    for (const auto n : c.list("ends", {})) ends.emplace_back(n);
    for (const auto n : c.list("axes", {})) axes.emplace_back(n);
  } else {
    starts = c.known_integers(1), ends = c.known_integers(2);
    if (c.has(3)) axes = c.known_integers(3);
    if (c.has(4)) steps = c.known_integers(4);
  }
  if (axes.empty())
    for (std::size_t i = 0; i < starts.size(); ++i) axes.emplace_back(static_cast<std::int64_t>(i));
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    c.refuse("starts, ends, axes and steps must have equal lengths");
  integers extents = x.extents;
  std::string text = "{0}";
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t axis = c.axis(axes[i].number(), x.rank());
    const integer n = x.extents[axis];
    const std::int64_t step = steps[i].number();
    if (step == 0 || step == std::numeric_limits<std::int64_t>::min()) c.refuse("a step is out of range");
    constexpr std::int64_t far = std::int64_t{1} << 30;
    // A bound as an index from 0 to n, or -1 for steps that run backwards.
    const auto bound = [&](const integer& given, bool is_end) -> integer {
      if (!given.is_number()) return given;
      const std::int64_t k = given.number();
      if (n.is_number()) {
        const std::int64_t low = step < 0 && is_end ? -1 : 0, high = step < 0 ? n.number() - 1 : n.number();
        return std::clamp(k < 0 ? k + n.number() : k, low, high);
      }
      if (k >= far) return step < 0 ? n - integer(1) : n;
      if (k <= -far) return step < 0 ? integer(-1) : integer(0);
      return k < 0 ? n + integer(k) : integer(k);
    };
    const integer begin = bound(starts[i], false), end = bound(ends[i], true);
    integer count = step > 0 ? floor_quotient(end - begin + integer(step - 1), integer(step))
                             : floor_quotient(begin - end - integer(step + 1), integer(-step));
    if (count.is_number() && count.number() < 0) count = 0;
    extents[axis] = count;
    const std::string at = std::to_string(c.physical_axis(0, axis));
    if (count == n && step == 1) continue;
    if (step == -1 && count == n) {
      c.need_header("ops/arrays/reverse.hpp");
      text = "reverse<" + at + ">(" + text + ")";
    } else if (step == 1) {
      text = "slice<" + at + ", " + begin.text() + ", " + count.text() + ">(" + text + ")";
    } else {
      if (!begin.is_number() || !count.is_number()) c.refuse("steps need static extents");
      c.need_header("ops/arrays/strided_slice.hpp");
      text =
          "slice<" + at + ", " + count.text() + ", " + std::to_string(step) + ">(" + text + ", " + begin.text() + ")";
    }
  }
  c.result(0, extents, x.last);
  c.text = text;
}

void split_of(call& c) {
  const value& x = c.operand(0);
  const std::size_t axis = c.axis(c.number("axis", 0), x.rank());
  const integer n = x.extents[axis];
  std::vector<std::int64_t> parts = c.list_or_operand("split", 1);
  const std::size_t count = c.from.outputs.size();
  const auto asked = c.number("num_outputs", static_cast<std::int64_t>(count));
  if (parts.empty() && n.is_number()) {
    const std::int64_t each = (n.number() + asked - 1) / std::max<std::int64_t>(asked, 1);
    for (std::size_t i = 0; i < count; ++i)
      parts.push_back(std::clamp<std::int64_t>(n.number() - each * static_cast<std::int64_t>(i), 0, each));
  }
  if (parts.size() != count) c.refuse("the parts must be numbers, one for each result");
  bool equal = n.is_number();
  std::int64_t sum = 0;
  for (const std::int64_t part : parts) {
    equal = equal && part == parts[0];
    if (part < 0 || __builtin_add_overflow(sum, part, &sum)) c.refuse("the parts are out of range");
  }
  if (n.is_number() && sum != n.number()) c.refuse("the sum of the parts must be " + n.text());
  std::int64_t begin = 0;
  const std::string at = std::to_string(c.physical_axis(0, axis));
  for (std::size_t i = 0; i < c.out.size(); begin += parts[i++]) {
    integers extents = x.extents;
    extents[axis] = parts[i];
    c.result(i, extents, x.last);
    c.texts.push_back("slice<" + at + ", " + std::to_string(begin) + ", " + std::to_string(parts[i]) + ">({0})");
  }
  c.tuple = equal && count > 1 && c.out.size() == count;
  if (!c.tuple) return;
  c.texts.clear();
  c.text = "split<" + at + ", " + std::to_string(count) + ">({0})";
}

void shape_of(call& c) {
  const value& x = c.operand(0);
  const auto rank = static_cast<std::int64_t>(x.rank());
  std::int64_t from = c.number("start", 0), to = c.number("end", rank);
  from = std::clamp<std::int64_t>(from < 0 ? from + rank : from, 0, rank);
  to = std::clamp<std::int64_t>(to < 0 ? to + rank : to, from, rank);
  if (c.of.op == "Size") {
    c.result(0, {});
    c.out[0]->elements = integers{product_of(x.extents)};
    return;
  }
  c.result(0, {integer(to - from)});
  c.out[0]->elements = integers(x.extents.begin() + from, x.extents.begin() + to);
}

void constant_of(call& c) {
  if (const auto* a = c.find("value")) {
    set_constant(*c.out[0], a->t);
    return;
  }
  value& y = *c.out[0];
  const bool reals = c.has_attribute("value_floats") || c.has_attribute("value_float");
  const bool many = c.has_attribute("value_floats") || c.has_attribute("value_ints");
  std::vector<std::byte> bytes;
  const auto put = [&](const auto& x) { append_element(bytes, x); };
  if (const auto* a = c.find("value_floats"))
    for (const float f : a->floats) put(f);
  else if (const auto* b = c.find("value_float"))
    put(b->f);
  else if (const auto* d = c.find("value_ints"))
    for (const std::int64_t n : d->ints) put(n);
  else if (const auto* e = c.find("value_int"))
    put(e->i);
  else
    c.refuse("constants of strings and sparse tensors are not supported");
  auto& t = c.to.new_constant();
  t.name = y.name;
  t.type = reals ? float32 : int64;
  if (many) t.extents = {static_cast<std::int64_t>(bytes.size() / (reals ? 4 : 8))};
  t.own(std::move(bytes));
  set_constant(y, t);
}

void ranged(call& c) {
  const int given = c.operand(0).type, type = is_half(given) ? static_cast<int>(float32) : given;
  integer count;
  std::string steps;
  if (is_float(type)) {
    const double start = c.known_numbers(0).at(0), limit = c.known_numbers(1).at(0), delta = c.known_numbers(2).at(0);
    if (delta == 0) c.refuse("delta is 0");
    const double steps_needed = std::ceil((limit - start) / delta);
    if (!(steps_needed < 1e9)) c.refuse("the list is too long");
    count = static_cast<std::int64_t>(std::max(0.0, steps_needed));
    steps = ", " + literal(type, start) + ", " + literal(type, delta);
  } else {
    const integer start = c.known_integers(0).at(0), limit = c.known_integers(1).at(0),
                  delta = c.known_integers(2).at(0);
    if (!start.is_number() || !delta.is_number()) c.refuse("start and delta must be numbers");
    if (delta.is(0)) c.refuse("delta is 0");
    count = delta.number() > 0 ? floor_quotient(limit - start + delta - integer(1), delta)
                               : floor_quotient(start - limit - delta - integer(1), integer(0) - delta);
    if (count.is_number() && count.number() < 0) count = 0;
    if (!start.is(0) || !delta.is(1)) steps = ", " + start.text() + ", " + delta.text();
  }
  c.result(0, {count});
  c.text = "range<" + cpp_type(type) + ", " + count.text() + ">(g" + steps + ")";
  c.text = narrowed(given, c.text);
}

void constant_of_shape(call& c) {
  const integers extents = c.known_integers(0);
  const auto* a = c.find("value");
  const int type = a ? a->t.type : static_cast<int>(float32);
  if (a && count_of(a->t) != 1) c.refuse("value must have one element");
  c.result(0, extents, false, type);
  c.out[0]->zeros = !a || number_at(a->t, 0) == 0;
  const std::string number = a ? element_text(a->t, 0) : "0.0f";
  c.text = "fill<" + cpp_type(type) + ", " + importer::dims_text(extents) + ">(g, " + number + ")";
  const integer count = product_of(extents);
  if (a && (type == int64 || type == int32 || type == boolean) && count.is_number() && count.number() <= 65536)
    c.out[0]->elements =
        integers(static_cast<std::size_t>(count.number()), integer(static_cast<std::int64_t>(number_at(a->t, 0))));
  if (c.out[0]->elements && c.out[0]->elements->size() > 16) {
    c.out[0]->text = c.text;
    c.to.uses_graph = true;
  }
}

}  // namespace tool::importer
