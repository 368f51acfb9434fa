// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <queue>

#include "importer.hpp"

/// Repeated parts of a model, such as the layers of a transformer, become structures.
namespace tool::importer {

namespace onnx = weft::onnx;

void for_each_read(const onnx::node& n, const std::function<void(const std::string&)>& f) {
  for (const std::string& name : n.inputs)
    if (!name.empty()) f(name);
  const auto in_graph = [&](const onnx::graph& g) {
    for (const onnx::node& inner : g.nodes) for_each_read(inner, f);
    for (const onnx::value_info& o : g.outputs) f(o.name);
  };
  for (const onnx::attribute& a : n.attributes) {
    if (a.g) in_graph(*a.g);
    for (const onnx::graph& g : a.graphs) in_graph(g);
  }
}

namespace {

/// Returns the name of a scope's class in PyTorch's metadata, or a name made from the scope: "encoder_layer" of
/// "encoder.layers.encoder_layer_0".
std::string class_of(const onnx::node& n, const std::string& scope) {
  const auto parts = [&](const char* key) {
    std::vector<std::string> all;
    for (const auto& [name, text] : n.metadata)
      if (name == key)
        for (std::size_t at = 0, end;
             (at = text.find('\'', at)) != text.npos && (end = text.find('\'', at + 1)) != text.npos; at = end + 1)
          all.push_back(text.substr(at + 1, end - at - 1));
    return all;
  };
  const auto scopes = parts("pkg.torch.onnx.name_scopes"), classes = parts("pkg.torch.onnx.class_hierarchy");
  for (std::size_t i = 0; i < scopes.size() && i < classes.size(); ++i)
    if (scopes[i] == scope) return classes[i].substr(classes[i].rfind('.') + 1);
  std::string name = scope;
  bool numbered = false;
  while (!name.empty() && ((name.back() >= '0' && name.back() <= '9') || name.back() == '_' || name.back() == '.')) {
    numbered |= name.back() == '.';
    name.pop_back();
  }
  return name.substr(name.rfind('.') + 1) + (numbered ? "_block" : "");
}

/// Returns the innermost scope that contains both.
std::string common_scope(const std::string& a, const std::string& b) {
  std::size_t end = 0;
  for (std::size_t i = 0; i <= a.size() && i <= b.size(); ++i) {
    const bool a_ends = i == a.size() || a[i] == '.', b_ends = i == b.size() || b[i] == '.';
    if (a_ends && b_ends) end = i;
    if (i == a.size() || i == b.size() || a[i] != b[i]) break;
  }
  return a.substr(0, end);
}

/// Returns a text that is equal for blocks with equal operators, between which only numbers may differ.
std::string signature_of(const std::vector<onnx::node>& nodes, const std::vector<std::size_t>& of,
                         const std::function<const value*(const std::string&)>& constant) {
  std::map<std::string, std::string> known;
  std::string text;
  for (const std::size_t i : of) {
    const onnx::node& n = nodes[i];
    // The sum of the block's operand and its result: a block can lack it.
    if (i == of.back() && n.op_type == "Add" && of.size() > 2 && !nodes[of[0]].inputs.empty()) {
      const auto is_operand = [&](std::size_t k) { return n.inputs.at(k) == nodes[of[0]].inputs.at(0); };
      if (is_operand(0) != is_operand(1)) continue;
    }
    text += n.domain + "." + n.op_type + "(";
    for (const std::string& name : n.inputs) {
      const value* const c = name.empty() ? nullptr : constant(name);
      const std::string kind = c ? "w" + std::to_string(c->rank()) : "x";
      const auto at = known.emplace(name, kind + std::to_string(known.size())).first;
      text += name.empty() ? "," : at->second + ",";
    }
    std::vector<std::string> attributes;
    for (const onnx::attribute& a : n.attributes)
      attributes.push_back(a.name + "=" + a.s + ":" + std::to_string(a.ints.size()));
    std::sort(attributes.begin(), attributes.end());
    for (const std::string& a : attributes) text += a + ";";
    for (const std::string& name : n.outputs) known.emplace(name, "y" + std::to_string(known.size()));
    text += ")" + std::to_string(n.outputs.size());
  }
  return text;
}

/// Moves nodes to outer scopes: what several modules read, such as a mask, is computed outside of them. What joins the
/// operand of a module and its result is part of the module.
void move_to_outer_scopes(const std::vector<onnx::node>& nodes, std::vector<std::string>& scopes,
                          const std::function<const value*(const std::string&)>& constant) {
  std::map<std::string, std::size_t> producers;
  std::map<std::string, std::vector<std::size_t>> readers;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string& name : nodes[i].outputs) producers[name] = i;
    for_each_read(nodes[i], [&](const std::string& name) { readers[name].push_back(i); });
  }
  const auto has_parameters = [&](const onnx::node& n) {
    return std::any_of(n.inputs.begin(), n.inputs.end(), [&](const std::string& name) {
      const value* const v = constant(name);
      return v && v->parameter && !v->scalar();
    });
  };
  std::vector<std::string> wanted = scopes;
  for (std::size_t i = nodes.size(); i-- > 0;)
    for (const std::string& name : nodes[i].outputs)
      for (const std::size_t reader : readers[name])
        if (!has_parameters(nodes[i])) wanted[i] = common_scope(wanted[i], wanted[reader]);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const onnx::node& n = nodes[i];
    bool possible = true;
    for (const std::string& name : n.inputs)
      if (const auto at = producers.find(name); at != producers.end())
        possible &= common_scope(scopes[at->second], wanted[i]) == scopes[at->second];
    if (possible) scopes[i] = wanted[i];
    if (n.op_type != "Concat" || n.inputs.size() != 2 || !producers.count(n.inputs[1])) continue;
    const std::string& made = scopes[producers[n.inputs[1]]];
    const std::string common = common_scope(made, scopes[i]);
    const std::string module = made.substr(0, made.find('.', common.size() + 1));
    for (const std::size_t reader : readers[n.inputs[0]])
      if (reader != i && common_scope(scopes[reader], module) == module && module != common) scopes[i] = module;
  }
}

