// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "rules.hpp"

/// Recurrent layers.
namespace tool::importer {

/// A call of LSTM, GRU or RNN.
struct recurrent_node {
  std::int64_t gates = 1, units = 0;
  bool batch_first = false, lstm = false, gru = false, linear_before_reset = false;
  std::vector<std::string> activations;  ///< of both directions
  integer steps = 1, batch = 1;
  std::string x;  ///< [steps, batch, features]
};

/// Returns the gates' rows of a constant [directions, gates * units, n] as [n, gates * units], in the order of Weft's
/// layer. `plus`: the first of gates that are added to them.
inline weight gate_weight(call& c, const recurrent_node& r, const std::string& name, std::size_t operand,
                          std::size_t direction, std::size_t first_gate, const std::vector<std::size_t>& gates,
                          bool is_matrix, std::size_t plus = 0) {
  const auto& from = *c.operand(operand).constant;
  const auto n = static_cast<std::size_t>(is_matrix ? from.extents[2] : 1), units = static_cast<std::size_t>(r.units);
  const auto rows = static_cast<std::size_t>(from.extents[1]);
  auto& t = c.to.new_constant();
  t.name = from.name + "/" + name + "/" + std::to_string(direction);
  t.type = from.type;
  const auto columns = static_cast<std::int64_t>(gates.size() * units);
  t.extents =
      is_matrix ? std::vector<std::int64_t>{static_cast<std::int64_t>(n), columns} : std::vector<std::int64_t>{columns};
  std::vector<std::byte> bytes(n * gates.size() * units * sizeof(float));
  std::byte* to = bytes.data();
  for (std::size_t k = 0; k < n; ++k)
    for (const std::size_t gate : gates)
      for (std::size_t u = 0; u < units; ++u, to += sizeof(float)) {
        const auto at = [&](std::size_t g) {
          return element_at<float>(from, (direction * rows + (g + gate) * units + u) * n + k);
        };
        const float sum = at(first_gate) + (plus > 0 ? at(plus) : 0);
        std::memcpy(to, &sum, sizeof sum);
      }
  t.own(std::move(bytes));
  std::vector<int> order;
  for (std::size_t i = 0; i < t.extents.size(); ++i) order.push_back(static_cast<int>(i));
  return {name, &t, t.extents, order, t.extents};
}

/// Returns a direction's part of an operand: of [directions, ...], or [batch, directions, units].
inline std::string direction_of(const recurrent_node& r, std::size_t operand, std::size_t direction,
                                bool is_state = false) {
  const std::size_t axis = is_state && r.batch_first ? 1 : 0;
  return form("squeeze<$>($)", axis, slice_text(axis, static_cast<std::int64_t>(direction), 1, operand_hole(operand)));
}

/// One direction as a layer with constant weights. Returns the names of the states and of the last states.
inline std::vector<std::string> recurrent_layer(call& c, const recurrent_node& r, std::size_t direction, bool reverse) {
  const std::vector<std::size_t> order = r.lstm  ? std::vector<std::size_t>{0, 2, 3, 1}
                                         : r.gru ? std::vector<std::size_t>{1, 0, 2}
                                                 : std::vector<std::size_t>{0};
  const bool has_bias = c.has(3), one_bias = r.gru && !r.linear_before_reset, peepholes = r.lstm && c.has(7);
  member m;
  m.type = form("nn::$<$, nn::recurrent_options{.time_major = true}>",
                r.lstm  ? "lstm"
                : r.gru ? "gru"
                        : "simple_rnn",
                r.units);
  m.options = options_text({{"use_bias", has_bias ? "" : "false"},
                            {"two_biases", if_true(has_bias && !r.gru)},
                            {"reset_after", one_bias ? "false" : ""},
                            {"reverse", if_true(reverse)},
                            {"peepholes", if_true(peepholes)}});
  m.weights.push_back(gate_weight(c, r, "weights", 1, direction, 0, order, true));
  m.weights.push_back(gate_weight(c, r, "recurrent_weights", 2, direction, 0, order, true));
  const auto second = static_cast<std::size_t>(r.gates);
  if (has_bias) m.weights.push_back(gate_weight(c, r, "bias", 3, direction, 0, order, false, one_bias ? second : 0));
  if (has_bias && !one_bias)
    m.weights.push_back(gate_weight(c, r, "recurrent_bias", 3, direction, second, order, false));
  if (peepholes) m.weights.push_back(gate_weight(c, r, "peephole_weights", 7, direction, 0, {0, 2, 1}, false));
  c.need_header("nn/recurrent.hpp");
  const std::string name = c.to.add_member(std::move(m), c.suggestion());
  std::string arguments = r.x;
  if (c.has(4)) arguments += ", nn::lengths(cast<std::int32_t>({4}))";
  if (c.has(5))
    arguments += form(", nn::initial_state($$)", direction_of(r, 5, direction, true),
                      r.lstm ? ", " + direction_of(r, 6, direction, true) : "");
  std::vector<std::string> names{c.to.name_for("states"), c.to.name_for("last_state")};
  if (r.lstm) names.push_back(c.to.name_for("last_cell"));
  c.to.add_statement({names, c.filled(form("$($)", name, arguments)), ""});
  return names;
}

/// One direction as a loop over its steps.
inline std::vector<std::string> recurrent_loop(call& c, const recurrent_node& r, std::size_t direction, bool reverse) {
  const std::int64_t n = r.units, all = r.gates * n;
  const std::size_t functions = r.lstm ? 3 : r.gru ? 2 : 1;
  for (std::size_t i = 0; i < functions; ++i) c.holes[form("f$", i)] = r.activations.at(direction * functions + i);
  c.holes["by"] = stated(c, "by", form("transpose<1, 0>($)", direction_of(r, 2, direction)));
  std::string input = form("matmul($, transpose<1, 0>($))", r.x, direction_of(r, 1, direction));
  c.holes["bias"] = "";
  if (c.has(3)) {
    const std::string both = stated(c, "biases", direction_of(r, 3, direction)), bias = slice_text(0, all, all, both);
    input += " + " + slice_text(0, 0, all, both);
    if (r.gru)
      c.holes["bias"] = " + " + stated(c, "bias", bias);
    else
      input += " + " + bias;
  }
  input = stated(c, "inputs", input);
  for (const char* each :
       {"h", "cell", "z", "a", "b", "step", "next", "next_cell", "i", "f", "u", "valid", "kept", "kept_cell"})
    c.holes[each] = c.to.name_for(each);
  if (r.lstm) {
    const std::string peepholes = c.has(7) ? stated(c, "peepholes", direction_of(r, 7, direction)) : "";
    for (std::int64_t k = 0; k < 3; ++k)
      c.holes[form("p$", k)] = peepholes.empty() ? ""
                                                 : form(" + $ * $", slice_text(0, k * n, n, peepholes),
                                                        c.holes[k == 1 ? "next_cell" : "cell"]);
  }
  const auto gate = [&](std::int64_t k, const char* of) { return slice_text(1, k * n, n, of); };
  std::vector<std::pair<const char*, std::string>> steps;
  if (r.lstm) {
    steps = {{"a", "{z} + matmul({h}, {by})"},
             {"i", form("{f0}(${p0})", gate(0, "{a}"))},
             {"f", form("{f0}(${p2})", gate(2, "{a}"))},
             {"next_cell", form("{f} * {cell} + {i} * {f1}($)", gate(3, "{a}"))},
             {"next", form("{f0}(${p1}) * {f2}({next_cell})", gate(1, "{a}"))}};
  } else if (r.gru && r.linear_before_reset) {
    steps = {{"b", "matmul({h}, {by}){bias}"},
             {"u", form("{f0}($ + $)", gate(0, "{z}"), gate(0, "{b}"))},
             {"f", form("{f0}($ + $)", gate(1, "{z}"), gate(1, "{b}"))},
             {"i", form("{f1}($ + {f} * $)", gate(2, "{z}"), gate(2, "{b}"))}};
  } else if (r.gru) {
    steps = {{"a", "{z}{bias}"},
             {"b", form("matmul({h}, $)", slice_text(1, 0, 2 * n, "{by}"))},
             {"u", form("{f0}($ + $)", gate(0, "{a}"), gate(0, "{b}"))},
             {"f", form("{f0}($ + $)", gate(1, "{a}"), gate(1, "{b}"))},
             {"i", form("{f1}($ + matmul({f} * {h}, $))", gate(2, "{a}"), gate(2, "{by}"))}};
  } else {
    steps = {{"next", "{f0}({z} + matmul({h}, {by}))"}};
  }
  if (r.gru) steps.emplace_back("next", "(1 - {u}) * {i} + {u} * {h}");
  std::string parameters = r.lstm ? "auto {h}, auto {cell}, auto {z}" : "auto {h}, auto {z}", operands,
              results = r.lstm ? "{next}, {next_cell}, {next}" : "{next}, {next}";
  const std::string zeros = form("zeros<$, $>(g)", cpp_type(c.operand(0).type), integers{r.batch, integer(n)});
  for (std::size_t k = 5; k < (r.lstm ? 7u : 6u); ++k)
    operands += ", " + (c.has(k) ? direction_of(r, k, direction, true) : zeros);
  operands += form(", rows($)", input);
  if (c.has(4)) {
    // After the end of a sequence, states stay as they are, and results are 0.
    c.holes["lengths"] = stated(c, "lengths", "cast<std::int64_t>({4})");
    parameters += ", auto {step}";
    operands += form(", rows(range<std::int64_t, $>(g))", r.steps);
    steps.emplace_back("valid", "expand_dims<1>({step} < {lengths})");
    steps.emplace_back("kept", "select({valid}, {next}, {h})");
    if (r.lstm) steps.emplace_back("kept_cell", "select({valid}, {next_cell}, {cell})");
    results = form("{kept}$, select({valid}, {next}, 0)", r.lstm ? ", {kept_cell}" : "");
  }
  std::string body;
  for (const auto& [name, text] : steps) body += form("const auto {$} = let($); ", name, text);
  std::vector<std::string> names{c.to.name_for("last_state")};
  if (r.lstm) names.push_back(c.to.name_for("last_cell"));
  names.push_back(c.to.name_for("states"));
  c.to.uses_graph = true;
  c.need_header("control_flow.hpp");
  c.to.add_statement({names,
                      c.filled(form("scan([&]($) { $return std::tuple($); }$$)", parameters, body, results,
                                    reverse ? ", scan_options{.reverse = true}" : "", operands)),
                      ""});
  std::rotate(names.begin(), names.end() - 1, names.end());
  return names;
}

inline void recurred(call& c) {
  for (const std::size_t i : {0u, 1u, 2u, 5u, 6u}) c.need_rank(i, 3);
  for (const std::size_t i : {3u, 7u}) c.need_rank(i, 2);
  recurrent_node r;
  r.lstm = c.of.op == "LSTM";
  r.gru = c.of.op == "GRU";
  r.gates = r.lstm ? 4 : r.gru ? 3 : 1;
  const value& x = c.operand(0);
  r.batch_first = c.flag("layout");
  r.units = c.number("hidden_size", c.extent(2, 2).is_number() ? c.extent(2, 2).number() : 0);
  r.linear_before_reset = c.flag("linear_before_reset");
  const std::string direction = c.word_of("direction", {"forward", "reverse", "bidirectional"});
  const std::size_t directions = direction == "bidirectional" ? 2 : 1;
  if (c.has_attribute("clip")) c.refuse("clip is not supported");
  if (c.flag("input_forget")) c.refuse("input_forget is not supported");
  if (c.find("activation_alpha") || c.find("activation_beta"))
    c.refuse("activations with parameters are not supported");
  if (!c.extent(1, 1).is(r.gates * r.units)) c.refuse("hidden_size does not fit the weights");
  const std::vector<std::string> normal = r.lstm  ? std::vector<std::string>{"sigmoid", "tanh", "tanh"}
                                          : r.gru ? std::vector<std::string>{"sigmoid", "tanh"}
                                                  : std::vector<std::string>{"tanh"};
  std::vector<std::string> usual;
  for (std::size_t d = 0; d < directions; ++d) usual.insert(usual.end(), normal.begin(), normal.end());
  r.activations = usual;
  if (const auto* a = c.find("activations")) {
    r.activations = a->strings;
    for (std::string& each : r.activations) {
      for (char& letter : each) letter = static_cast<char>(letter >= 'A' && letter <= 'Z' ? letter + 32 : letter);
      if (each != "sigmoid" && each != "tanh" && each != "relu" && each != "softplus" && each != "softsign")
        c.refuse("the activation " + each + " is not supported");
    }
    if (r.activations.size() != usual.size())
      c.refuse("activations must name " + std::to_string(usual.size()) + " functions");
  }
  r.steps = x.extents[r.batch_first ? 1 : 0];
  r.batch = x.extents[r.batch_first ? 0 : 1];
  r.x = r.batch_first ? stated(c, "steps_first", "transpose<1, 0, 2>({0})") : named(c, 0);
  // States of zeros are what a layer starts with.
  if (c.has(5) && is_zero(*c.in[5]) && (!c.has(6) || is_zero(*c.in[6])))
    for (const std::size_t i : {5u, 6u})
      if (c.has(i)) c.in[i] = nullptr;
  bool constants = r.activations == usual && x.type == float32 && !x.known() && (!r.lstm || c.has(5) == c.has(6));
  for (const std::size_t i : {1u, 2u, 3u, 7u})
    if (c.has(i)) constants &= c.in[i]->trained();
  std::vector<std::vector<std::string>> parts;  // of both directions: states, last state, last cell
  for (std::size_t d = 0; d < directions; ++d) {
    const bool reverse = d == 1 || direction == "reverse";
    parts.push_back(constants ? recurrent_layer(c, r, d, reverse) : recurrent_loop(c, r, d, reverse));
  }
  const integer n(r.units), count(static_cast<std::int64_t>(directions));
  const auto together = [&](std::size_t part, std::size_t axis, const char* text) {
    std::vector<std::string> texts;
    for (const auto& each : parts) texts.push_back(form("expand_dims<$>($)", axis, form(text, each[part])));
    return directions == 1 ? texts[0] : form("concat<$>($)", axis, joined(texts));
  };
  const integers last = r.batch_first ? integers{r.batch, count, n} : integers{count, r.batch, n};
  c.result(0, r.batch_first ? integers{r.batch, r.steps, count, n} : integers{r.steps, count, r.batch, n});
  c.text = together(0, r.batch_first ? 2 : 1, r.batch_first ? "transpose<1, 0, 2>($)" : "$");
  also(c, 1, together(1, r.batch_first ? 1 : 0, "$"), last);
  if (r.lstm) also(c, 2, together(2, r.batch_first ? 1 : 0, "$"), last);
}

inline constexpr row recurrent_rows[] = {
    {"GRU", {recurred}, "scan rows let select expand_dims squeeze sigmoid tanh relu softplus softsign zeros range"},
    {"LSTM", {recurred}, "scan scan_options concat slice"},
    {"RNN", {recurred}, "matmul transpose"},
};

}  // namespace tool::importer
