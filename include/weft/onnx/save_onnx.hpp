// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/onnx/forms.hpp>
#include <weft/session/frozen_folding.hpp>
#include <weft/session/prepared_step.hpp>
#include <weft/version.hpp>

namespace weft {

/// Options of `save_onnx`.
struct onnx_options {
  /// The type in which the file has the float weights of products and convolutions: dtype::int8, with a scale for each
  /// output channel, as a frozen model (freeze_options) has them; or dtype::float16. Values are float, and results
  /// differ from the session's. Variables with weights that the type cannot express, such as 1e5 as float16, remain
  /// float.
  dtype weights = dtype::float32;
};

/// Writes the part of a session's graph that computes some values to an ONNX file:
/// `save_onnx("model.onnx", s, fetch(logits), feed(images))`. Nodes and variables keep their names, and named extents
/// become symbolic dimensions. The file contains the session's present values of variables; if they exceed 1 GB, these
/// are in a second file, `model.onnx.data`. Images have their channels last, as in Weft. Opset 20.
///
/// Throws unimplemented, with the node's name, for operations without an ONNX form, such as updates and random draws,
/// failed_precondition if a placeholder is needed but not fed, and the errors of onnx::write_model.
template <class... F, class... P>
void save_onnx(const std::string& path, session& s, const fetch_list<F...>& fetches, const feed_list<P...>& feeds,
               const onnx_options& options = {});
template <class... F>
void save_onnx(const std::string& path, session& s, const fetch_list<F...>& fetches, const onnx_options& options = {});

WEFT_COLD_BEGIN
namespace onnx::detail {

/// Adds the names, once for each use, that nodes read, those in their bodies included.
inline void add_uses(const node& n, std::multiset<std::string>& used) {
  used.insert(n.inputs.begin(), n.inputs.end());
  for (const attribute& a : n.attributes) {
    if (!a.g) continue;
    for (const node& inner : a.g->nodes) add_uses(inner, used);
    for (const value_info& o : a.g->outputs) used.insert(o.name);
  }
}

/// Removes nodes and initializers that nothing reads: a form may express several of Weft's nodes by one.
inline void remove_unused(graph& g) {
  std::multiset<std::string> used;
  for (const value_info& o : g.outputs) used.insert(o.name);
  std::vector<node> kept;
  for (std::size_t i = g.nodes.size(); i-- > 0;) {
    bool is_used = false;
    for (const std::string& o : g.nodes[i].outputs) is_used = is_used || used.count(o);
    if (!is_used) continue;
    if (g.nodes[i].op_type.empty()) throw error(error_code::unimplemented, "save_onnx", {g.nodes[i].doc});
    add_uses(g.nodes[i], used);
    kept.push_back(std::move(g.nodes[i]));
  }
  g.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  std::erase_if(g.initializers, [&](const tensor_value& t) { return !used.count(t.name); });
}

/// A convolution, and the sum with its bias.
struct biased_convolution {
  node *convolution, *sum;
};
/// Finds sums of a convolution that nothing else reads and one number for each channel, by the name of these numbers.
inline void find_biases(graph& g, const std::map<std::string, tensor_value*>& initializers,
                        const std::multiset<std::string>& used,
                        std::map<std::string, std::vector<biased_convolution>>& found) {
  std::map<std::string, node*> convolutions;
  for (node& n : g.nodes) {
    for (const attribute& a : n.attributes)
      if (a.g) find_biases(*a.g, initializers, used, found);
    if ((n.op_type == "Conv" || n.op_type == "ConvTranspose") && used.count(n.outputs[0]) == 1)
      convolutions[n.outputs[0]] = &n;
    if (n.op_type != "Add") continue;
    for (std::size_t k = 0; k < 2; ++k) {
      const auto x = convolutions.find(n.inputs[k]);
      const auto b = initializers.find(n.inputs[1 - k]);
      if (x == convolutions.end() || b == initializers.end()) continue;
      const std::vector<std::int64_t>& extents = b->second->extents;
      std::int64_t all = 1;
      for (const std::int64_t extent : extents) all *= extent;
      const bool for_channels = extents.size() > 2 && extents[1] == all;
      const bool one_filter = x->second->inputs.size() == 3;
      if (for_channels && (all == 1) == one_filter) found[b->first].push_back({x->second, &n});
      break;
    }
  }
}
/// Removes these sums, and the empty operands of other convolutions.
inline void remove_sums(graph& g) {
  std::erase_if(g.nodes, [](const node& n) { return n.op_type.empty(); });
  for (node& n : g.nodes) {
    if (n.op_type.starts_with("Conv") && n.inputs.back().empty()) n.inputs.pop_back();
    for (attribute& a : n.attributes)
      if (a.g) remove_sums(*a.g);
  }
}
/// Makes biases operands of their convolutions.
inline void add_biases(graph& g) {
  std::multiset<std::string> used;
  for (const value_info& o : g.outputs) used.insert(o.name);
  for (const node& n : g.nodes) add_uses(n, used);
  std::map<std::string, tensor_value*> initializers;
  for (tensor_value& t : g.initializers) initializers[t.name] = &t;
  std::map<std::string, std::vector<biased_convolution>> found;
  find_biases(g, initializers, used, found);
  for (const auto& [name, calls] : found) {
    if (used.count(name) != calls.size()) continue;  // others read it as [1, channels, 1, 1]
    std::vector<std::int64_t>& extents = initializers[name]->extents;
    extents = {extents[1]};
    for (const biased_convolution& c : calls) {
      c.convolution->inputs.resize(2);
      c.convolution->inputs.push_back(name);
      c.convolution->outputs = c.sum->outputs;
      c.sum->op_type.clear();
    }
  }
  remove_sums(g);
}

/// Adds what is computed from variables only, such as a part of a matrix, whose products read weights of another type.
inline void add_folded(exporter& to, exporter::scope& all, session& s, const plan::step_request& request) {
  const weft::detail::frozen_folding folding(s.resources(), s.of(), request);
  plan::step_request folded;
  for (value v : folding.request.fetches) {
    while (std::string_view(all.g[v.node].def.op->name) == "transpose") v = all.g[v.node].def.inputs[0];  // keeps names
    const auto* const op = all.g[v.node].def.op;
    if (!is_operation<variable_op>(op) && !is_operation<constant_op>(op) &&
        all.values.emplace(std::pair(v.node, v.output), std::make_shared<exported_value>()).second)
      folded.fetches.push_back(v);
  }
  if (folded.fetches.empty()) return;
  prepared_step once(s, folded);
  once.run(nullptr, [&](std::size_t i, const shape& extents) {
    const value of = folded.fetches[i];
    exported_value& v = *all.values.at({of.node, of.output});
    v.info = {all.g.info(of).type, extents};
    v.name = to.name_of(all, of.node);
    v.home = &all.to;
    v.owner = storage(v.info.bytes());
    v.data = v.owner.data();
    return v.owner.data();
  });
}

/// Returns the model that save_onnx writes. It refers to the session's variables.
inline model model_of(session& s, const plan::step_request& request, const onnx_options& options) {
  constexpr std::int64_t ir_version = 9, opset = 20;
  model made;
  made.ir_version = ir_version;
  made.producer = "weft";
  made.producer_version = WEFT_VERSION_STRING;
  made.opsets[""] = opset;
  made.main.name = "weft";
  exporter to(s, made, options.weights);
  exporter::scope all{s.of(), made.main};
  for (const value& v : request.feeds) to.add_input(all, v);
  to.reserve_names();
  if (options.weights != dtype::float32) add_folded(to, all, s, request);
  to.add_nodes(all, request.fetches);
  std::set<std::string> taken;
  for (const value& v : request.fetches) to.add_output(all, v, taken);
  remove_unused(made.main);
  add_biases(made.main);
  return made;
}

inline void save(const std::string& path, session& s, plan::step_request request, const onnx_options& options) {
  if (options.weights != dtype::float32 && options.weights != dtype::float16 && options.weights != dtype::int8)
    throw error(error_code::invalid_argument, "save_onnx",
                {"weights must be dtype::float32, float16 or int8; they are ", weft::name(options.weights)});
  for (const std::uint32_t effect : request.targets) request.fetches.push_back({effect, 0});  // refused by name
  const model made = model_of(s, request, options);
  std::uint64_t bytes = 0;
  for (const tensor_value& t : made.main.initializers) bytes += t.bytes.size();
  constexpr std::uint64_t large = std::uint64_t{1} << 30, small = 1024;
  write_model(path, made, bytes > large ? write_options{small} : write_options{});
}

}  // namespace onnx::detail
WEFT_COLD_END

template <class... F, class... P>
void save_onnx(const std::string& path, session& s, const fetch_list<F...>& fetches, const feed_list<P...>& feeds,
               const onnx_options& options) {
  static_cast<void>(s.prepare(fetches, feeds));  // reports mistakes in the lists
  onnx::detail::save(path, s, detail::request_of(fetches, feeds), options);
}
template <class... F>
void save_onnx(const std::string& path, session& s, const fetch_list<F...>& fetches, const onnx_options& options) {
  save_onnx(path, s, fetches, feed_list<>{}, options);
}

}  // namespace weft