/// Returns scopes for nodes without names: "blocks.0", "blocks.1" for equal sequences of nodes that follow each other.
std::vector<std::string> repeated_parts(const std::vector<onnx::node>& nodes,
                                        const std::function<const value*(const std::string&)>& constant) {
  std::vector<std::string> scopes(nodes.size()), texts;
  std::vector<std::size_t> places;
  std::map<std::string, std::vector<std::size_t>> readers;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].op_type != "Constant") texts.push_back(signature_of(nodes, {i}, constant)), places.push_back(i);
    for_each_read(nodes[i], [&](const std::string& name) { readers[name].push_back(i); });
  }
  const std::size_t count = texts.size();
  std::size_t begin = 0, period = 0, times = 0;
  if (count > 5000) return scopes;
  for (std::size_t p = 4; 2 * p <= count; ++p)
    for (std::size_t i = 0, run = 0; i + p < count; ++i) {
      run = texts[i] == texts[i + p] ? run + 1 : 0;
      if (run >= p && (run / p + 1) * p > times * period) begin = i + 1 - run, period = p, times = run / p + 1;
    }
  if (period == 0) return scopes;
  // The sequences can begin at any of their nodes: where the fewest values enter and leave.
  const auto borders = [&](std::size_t first) {
    std::set<std::string> made, entering, leaving;
    const std::set<std::size_t> inside(places.begin() + std::ptrdiff_t(first),
                                       places.begin() + std::ptrdiff_t(first + period));
    for (const std::size_t i : inside) {
      for (const std::string& name : nodes[i].inputs)
        if (!name.empty() && !made.count(name) && !constant(name)) entering.insert(name);
      for (const std::string& name : nodes[i].outputs) {
        made.insert(name);
        for (const std::size_t reader : readers[name])
          if (!inside.count(reader)) leaving.insert(name);
      }
    }
    return entering.size() + leaving.size();
  };
  std::size_t best = begin;
  for (std::size_t first = begin; first < begin + period && first + times * period <= count; ++first)
    if (borders(first) < borders(best) && texts[first] == texts[first + period * (times - 1)]) best = first;
  for (std::size_t i = 0; i < times * period && best + i < count; ++i)
    scopes[places[best + i]] = "blocks." + std::to_string(i / period);
  return scopes;
}

}  // namespace

