// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "rules.hpp"

/// Branches and loops.
namespace tool::importer {

inline const weft::onnx::graph& graph_attribute(call& c, std::string_view name) {
  const auto* a = c.find(name);
  if (!a || !a->g) c.refuse("the attribute " + std::string(name) + " must be a graph");
  return *a->g;
}

/// Makes values the results, from number `first` on.
inline void results_are(call& c, const std::vector<value*>& values) {
  for (std::size_t i = 0; i < c.out.size() && i < values.size(); ++i) {
    if (!c.out[i]) continue;
    value& y = *c.out[i];
    const std::string name = y.name;
    const std::size_t uses = y.uses;
    if (!values[i]->known() && !values[i]->stated) {
      const std::string text = c.to.text_of(*values[i]);
      values[i]->text = c.to.name_for(name);
      c.to.state(*values[i], text);
    }
    y = *values[i];
    y.name = name;
    y.uses = uses;
    y.other = nullptr;
  }
}

/// Calls a function of the control flow whose results have the types and extents of values, after `others`.
inline void call_results(call& c, const std::string& text, const std::vector<value*>& like, int others = 0) {
  std::vector<std::string> names;
  for (int i = 0; i < others; ++i) names.push_back(c.to.name_for("unused"));
  std::string comment;
  for (std::size_t i = 0; i < like.size(); ++i) {
    const bool wanted = i < c.out.size() && c.out[i];
    names.push_back(c.to.name_for(wanted ? c.out[i]->name : "unused"));
    comment += (comment.empty() ? "" : ", ") + importer::shape_text(like[i]->extents);
    if (!wanted) continue;
    c.result(i, like[i]->extents, false, like[i]->type);
    c.out[i]->text = names.back();
    c.out[i]->stated = true;
  }
  c.need_header("control_flow.hpp");
  c.to.add_statement({names, text, comment});
  c.done = true;
}

inline std::string scalar_text(call& c, std::size_t i) {
  const std::string hole = "{" + std::to_string(i) + "}";
  return c.operand(i).rank() == 0 ? hole : reshape_text({}, hole);
}

inline void branched(call& c) {
  const auto &then = graph_attribute(c, "then_branch"), &otherwise = graph_attribute(c, "else_branch");
  const value& condition = c.operand(0);
  if (condition.elements && condition.elements->at(0).is_number()) {
    results_are(c, c.to.import_graph(condition.elements->at(0).is(0) ? otherwise : then, {}));
    c.done = true;
    return;
  }
  std::vector<value*> a, b;
  const std::string first = c.to.lambda(then, {}, a), second = c.to.lambda(otherwise, {}, b);
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    if (a[i]->type != b[i]->type || a[i]->extents != b[i]->extents)
      c.refuse("its branches have results of " + importer::shape_text(a[i]->extents) + " and " +
               importer::shape_text(b[i]->extents) + "; both must have the same");
  call_results(c, "cond(" + c.filled(scalar_text(c, 0)) + ", " + first + ", " + second + ")", a);
}

/// Returns a parameter of a lambda.
inline value* parameter(call& c, std::vector<std::unique_ptr<value>>& all, const std::string& name, int type,
                        integers extents) {
  all.push_back(std::make_unique<value>());
  value& v = *all.back();
  v.name = name;
  v.type = type;
  v.extents = std::move(extents);
  v.text = c.to.name_for(name);
  v.stated = true;
  return &v;
}

/// Returns true if only known values determine the condition that a body computes. `known`: names of its inputs.
inline bool has_known_condition(call& c, const weft::onnx::graph& body, std::set<std::string> known) {
  std::set<std::string> computed;
  for (const auto& v : body.inputs) computed.insert(v.name);
  for (const auto& t : body.initializers) known.insert(t.name);
  const auto is_known = [&](const std::string& name) {
    return name.empty() || known.contains(name) || (!computed.contains(name) && c.to.find(name).known());
  };
  for (const weft::onnx::node& n : body.nodes) {
    const bool all = std::all_of(n.inputs.begin(), n.inputs.end(), is_known) &&
                     std::none_of(n.attributes.begin(), n.attributes.end(), [](const auto& a) { return a.g; });
    (all ? known : computed).insert(n.outputs.begin(), n.outputs.end());
  }
  return is_known(body.outputs[0].name);
}

/// Steps whose number is known and small are written one after the other. Others are a scan if the number is known, and
/// otherwise a while_loop.
inline void looped(call& c) {
  const auto& body = graph_attribute(c, "body");
  const std::size_t carried = c.from.inputs.size() < 2 ? 0 : c.from.inputs.size() - 2;
  if (body.inputs.size() != carried + 2 || body.outputs.size() < carried + 1)
    c.refuse("its body does not fit its operands");
  const bool has_count = c.has(0), has_condition = c.has(1);
  const bool stacks = body.outputs.size() > carried + 1;  // only if the number of rows is known
  if (stacks)
    for (const std::size_t i : {0u, 1u})
      if (c.has(i)) c.known_integers(i);
  const bool count_known = has_count && c.operand(0).elements && c.operand(0).elements->at(0).is_number();
  const bool starts = !has_condition || (c.operand(1).elements && c.operand(1).elements->at(0).is_number());
  const std::int64_t count = count_known ? c.operand(0).elements->at(0).number() : 0;
  std::vector<std::unique_ptr<value>> owned;
  const auto known = [&](const std::string& name, int type, std::int64_t n) {
    owned.push_back(std::make_unique<value>());
    owned.back()->name = name;
    owned.back()->type = type;
    owned.back()->elements = integers{integer(n)};
    return owned.back().get();
  };
  const auto operand = [&](std::size_t i) {
    c.reorder(i, false);
    if (!c.operand(i).known()) named(c, i, body.inputs[i].name);
    return c.in[i];
  };
  for (std::size_t i = 0; i < carried; ++i) operand(i + 2);
  const std::string going = body.inputs[1].name;
  std::set<std::string> at_step{body.inputs[0].name, going};
  for (std::size_t i = 0; i < carried; ++i)
    if (c.in[i + 2]->known()) at_step.insert(body.inputs[i + 2].name);
  const bool never = has_condition && starts && c.operand(1).elements->at(0).is(0);
  if (never || (count_known && count <= 16 && starts && (stacks || has_known_condition(c, body, at_step)))) {
    std::vector<value*> state{nullptr, has_condition ? c.in[1] : known("condition", boolean, 1)};
    for (std::size_t i = 0; i < carried; ++i) state.push_back(c.in[i + 2]);
    std::vector<std::string> stacked(body.outputs.size() - carried - 1);
    std::vector<const value*> shown(stacked.size());
    std::int64_t i = 0;
    for (; i < count && !state[1]->elements->at(0).is(0); ++i) {
      state[0] = known("step", int64, i);
      const std::vector<value*> results = c.to.import_graph(body, state);
      if (!results[0]->elements || !results[0]->elements->at(0).is_number()) c.refuse("its condition is computed");
      for (std::size_t k = 0; k <= carried; ++k) {
        value& v = *(state[k + 1] = &c.to.in_order(*results[k], false));
        if (v.known() || v.stated) continue;
        const std::string text = c.to.text_of(v);
        v.text = c.to.name_for(body.outputs[k].name);
        c.to.state(v, text);
      }
      for (std::size_t k = 0; k < stacked.size(); ++k) {
        value& v = c.to.in_order(*results[carried + 1 + k], false);
        stacked[k] += (i > 0 ? ", " : "") + ("expand_dims<0>(" + c.to.text_of(v) + ")");
        shown[k] = &v;
      }
    }
    results_are(c, {state.begin() + 2, state.end()});
    for (std::size_t k = 0; k < stacked.size(); ++k) {
      const std::size_t out = carried + k;
      if (out >= c.out.size() || !c.out[out]) continue;
      if (i == 0) c.refuse("it has no iterations, but its rows are read");
      integers extents = shown[k]->extents;
      extents.insert(extents.begin(), integer(i));
      c.result(out, extents, false, shown[k]->type);
      c.to.define(*c.out[out], i == 1 ? stacked[k] : "concat<0>(" + stacked[k] + ")", false, c.out[out]->name);
    }
    c.done = true;
    return;
  }
  std::vector<value*> parameters{parameter(c, owned, "step", int64, {}), parameter(c, owned, "going", boolean, {})};
  std::string operands;
  std::vector<value*> like;
  for (std::size_t i = 0; i < carried; ++i) {
    value& v = *c.in[i + 2];
    parameters.push_back(parameter(c, owned, body.inputs[i + 2].name, v.type, v.extents));
    operands += ", " + c.to.text_of(v);
  }
  std::vector<value*> results;
  const auto check = [&](std::size_t i) {
    if (results[i + 1]->type != c.in[i + 2]->type || results[i + 1]->extents != c.in[i + 2]->extents)
      c.refuse("a value has the extents " + importer::shape_text(c.in[i + 2]->extents) + " before a step and " +
               importer::shape_text(results[i + 1]->extents) + " after it");
  };
  c.to.uses_graph = true;
  if (stacks || (count_known && starts && has_known_condition(c, body, {going}))) {
    if (!count_known || !starts) c.refuse("the number of its steps must be known at import, since it stacks rows");
    parameters[1] = known("condition", boolean, 1);
    const std::string text = c.to.lambda(body, parameters, results, true, "", 1);
    if (!results[0]->elements || results[0]->elements->at(0).is(0))
      c.refuse("its condition is computed, but it stacks rows");
    for (std::size_t i = 0; i < carried; ++i) check(i), like.push_back(results[i + 1]);
    for (std::size_t k = carried + 1; k < results.size(); ++k) {
      results[k]->extents.insert(results[k]->extents.begin(), integer(count));
      like.push_back(results[k]);
    }
    return call_results(
        c, "scan(" + text + ", rows(range<std::int64_t, " + std::to_string(count) + ">(g))" + operands + ")", like);
  }
  const std::string first = has_condition ? c.filled(scalar_text(c, 1)) : "constant(g, true)";
  const std::string limit = has_count ? stated(c, "limit", scalar_text(c, 0)) : "";
  const std::string text = c.to.lambda(body, parameters, results, true, parameters[0]->text + " + 1");
  const std::string head = (has_count ? "auto " + parameters[0]->text : "auto") + ", auto " + parameters[1]->text;
  const std::string test =
      has_count ? parameters[0]->text + " < " + limit + " && " + parameters[1]->text : parameters[1]->text;
  const std::string loop =
      "while_loop([&](" + head + ") { return " + test + "; }, " + text + ", " +
      (count_known && count <= INT32_MAX ? "{.max_iterations = " + std::to_string(count) + "}, " : "") +
      "constant(g, tensor<std::int64_t>(0)), " + first + operands + ")";
  for (std::size_t i = 0; i < carried; ++i) check(i);
  results.erase(results.begin());
  call_results(c, loop, results, 2);
}

inline void scanned(call& c) {
  const auto& body = graph_attribute(c, "body");
  const auto rows = static_cast<std::size_t>(c.number("num_scan_inputs", 1));
  const std::size_t first = c.opset < 9 ? 1 : 0, all = c.in.size() - first;
  if (rows > all || rows == 0 || body.inputs.size() != all || body.outputs.size() < all - rows)
    c.refuse("its body does not fit its operands");
  const std::size_t carried = all - rows, stacked = body.outputs.size() - carried;
  const std::vector<std::int64_t> none(rows, 0), no_outputs(stacked, 0);
  const auto axes = c.list("scan_input_axes", none), out_axes = c.list("scan_output_axes", no_outputs);
  auto directions = c.list(c.opset < 9 ? "directions" : "scan_input_directions", none),
       out_directions = c.list("scan_output_directions", no_outputs);
  if (axes.size() != rows || directions.size() != rows || out_axes.size() != stacked ||
      out_directions.size() != stacked)
    c.refuse("its axes and directions do not fit its operands");
  if (first == 1 && c.has(0)) c.refuse("sequence_lens is not supported");
  // Before opset 9, axis 0 is a batch; the body has none.
  if (first == 1)
    for (std::size_t i = first; i < c.in.size(); ++i)
      if (!c.extent(i, 0).is(1)) c.refuse("a batch of more than one element is not supported before opset 9");
  const bool reverse = std::all_of(directions.begin(), directions.end(), [](auto d) { return d == 1; }) &&
                       std::all_of(out_directions.begin(), out_directions.end(), [](auto d) { return d == 1; });
  std::vector<std::unique_ptr<value>> owned;
  std::vector<value*> parameters, results;
  std::string operands;
  integer steps = 0;
  for (std::size_t i = 0; i < all; ++i) {
    c.reorder(i + first, false);
    integers extents = c.operand(i + first).extents;
    std::string text = "{" + std::to_string(i + first) + "}";
    if (first == 1) extents.erase(extents.begin()), text = "squeeze<0>(" + text + ")";
    if (i >= carried) {
      const std::size_t axis = c.axis(axes[i - carried], extents.size());
      std::vector<std::int64_t> order{static_cast<std::int64_t>(axis)};
      for (std::size_t k = 0; k < extents.size(); ++k)
        if (k != axis) order.push_back(static_cast<std::int64_t>(k));
      if (axis != 0) text = "transpose<" + part(order) + ">(" + text + ")";
      if (directions[i - carried] == 1 && !reverse) text = "reverse<0>(" + text + ")";
      steps = extents[axis];
      extents.erase(extents.begin() + static_cast<std::ptrdiff_t>(axis));
      text = "rows(" + text + ")";
    }
    operands += ", " + text;
    parameters.push_back(parameter(c, owned, body.inputs[i].name, c.operand(i + first).type, extents));
  }
  const std::string given = c.filled(operands), text = c.to.lambda(body, parameters, results, true);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < results.size(); ++i) names.push_back(c.to.name_for(body.outputs[i].name));
  c.need_header("control_flow.hpp");
  c.to.add_statement({names, "scan(" + text + (reverse ? ", scan_options{.reverse = true}" : "") + given + ")", ""});
  for (std::size_t i = 0; i < results.size(); ++i) {
    integers extents = results[i]->extents;
    std::string shown = names[i];
    if (i < carried) {
      if (extents != parameters[i]->extents) c.refuse("a value has other extents after a step");
    } else {
      const std::size_t axis = c.axis(out_axes[i - carried], extents.size() + 1);
      if (out_directions[i - carried] == 1 && !reverse) shown = "reverse<0>(" + shown + ")";
      std::vector<std::int64_t> order;
      for (std::size_t k = 1; k <= extents.size(); ++k) order.push_back(static_cast<std::int64_t>(k));
      order.insert(order.begin() + static_cast<std::ptrdiff_t>(axis), 0);
      if (axis != 0) shown = "transpose<" + part(order) + ">(" + shown + ")";
      extents.insert(extents.begin() + static_cast<std::ptrdiff_t>(axis), steps);
    }
    if (first == 1) extents.insert(extents.begin(), integer(1)), shown = "expand_dims<0>(" + shown + ")";
    also(c, i, shown, extents, false, results[i]->type);
  }
  c.done = true;
}

inline constexpr row control_rows[] = {
    {"If", {branched, layout::own}, "cond"},
    {"Loop", {looped, layout::own}, "while_loop scan rows range constant"},
    {"Scan", {scanned, layout::own}, "scan scan_options rows reverse squeeze expand_dims"},
};

}  // namespace tool::importer
