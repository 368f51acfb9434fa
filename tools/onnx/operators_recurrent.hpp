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
  const std::string axis = is_state && r.batch_first ? "1" : "0";
  return "squeeze<" + axis + ">(slice<" + axis + ", " + std::to_string(direction) + ", 1>({" + std::to_string(operand) +
         "}))";
}

/// One direction as a layer with constant weights. Returns the names of the states and of the last states.
inline std::vector<std::string> recurrent_layer(call& c, const recurrent_node& r, std::size_t direction, bool reverse) {
  const std::vector<std::size_t> order = r.lstm  ? std::vector<std::size_t>{0, 2, 3, 1}
                                         : r.gru ? std::vector<std::size_t>{1, 0, 2}
                                                 : std::vector<std::size_t>{0};
  member m;
  m.type = "nn::" +
           std::string(r.lstm  ? "lstm"
                       : r.gru ? "gru"
                               : "simple_rnn") +
           "<" + std::to_string(r.units) + ", nn::recurrent_options{.time_major = true}>";
  m.weights.push_back(gate_weight(c, r, "weights", 1, direction, 0, order, true));
  m.weights.push_back(gate_weight(c, r, "recurrent_weights", 2, direction, 0, order, true));
  std::string options;
  const auto option = [&](const std::string& text) { options += (options.empty() ? "." : ", .") + text; };
  if (!c.has(3)) option("use_bias = false");
  if (c.has(3) && !r.gru) option("two_biases = true");
  if (r.gru && !r.linear_before_reset) option("reset_after = false");
  if (reverse) option("reverse = true");
  if (r.lstm && c.has(7)) option("peepholes = true");
  if (c.has(3)) {
    const bool one = r.gru && !r.linear_before_reset;
    const auto second = static_cast<std::size_t>(r.gates);
    m.weights.push_back(gate_weight(c, r, "bias", 3, direction, 0, order, false, one ? second : 0));
    if (!one) m.weights.push_back(gate_weight(c, r, "recurrent_bias", 3, direction, second, order, false));
  }
  if (r.lstm && c.has(7)) m.weights.push_back(gate_weight(c, r, "peephole_weights", 7, direction, 0, {0, 2, 1}, false));
  m.options = options;
  c.need_header("nn/recurrent.hpp");
  const std::string name = c.to.add_member(std::move(m), c.suggestion());
  std::string arguments;
  if (c.has(4)) arguments += ", nn::lengths(cast<std::int32_t>({4}))";
  if (c.has(5))
    arguments += ", nn::initial_state(" + direction_of(r, 5, direction, true) +
                 (r.lstm ? ", " + direction_of(r, 6, direction, true) : "") + ")";
  std::vector<std::string> names{c.to.name_for("states"), c.to.name_for("last_state")};
  if (r.lstm) names.push_back(c.to.name_for("last_cell"));
  c.to.add_statement({names, c.filled(name + "(" + r.x + arguments + ")"), ""});
  return names;
}