void importer::find_blocks() {
  block_of_.assign(nodes_.size(), 0);
  const auto constant = [&](const std::string& name) -> const value* {
    const auto at = values_.find(name);
    return at != values_.end() && at->second->known() ? at->second.get() : nullptr;
  };
  std::map<std::string, std::vector<std::size_t>> scopes;
  std::vector<std::string> scope_of_node;
  for (const onnx::node& n : nodes_) scope_of_node.push_back(scope_of(n));
  if (std::all_of(scope_of_node.begin(), scope_of_node.end(), [](const auto& each) { return each.empty(); }))
    scope_of_node = repeated_parts(nodes_, constant);
  // Nodes that optimizers have inserted have neither metadata nor a path: their scope is that of the nodes around them.
  std::map<std::string, std::string> around;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    for (const std::string& name : scope_of_node[i].empty() ? std::vector<std::string>() : nodes_[i].inputs) {
      const auto [at, is_new] = around.emplace(name, scope_of_node[i]);
      if (!is_new) at->second = common_scope(at->second, scope_of_node[i]);
    }
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (scope_of_node[i].empty() && nodes_[i].metadata.empty() && nodes_[i].name.find('/') == std::string::npos)
      for (const std::string& name : nodes_[i].outputs)
        if (const auto at = around.find(name); at != around.end())
          scope_of_node[i] = scope_of_node[i].empty() ? at->second : common_scope(scope_of_node[i], at->second);
  move_to_outer_scopes(nodes_, scope_of_node, constant);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].op_type == "Constant") continue;
    const std::string& whole = scope_of_node[i];
    if (whole.size() > 1000) continue;
    for (std::size_t dot = 0; dot != whole.npos && !whole.empty();) {
      dot = whole.find('.', dot + 1);
      scopes[whole.substr(0, dot)].push_back(i);
    }
  }
  // A list of modules is not a block itself.
  std::map<std::string, int> numbered_parts;
  for (const auto& [name, nodes] : scopes) {
    const std::size_t dot = name.rfind('.');
    const std::string last = name.substr(dot + 1);
    if (dot != name.npos && nodes.size() >= 4 && last.find_first_not_of("0123456789") == last.npos)
      ++numbered_parts[name.substr(0, dot)];
  }
  std::map<std::string, std::vector<std::string>> groups;
  for (const auto& [name, nodes] : scopes) {
    if (numbered_parts[name] > 1) continue;
    // A list of one module is not a block itself, nor is the only part of a module.
    const bool is_numbered = name.find_first_not_of("0123456789", name.rfind('.') + 1) == name.npos;
    const std::size_t dot = name.rfind('.');
    if (const auto inner = scopes.find(name + ".0"); inner != scopes.end() && inner->second.size() == nodes.size())
      continue;
    if (const auto outer = scopes.find(name.substr(0, dot == name.npos ? 0 : dot));
        !is_numbered && outer != scopes.end() && outer->second.size() == nodes.size())
      continue;
    std::size_t parameters = 0, layers = 0;
    bool reads_values = false, has_graphs = false;
    for (const std::size_t i : nodes) {
      for (const onnx::attribute& a : nodes_[i].attributes) has_graphs |= a.g || !a.graphs.empty();
      const std::size_t before = parameters;
      for (const std::string& read : nodes_[i].inputs) {
        if (read.empty()) continue;
        const value* const c = constant(read);
        parameters += c && c->parameter;
        reads_values |= !c;
      }
      layers += parameters > before;
    }
    if (nodes.size() >= 4 && layers >= 2 && reads_values && !has_graphs)
      groups[signature_of(nodes_, nodes, constant)].push_back(name);
  }
  std::vector<std::pair<std::ptrdiff_t, std::string>> chosen_scopes;  // by depth
  for (const auto& [signature, all] : groups)
    if (all.size() > 1)
      for (const std::string& each : all) chosen_scopes.emplace_back(std::count(each.begin(), each.end(), '.'), each);
  std::sort(chosen_scopes.begin(), chosen_scopes.end());
  std::vector<bool> taken(nodes_.size());
  std::map<std::string, std::size_t> count;  // of blocks that are alike
  std::erase_if(chosen_scopes, [&](const auto& each) {
    const auto& nodes = scopes[each.second];
    if (std::any_of(nodes.begin(), nodes.end(), [&](std::size_t i) { return taken[i]; })) return true;
    for (const std::size_t i : nodes) taken[i] = true;
    ++count[signature_of(nodes_, nodes, constant)];
    return false;
  });
  for (const auto& [depth, name] : chosen_scopes) {
    const auto& nodes = scopes[name];
    if (count[signature_of(nodes_, nodes, constant)] < 2) continue;
    blocks.push_back({name, class_of(nodes_[nodes[0]], name), nodes, {}});
    for (const std::size_t i : nodes) block_of_[i] = blocks.size();
  }
}

