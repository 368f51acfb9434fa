// SPDX-License-Identifier: BSL-1.0
#include <algorithm>

#include "importer.hpp"

/// The graphs in attributes of If, Loop and Scan.
namespace tool::importer {

namespace onnx = weft::onnx;

namespace {

using new_names = std::map<std::string, std::string>;

void rename(onnx::graph& g, new_names names);

void rename(onnx::node& n, const new_names& names) {
  for (auto* list : {&n.inputs, &n.outputs})
    for (std::string& name : *list)
      if (const auto at = names.find(name); at != names.end()) name = at->second;
  for (onnx::attribute& a : n.attributes) {
    if (a.g) rename(*(a.g = std::make_shared<onnx::graph>(*a.g)), names);
    for (onnx::graph& g : a.graphs) rename(g, names);
  }
}

/// Calls f(name) for the values that a graph defines.
template <class F>
void for_each_defined(const onnx::graph& g, F f) {
  for (const onnx::value_info& v : g.inputs) f(v.name);
  for (const onnx::tensor_value& t : g.initializers) f(t.name);
  for (const onnx::node& n : g.nodes)
    for (const std::string& name : n.outputs) f(name);
}

/// Renames the values that a graph reads from outside.
void rename(onnx::graph& g, new_names names) {
  for_each_defined(g, [&](const std::string& name) { names.erase(name); });
  for (onnx::node& n : g.nodes) rename(n, names);
  for (onnx::value_info& o : g.outputs)
    if (const auto at = names.find(o.name); at != names.end()) o.name = at->second;
}

}  // namespace

std::vector<value*> importer::import_graph(const onnx::graph& g, const std::vector<value*>& arguments) {
  const std::string path = path_;
  if (++depth_ > 20) throw error(error_code::unimplemented, path, "its graphs are nested too deeply");
  const std::string prefix = "graph" + std::to_string(++graphs_) + "/";
  new_names unique;
  for_each_defined(g, [&](const std::string& name) {
    if (!name.empty()) unique[name] = prefix + name;
  });
  for (std::size_t i = 0; i < g.inputs.size(); ++i) {
    if (i >= arguments.size()) throw error(error_code::data_loss, path, "its graph has more inputs than it is given");
    if (!arguments[i]) continue;
    auto& v = values_[unique[g.inputs[i].name]];
    v = std::make_unique<value>(*arguments[i]);
    v->other = nullptr;
    v->uses = 0;
  }
  for (const onnx::tensor_value& t : g.initializers) add_constant(unique[t.name], t);
  std::vector<const onnx::node*> nodes;
  for (const onnx::node& n : g.nodes) {
    nodes_read_.push_back(std::make_unique<onnx::node>(n));
    rename(*nodes_read_.back(), unique);
    nodes.push_back(nodes_read_.back().get());
    for_each_read(*nodes.back(), [&](const std::string& name) { ++declared(name).uses; });
    if (nodes_read_.size() > 100'000)
      throw error(error_code::resource_exhausted, path, "its graphs have more than 100,000 nodes");
  }
  std::vector<std::string> results;
  for (const onnx::value_info& o : g.outputs) {
    const auto at = unique.find(o.name);
    results.push_back(at == unique.end() ? o.name : at->second);
    ++declared(results.back()).uses;
  }
  for (const onnx::node* n : nodes) import_node(*n);
  path_ = path;
  --depth_;
  std::vector<value*> values;
  for (const std::string& name : results) {
    values.push_back(&find(name));
    if (values.back()->type == 0 && values.back()->text.empty())
      throw error(error_code::data_loss, path, {"its graph does not compute \"", name, "\""});
  }
  return values;
}

std::string importer::lambda(const onnx::graph& g, const std::vector<value*>& arguments, std::vector<value*>& results,
                             bool tuple, const std::string& first_result, std::size_t skipped) {
  // Values that the graph reads from outside get their names there.
  std::set<std::string> read, defined;
  for (const onnx::node& n : g.nodes) for_each_read(n, [&](const std::string& name) { read.insert(name); });
  for (const onnx::value_info& o : g.outputs) read.insert(o.name);
  for_each_defined(g, [&](const std::string& name) { defined.insert(name); });
  for (const std::string& name : read) {
    const auto at = values_.find(name);
    if (at == values_.end() || defined.count(name) || (at->second->type == 0 && at->second->text.empty())) continue;
    value& v = *at->second;
    if (v.elements && !all_numbers(*v.elements)) continue;
    const std::string text = text_of(v);
    if (v.stated || v.known()) continue;
    v.text = name_for(v.name);
    state(v, text);
  }
  const std::size_t reordered_before = reordered_.size();
  std::vector<statement> outer;
  std::swap(statements, outer);
  results = import_graph(g, arguments);
  std::set<std::string, std::less<>> words;
  std::string returned_text = first_result;
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i] = &in_order(*results[i], false);
    if (i >= skipped) returned_text += (returned_text.empty() ? "" : ", ") + ("let(" + text_of(*results[i]) + ")");
  }
  for_each_word(returned_text, [&](std::string_view word) { words.insert(std::string(word)); });
  keep_read(statements, words);
  std::string head;
  for (const value* v : arguments)
    if (!v->known()) head += (head.empty() ? "" : ", ") + ("auto" + (words.count(v->text) > 0 ? " " + v->text : ""));
  std::string text = (head.empty() ? "[&]" : "[&](" + head + ")") + std::string(" {\n");
  for (const statement& s : statements) {
    std::string line =
        "      const auto " + s.declared() + " = " + s.text + ";" + (s.comment.empty() ? "" : "  // " + s.comment);
    for (std::size_t at = line.find('\n'); at != line.npos; at = line.find('\n', at + 3)) line.insert(at + 1, "  ");
    text += line + "\n";
  }
  tuple |= results.size() - skipped + (first_result.empty() ? 0 : 1) != 1;
  text += "      return " + (tuple ? "std::tuple(" + returned_text + ")" : returned_text) + ";\n    }";
  uses_graph |= words.count("g") > 0;
  std::swap(statements, outer);
  // Copies in another order of axes are known inside only.
  for (std::size_t i = reordered_before; i < reordered_.size(); ++i)
    if (value* const v = reordered_[i]->other; v && v->other == reordered_[i].get()) v->other = nullptr;
  return text;
}

}  // namespace tool::importer