/// One direction as a loop over its steps.
inline std::vector<std::string> recurrent_loop(call& c, const recurrent_node& r, std::size_t direction, bool reverse) {
  const std::int64_t n = r.units, all = r.gates * n;
  const auto function = [&](std::size_t i) { return r.activations.at(direction * (r.lstm ? 3 : r.gru ? 2 : 1) + i); };
  const auto name = [&](const char* text) { return c.to.name_for(text); };
  const std::string by = stated(c, "by", "transpose<1, 0>(" + direction_of(r, 2, direction) + ")");
  std::string input = "matmul(" + r.x + ", transpose<1, 0>(" + direction_of(r, 1, direction) + "))", bias;
  if (c.has(3)) {
    const std::string both = stated(c, "biases", direction_of(r, 3, direction));
    bias = "slice<0, " + list_text({all, all}) + ">(" + both + ")";
    input += " + slice<0, " + list_text({0, all}) + ">(" + both + ")";
    if (!r.gru) input += " + " + bias;
    if (r.gru) bias = stated(c, "bias", bias);
  }
  input = stated(c, "inputs", input);
  const std::string h = name("h"), cell = name("cell"), z = name("z"), a = name("a"), b = name("b"),
                    step = name("step"), next = name("next"), next_cell = name("next_cell"), i = name("i"),
                    f = name("f"), u = name("u"), valid = name("valid"), kept = name("kept"),
                    kept_cell = name("kept_cell");
  const auto gate = [&](std::int64_t k, const std::string& of) {
    return "slice<1, " + list_text({k * n, n}) + ">(" + of + ")";
  };
  std::string body;
  const auto let = [&](const std::string& to, const std::string& text) {
    body += "const auto " + to + " = let(" + text + "); ";
  };
  if (r.lstm) {
    std::string peepholes = c.has(7) ? stated(c, "peepholes", direction_of(r, 7, direction)) : "";
    const auto peephole = [&](std::int64_t k, const std::string& of) {
      return peepholes.empty() ? "" : " + slice<0, " + list_text({k * n, n}) + ">(" + peepholes + ") * " + of;
    };
    let(a, z + " + matmul(" + h + ", " + by + ")");
    let(i, function(0) + "(" + gate(0, a) + peephole(0, cell) + ")");
    let(f, function(0) + "(" + gate(2, a) + peephole(2, cell) + ")");
    let(next_cell, f + " * " + cell + " + " + i + " * " + function(1) + "(" + gate(3, a) + ")");
    let(next, function(0) + "(" + gate(1, a) + peephole(1, next_cell) + ") * " + function(2) + "(" + next_cell + ")");
  } else if (r.gru) {
    const std::string more = bias.empty() ? "" : " + " + bias;
    if (r.linear_before_reset) {
      let(b, "matmul(" + h + ", " + by + ")" + more);
      let(u, function(0) + "(" + gate(0, z) + " + " + gate(0, b) + ")");
      let(f, function(0) + "(" + gate(1, z) + " + " + gate(1, b) + ")");
      let(i, function(1) + "(" + gate(2, z) + " + " + f + " * " + gate(2, b) + ")");
    } else {
      const std::string first = "slice<1, " + list_text({0, 2 * n}) + ">(" + by + ")";
      let(a, z + more);
      let(b, "matmul(" + h + ", " + first + ")");
      let(u, function(0) + "(" + gate(0, a) + " + " + gate(0, b) + ")");
      let(f, function(0) + "(" + gate(1, a) + " + " + gate(1, b) + ")");
      let(i, function(1) + "(" + gate(2, a) + " + matmul(" + f + " * " + h + ", " + gate(2, by) + "))");
    }
    let(next, "(1 - " + u + ") * " + i + " + " + u + " * " + h);
  } else {
    let(next, function(0) + "(" + z + " + matmul(" + h + ", " + by + "))");
  }
  std::string operands, parameters = "auto " + h + (r.lstm ? ", auto " + cell : "") + ", auto " + z;
  const integers state{r.batch, integer(n)};
  for (const std::size_t k : {5u, 6u}) {
    if (k == 6 && !r.lstm) continue;
    operands += ", " + (c.has(k) ? direction_of(r, k, direction, true)
                                 : "zeros<" + cpp_type(c.operand(0).type) + ", " + importer::dims_text(state) + ">(g)");
  }
  operands += ", rows(" + input + ")";
  std::string results = next + (r.lstm ? ", " + next_cell : "") + ", " + next;
  if (c.has(4)) {
    // After the end of a sequence, states stay as they are, and results are 0.
    const std::string lengths = stated(c, "lengths", "cast<std::int64_t>({4})");
    parameters += ", auto " + step;
    operands += ", rows(range<std::int64_t, " + r.steps.text() + ">(g))";
    let(valid, "expand_dims<1>(" + step + " < " + lengths + ")");
    let(kept, "select(" + valid + ", " + next + ", " + h + ")");
    results = kept;
    if (r.lstm) {
      let(kept_cell, "select(" + valid + ", " + next_cell + ", " + cell + ")");
      results += ", " + kept_cell;
    }
    results += ", select(" + valid + ", " + next + ", 0)";
  }
  std::vector<std::string> names{name("last_state")};
  if (r.lstm) names.push_back(name("last_cell"));
  names.push_back(name("states"));
  c.to.uses_graph = true;
  c.need_header("control_flow.hpp");
  const std::string loop = "scan([&](" + parameters + ") { " + body + "return std::tuple(" + results + "); }" +
                           (reverse ? ", scan_options{.reverse = true}" : "") + operands + ")";
  c.to.add_statement({names, c.filled(loop), ""});
  std::rotate(names.begin(), names.end() - 1, names.end());
  return names;
}