/// Returns the nodes in an order in which each can be computed, with the first node of each block in place of the
/// block.
std::vector<std::size_t> importer::order_of_nodes() {
  std::map<std::string, std::size_t> producer;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    for (const std::string& name : nodes_[i].outputs) producer[name] = i;
  for (;;) {
    const auto first_of = [&](std::size_t i) { return block_of_[i] == 0 ? i : blocks[block_of_[i] - 1].nodes[0]; };
    std::vector<std::set<std::size_t>> readers(nodes_.size());
    std::vector<std::size_t> missing(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      for_each_read(nodes_[i], [&](const std::string& name) {
        const auto at = producer.find(name);
        if (at == producer.end() || at->second == i) return;
        const std::size_t from = first_of(at->second), to = first_of(i);
        if (from != to && readers[from].insert(to).second) ++missing[to];
      });
    std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
    std::vector<bool> done(nodes_.size());
    std::size_t expected = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (first_of(i) == i) {
        ++expected;
        if (missing[i] == 0) ready.push(i);
      }
    std::vector<std::size_t> order;
    while (!ready.empty()) {
      const std::size_t i = ready.top();
      ready.pop();
      order.push_back(i);
      done[i] = true;
      for (const std::size_t reader : readers[i])
        if (--missing[reader] == 0) ready.push(reader);
    }
    if (order.size() == expected) return order;
    // A block reads what is computed from its results: it is not a function.
    bool dissolved = false;
    for (std::size_t b = 0; b < blocks.size(); ++b)
      if (!done[blocks[b].nodes[0]] && block_of_[blocks[b].nodes[0]] == b + 1) {
        for (const std::size_t i : blocks[b].nodes) block_of_[i] = 0;
        dissolved = true;
      }
    if (!dissolved)
      throw error(error_code::data_loss, "import", "the nodes of the graph depend on each other in a circle");
  }
}

value& importer::in_body(value& v) {
  if (id == 0 || v.home == id) return v;
  value*& copy = local[&v];
  if (copy) return *copy;
  copy = reordered_.emplace_back(std::make_unique<value>(v)).get();
  copy->home = id;
  copy->other = nullptr;
  copy->layer.clear();
  copy->text.clear();
  copy->stated = false;
  if (v.known() && !v.shared) return *copy;
  copy->constant = nullptr;
  copy->elements.reset();
  copy->text = name_for("x");
  copy->stated = true;
  input_names.push_back(copy->text);
  inputs.push_back(&v);
  return *copy;
}

void importer::import_block(block& b) {
  std::map<std::string, std::size_t> outside;  // how often the values of the block are read outside
  for (const std::size_t i : b.nodes)
    for (const std::string& name : nodes_[i].outputs) outside[name] = declared(name).uses;
  for (const std::size_t i : b.nodes)
    if (nodes_[i].op_type != "Shape" && nodes_[i].op_type != "Size")
      for (const std::string& name : nodes_[i].inputs)
        if (const auto at = outside.find(name); at != outside.end()) --at->second;

  for (const auto& [name, count] : outside)
    if (!name.empty()) declared(name).uses -= count > 0 ? count - 1 : 0;
  body model_body;
  std::swap(model_body, static_cast<body&>(*this));
  id = block_of_[b.nodes[0]];
  scope = b.scope;
  names = reserved_names();
  const auto leave = [&] {
    b.content = std::move(static_cast<body&>(*this));
    static_cast<body&>(*this) = std::move(model_body);
  };
  for (const bool shared : {false, true})  // variables are the last operands
    for (const std::size_t i : b.nodes)
      for (const std::string& name : nodes_[i].inputs)
        if (!name.empty() && !outside.count(name) && find(name).shared == shared) in_body(find(name));
  if (input_names.empty()) throw error(error_code::internal, "import", {"the block ", b.scope, " reads nothing"});
  first_input = input_names[0];
  for (const std::size_t i : b.nodes) import_node(nodes_[i]);
  for (const std::size_t i : b.nodes)
    for (const std::string& name : nodes_[i].outputs) {
      if (name.empty() || outside[name] == 0 || find(name).known()) continue;
      outputs.push_back(&find(name));
      returned.push_back(text_of(find(name)));
    }
  remove_unused();
  return_last_statement();
  leave();
  body& inner = b.content;
  if (inner.outputs.empty()) return;
  std::string arguments;
  for (std::size_t i = 0; i < inner.inputs.size(); ++i)
    if (!inner.input_names[i].empty()) arguments += (arguments.empty() ? "" : ", ") + text_of(*inner.inputs[i]);
  if (inner.uses_mode) arguments += ", how";
  uses_mode |= inner.uses_mode;
  member m{"", name_for(b.scope), "", {}, "", inner.id};
  for (const member& each : inner.members)
    for (weight w : each.weights) {
      w.name = each.name + "/" + w.name;
      m.weights.push_back(std::move(w));
    }
  const std::string called = m.name + "(" + arguments + ")";
  members.push_back(std::move(m));
  statement s{{}, called, ""};
  for (value* v : inner.outputs) {
    v->home = 0;
    v->other = nullptr;
    v->layer.clear();
    v->uses = outside[v->name];
    v->stated = false;
    std::string wanted = b.scope.substr(b.scope.rfind('.') + 1);
    if (wanted.find_first_not_of("0123456789") == wanted.npos) wanted = "x";
    v->text = name_for(wanted);
    v->stated = true;
    s.names.push_back(v->text);
    s.comment += (s.comment.empty() ? "" : ", ") + shape_text(physical(*v));
  }
  add_statement(std::move(s));
}

}  // namespace tool::importer