inline void recurred(call& c) {
  for (const std::size_t i : {0u, 1u, 2u, 5u, 6u}) c.need_rank(i, 3);
  for (const std::size_t i : {3u, 7u}) c.need_rank(i, 2);
  recurrent_node r;
  r.lstm = c.of.op == "LSTM", r.gru = c.of.op == "GRU";
  r.gates = r.lstm ? 4 : r.gru ? 3 : 1;
  const value &x = c.operand(0), &w = c.operand(1);
  c.operand(2);
  r.batch_first = c.number("layout", 0) != 0;
  r.units = c.number("hidden_size", c.extent(2, 2).is_number() ? c.extent(2, 2).number() : 0);
  r.linear_before_reset = c.number("linear_before_reset", 0) != 0;
  const std::string direction = c.word_of("direction", {"forward", "reverse", "bidirectional"});
  const std::size_t directions = direction == "bidirectional" ? 2 : 1;
  if (c.has_attribute("clip")) c.refuse("clip is not supported");
  if (c.number("input_forget", 0) != 0) c.refuse("input_forget is not supported");
  if (c.find("activation_alpha") || c.find("activation_beta"))
    c.refuse("activations with parameters are not supported");
  if (!w.extents[1].is(r.gates * r.units)) c.refuse("hidden_size does not fit the weights");
  bool usual = true;
  const std::vector<std::string> normal = r.lstm  ? std::vector<std::string>{"sigmoid", "tanh", "tanh"}
                                          : r.gru ? std::vector<std::string>{"sigmoid", "tanh"}
                                                  : std::vector<std::string>{"tanh"};
  for (std::size_t d = 0; d < directions; ++d) r.activations.insert(r.activations.end(), normal.begin(), normal.end());
  if (const auto* a = c.find("activations")) {
    r.activations.clear();
    for (std::string each : a->strings) {
      std::transform(each.begin(), each.end(), each.begin(), [](char letter) {
        return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
      });
      if (each != "sigmoid" && each != "tanh" && each != "relu" && each != "softplus" && each != "softsign")
        c.refuse("the activation " + each + " is not supported");
      usual &= each == normal[r.activations.size() % normal.size()];
      r.activations.push_back(each);
    }
    if (r.activations.size() != directions * normal.size())
      c.refuse("activations must name " + std::to_string(directions * normal.size()) + " functions");
  }
  r.steps = x.extents[r.batch_first ? 1 : 0], r.batch = x.extents[r.batch_first ? 0 : 1];
  r.x = r.batch_first ? stated(c, "steps_first", "transpose<1, 0, 2>({0})") : named(c, 0);
  // States of zeros are what a layer starts with.
  if (c.has(5) && is_zero(*c.in[5]) && (!c.has(6) || is_zero(*c.in[6])))
    for (const std::size_t i : {5u, 6u})
      if (c.has(i)) c.in[i] = nullptr;
  bool constants = usual && x.type == float32 && !x.known() && c.has(5) == (c.has(6) || (!r.lstm && c.has(5)));
  for (const std::size_t i : {1u, 2u, 3u, 7u})
    if (c.has(i)) constants &= c.in[i]->trained();
  std::vector<std::vector<std::string>> parts;  // of both directions: states, last state, last cell
  for (std::size_t d = 0; d < directions; ++d) {
    const bool reverse = d == 1 || direction == "reverse";
    parts.push_back(constants ? recurrent_layer(c, r, d, reverse) : recurrent_loop(c, r, d, reverse));
  }
  const integer n(r.units), count(static_cast<std::int64_t>(directions));
  const auto together = [&](std::size_t part, const std::string& axis, const std::string& transposed) {
    std::string text;
    for (const auto& each : parts)
      text +=
          (text.empty() ? "" : ", ") + ("expand_dims<" + axis + ">(" +
                                        (transposed.empty() ? each[part] : transposed + "(" + each[part] + ")") + ")");
    return directions == 1 ? text : "concat<" + axis + ">(" + text + ")";
  };
  const std::string states = together(0, r.batch_first ? "2" : "1", r.batch_first ? "transpose<1, 0, 2>" : "");
  const integers last = r.batch_first ? integers{r.batch, count, n} : integers{count, r.batch, n};
  c.result(0, r.batch_first ? integers{r.batch, r.steps, count, n} : integers{r.steps, count, r.batch, n});
  c.text = states;
  also(c, 1, together(1, r.batch_first ? "1" : "0", ""), last);
  if (r.lstm) also(c, 2, together(2, r.batch_first ? "1" : "0", ""), last);
}

inline constexpr row recurrent_rows[] = {
    {"GRU", {recurred}, "scan rows let select expand_dims squeeze sigmoid tanh relu softplus softsign zeros range"},
    {"LSTM", {recurred}, "scan scan_options concat slice"},
    {"RNN", {recurred}, "matmul transpose"},
};

}  // namespace tool::importer
