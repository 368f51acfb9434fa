// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <weft/graph/extent_bindings.hpp>
#include <weft/graph/subgraphs.hpp>
#include <weft/onnx/file.hpp>
#include <weft/ops/arrays/transpose.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/fused_operations.hpp>
#include <weft/session/quantize.hpp>
#include <weft/session/session.hpp>

/// Translates nodes of a graph to nodes of an ONNX model; see onnx/save_onnx.hpp.
WEFT_COLD_BEGIN
namespace weft::onnx::detail {

/// The order of a value's axes in ONNX: its axis i is axis `layout[i]` of Weft's value. Empty: the same order.
/// Transposes only change the layout: nodes that accept any order pass it on, and the others transpose their operands.
using layout = std::vector<std::int64_t>;

/// An attribute of an ONNX node.
template <class X>
attribute attribute_of(const char* name, X&& x) {
  attribute a;
  a.name = name;
  using T = std::remove_cvref_t<X>;
  if constexpr (std::is_same_v<T, graph>)
    a.type = attribute::graph_type, a.g = std::make_shared<graph>(std::forward<X>(x));
  else if constexpr (std::is_integral_v<T>)
    a.type = attribute::int_type, a.i = x;
  else if constexpr (std::is_floating_point_v<T>)
    a.type = attribute::float_type, a.f = static_cast<float>(x);
  else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>)
    a.type = attribute::ints_type, a.ints = x;
  else
    a.type = attribute::string_type, a.s = x;
  return a;
}

/// A value of a graph, with its names in the model.
struct exported_value {
  struct place {
    layout order;
    std::string name;
  };
  weft::value_info info;
  std::string name;                             ///< of the node
  std::vector<place> places;                    ///< the first is the order in which it is computed
  const std::byte* data = nullptr;              ///< of a variable or a constant
  storage owner;                                ///< owns `data`, if not the session
  graph* home = nullptr;                        ///< contains the nodes that compute it
  std::shared_ptr<exported_value> source = {};  ///< of a transposed variable or constant
  layout turned = {};                           ///< the axes of `source`

  /// Returns the first place without added axes, or null.
  const place* own() const {
    for (const place& p : places)
      if (p.order.size() <= info.extents.rank) return &p;
    return nullptr;
  }
  /// Returns this order of the axes of `source`.
  layout in_source(layout order) const {
    const auto rank = std::int64_t(turned.size());
    if (order.empty()) return turned;
    const std::int64_t added = std::int64_t(order.size()) - rank;
    for (std::int64_t& axis : order)
      if (axis >= added) axis = turned[std::size_t(axis - added)] + added;
    return order;
  }
  const layout& order() const {
    static const layout same;
    return own() ? own()->order : same;
  }
};
using shared_value = std::shared_ptr<exported_value>;

struct exported_call;

class exporter {
 public:
  /// `weights`: the type of those of products and convolutions in the file.
  exporter(session& s, model& to, dtype weights) : session_(s), model_(to), weights_(weights), top_(s.of()) {
    for (const auto& [code, size] : top_.whole().fixed_extents()) fixed_.bind(code, size);
  }

  /// A graph, or a subgraph of a node, that becomes nodes of `to`.
  struct scope {
    const weft::graph& g;
    graph& to;
    std::map<std::pair<std::uint32_t, std::uint32_t>, shared_value> values = {};
    std::uint32_t node = 0;  // being exported
  };

  void add_input(scope& s, value v);
  /// Reserves the names of variables for their initializers.
  void reserve_names();
  void add_output(scope& s, value v, std::set<std::string>& taken);
  /// Exports the nodes on which the results depend.
  void add_nodes(scope& s, const sequence<value>& results);
  /// Exports a subgraph, whose parameters are values of the graph around it, into `to`. Returns its results.
  std::vector<shared_value> add_subgraph(const subgraph& b, graph& to, const std::vector<shared_value>& parameters,
                                         const std::vector<bool>& wanted);
  /// Adds an input to a graph.
  shared_value input(graph& to, const weft::value_info& info, const std::string& name);
  /// Makes a value an output of a subgraph.
  void return_value(graph& from, const std::string& name, const weft::value_info& info);

  /// Returns the name of a value in this order, and transposes it if no node has yet. An order with more axes than the
  /// value prepends axes of extent 1.
  std::string at(exported_value& v, layout order);
  /// The same for weights of a product or a convolution, whose integers have a scale for each index of `axis`.
  std::string weights(const shared_value& v, const layout& order, std::size_t axis);
  /// Adds a node, and returns the name of its first output.
  std::string add(graph& to, const char* operation, std::vector<std::string> inputs,
                  std::vector<attribute> attributes = {}, std::size_t outputs = 1);
  std::string constant(dtype type, std::vector<std::int64_t> extents, const void* data, const std::string& name);
  std::string integers(const std::vector<std::int64_t>& all);
  std::string scalar(dtype type, std::uint64_t bits);
  std::string number(dtype type, double x);
  /// Returns infinity, or the largest integer of a type; or -infinity, or the lowest one.
  std::string extreme(dtype type, bool highest);
  /// Returns the name of one-dimensional extents.
  std::string extents(const shape& s, std::size_t from = 0, std::size_t to = max_rank);
  /// The same with -1 for the only extent that is not a number.
  std::string resized(const shape& s);
  /// Returns an extent of a shape if it is known, or a negative code.
  std::int64_t known(std::int64_t extent) const;
  /// Returns a value of the extent for computations that do not depend on it.
  std::int64_t sample(std::int64_t extent) const;
  std::string unique(const std::string& name) { return unique(name, names_); }
  std::string name_of(const scope& s, std::uint32_t node) const;
  value_info described(const std::string& name, const weft::value_info& v, const layout& order = {}) const;
  [[noreturn]] void refuse(const scope& s, const std::string& why) const;
  const weft::graph& top() const { return top_; }

 private:
  friend struct exported_call;
  shared_value held(const scope& s, std::uint32_t n);
  static std::string unique(const std::string& name, std::set<std::string>& taken);
  void name_result(scope& s, std::uint32_t n, std::size_t first);
  std::string dimension(std::int64_t code);
  std::string polynomial(const extent_definition& d);
  std::string shared_constant(dtype type, const std::vector<std::int64_t>& extents, const void* data, const char* name);

  session& session_;
  model& model_;
  dtype weights_;
  const weft::graph& top_;
  extent_bindings fixed_;
  std::set<std::string> names_, node_names_, reserved_;
  std::map<std::pair<int, std::string>, std::string> constants_;
  std::map<std::int64_t, std::string> dimensions_;
  std::map<std::pair<shared_value, layout>, std::string> converted_;  // weights
  std::vector<shared_value> all_;                                     // in the main graph
};

/// The node that is exported: the argument of the functions that forms name.
struct exported_call {
  exporter& to;
  exporter::scope& in;
  const node_def& def;
  std::uint64_t wanted;  ///< the outputs that are needed, one bit each
  std::string base;      ///< name of the node

  const shared_value& shared(std::size_t k) const { return in.values.at({def.inputs[k].node, def.inputs[k].output}); }
  exported_value& operand(std::size_t k) const { return *shared(k); }
  std::string name(std::size_t k, const layout& order = {}) const { return to.at(operand(k), order); }
  std::string weights(std::size_t k, const layout& order, std::size_t axis) const {
    return to.weights(shared(k), order, axis);
  }
  const weft::value_info& input(std::size_t k) const { return in.g.info(def.inputs[k]); }
  std::int64_t word(std::size_t i) const { return def.attributes[i]; }
  std::string add(const char* operation, std::vector<std::string> inputs,
                  std::vector<attribute> attributes = {}) const {
    return to.add(in.to, operation, std::move(inputs), std::move(attributes));
  }
  /// Declares the value of an output.
  void set(std::uint32_t output, const std::string& name, layout order = {}) const;
  [[noreturn]] void refuse(const std::string& why) const { to.refuse(in, why); }
  /// Refuses the node if the model still reads the output in the end.
  void set_refused(std::uint32_t output, const std::string& why) const;
  bool is_wanted(std::uint32_t output) const { return (wanted >> output) & 1; }
};

/// The exporter's functions, by the names that forms use (onnx/forms.hpp).
using form_function = void (*)(const exported_call&);
form_function find_form(std::string_view name);
/// Exports a call by its form.
void export_form(const exported_call&, const char* form);

inline bool is_same_order(const layout& order) {
  for (std::size_t i = 0; i < order.size(); ++i)
    if (order[i] != std::int64_t(i)) return false;
  return true;
}
/// Returns the place of Weft's axis in a value of this order.
inline std::int64_t axis_in(const layout& order, std::int64_t axis) {
  for (std::size_t i = 0; i < order.size(); ++i)
    if (order[i] == axis) return std::int64_t(i);
  return axis;
}

/// Returns consecutive integers.
inline std::vector<std::int64_t> counted(std::size_t count, std::int64_t from = 0) {
  std::vector<std::int64_t> all(count);
  for (std::int64_t& x : all) x = from++;
  return all;
}

inline std::string exporter::unique(const std::string& name, std::set<std::string>& taken) {
  std::string free = name.empty() ? "value" : name;
  for (int k = 1; !taken.insert(free).second; ++k) free = str_cat({name, "_", k});
  return free;
}

inline std::string exporter::name_of(const scope& s, std::uint32_t n) const {
  return s.g[n].name.empty() ? s.g[n].def.op->name : s.g[n].name;
}

inline void exporter::refuse(const scope& s, const std::string& why) const {
  const node_def& def = s.g[s.node].def;
  throw error(error_code::unimplemented, "save_onnx", {"'", name_of(s, s.node), "' (", def.op->name, ") ", why});
}

inline std::int64_t exporter::known(std::int64_t extent) const {
  const std::int64_t* const size = extent < 0 ? const_cast<exporter*>(this)->fixed_.compute(top_, extent) : nullptr;
  return size ? *size : extent;
}

inline std::int64_t exporter::sample(std::int64_t extent) const {
  if (known(extent) >= 0) return known(extent);
  const extent_definition* const d = top_.extent_formula(extent);
  std::int64_t size = 3600;
  if (!d) return size;
  extent_bindings some = fixed_;
  const std::function<void(const extent_definition&)> bind = [&](const extent_definition& e) {
    if (e.numerator) return bind(*e.numerator), bind(*e.denominator);
    for (std::size_t i = 0; i < e.atom_count; ++i)
      if (!e.atoms[i]->is_name())
        bind(*e.atoms[i]);
      else if (!some.find(e.atoms[i]->code))
        some.bind(e.atoms[i]->code, size);
  };
  bind(*d);
  some.evaluate(*d, size);
  return size;
}

inline value_info exporter::described(const std::string& name, const weft::value_info& v, const layout& order) const {
  value_info info;
  info.name = name;
  info.kind = "tensor";
  info.type = type_of(v.type);
  info.has_shape = true;
  for (std::size_t i = 0; i < v.extents.rank; ++i) {
    const std::int64_t extent = known(v.extents[order.empty() ? i : std::size_t(order[i])]);
    info.extents.push_back(extent >= 0 ? onnx::dimension{extent, {}} : onnx::dimension{-1, top_.extent_name(extent)});
  }
  return info;
}

inline std::string exporter::add(graph& to, const char* operation, std::vector<std::string> inputs,
                                 std::vector<attribute> attributes, std::size_t outputs) {
  node n;
  n.op_type = operation;
  n.inputs = std::move(inputs);
  n.attributes = std::move(attributes);
  if (n.op_type == "Reshape") n.attributes.push_back(attribute_of("allowzero", 1));  // an extent of 0 is a number, too
  for (std::size_t o = 0; o < outputs; ++o) n.outputs.push_back(unique(operation));
  n.name = unique(operation, node_names_);
  to.nodes.push_back(std::move(n));
  return to.nodes.back().outputs[0];
}

inline std::string exporter::constant(dtype type, std::vector<std::int64_t> extents, const void* data,
                                      const std::string& name) {
  tensor_value t;
  t.name = reserved_.erase(name) ? name : unique(name);
  t.type = type_of(type);
  std::size_t bytes = size_of(type);
  for (const std::int64_t n : extents) bytes *= std::size_t(n);
  t.extents = std::move(extents);
  t.bytes = {static_cast<const std::byte*>(data), bytes};
  model_.main.initializers.push_back(std::move(t));
  return model_.main.initializers.back().name;
}

/// Adds a number or a list of numbers, once for all that are equal.
inline std::string exporter::shared_constant(dtype type, const std::vector<std::int64_t>& extents, const void* data,
                                             const char* name) {
  const auto* const from = static_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(from, from + size_of(type) * (extents.empty() ? 1 : std::size_t(extents[0])));
  std::string& known = constants_[{extents.empty() ? static_cast<int>(type) : -1,
                                   std::string(reinterpret_cast<char*>(bytes.data()), bytes.size())}];
  if (known.empty()) {
    known = constant(type, extents, nullptr, name);
    model_.main.initializers.back().own(std::move(bytes));
  }
  return known;
}
inline std::string exporter::scalar(dtype type, std::uint64_t bits) {
  return shared_constant(type, {}, &bits, "number");
}

inline std::string exporter::number(dtype type, double x) {
  const bool is_real = type >= dtype::float16;
  return scalar(type, is_real ? weft::detail::element_bits(x, type) : std::uint64_t(std::int64_t(x)));
}

inline std::string exporter::extreme(dtype type, bool highest) {
  if (type >= dtype::float16) return number(type, highest ? __builtin_inf() : -__builtin_inf());
  const bool is_signed = type >= dtype::int8 && type <= dtype::int64;
  const std::uint64_t lowest = is_signed ? ~std::uint64_t{0} << (8 * size_of(type) - 1) : 0;
  return scalar(type, highest ? ~lowest : lowest);
}

inline std::string exporter::integers(const std::vector<std::int64_t>& all) {
  return shared_constant(dtype::int64, {std::int64_t(all.size())}, all.data(), "integers");
}

inline std::string exporter::extents(const shape& s, std::size_t from, std::size_t to) {
  std::vector<std::string> parts;
  std::vector<std::int64_t> numbers;
  const auto end_numbers = [&] {
    if (!numbers.empty()) parts.push_back(integers(numbers));
    numbers.clear();
  };
  for (std::size_t i = from; i < s.rank && i < to; ++i)
    if (const std::int64_t n = known(s[i]); n >= 0)
      numbers.push_back(n);
    else
      end_numbers(), parts.push_back(dimension(n));
  if (parts.empty()) return integers(numbers);
  end_numbers();
  return parts.size() == 1 ? parts[0] : add(model_.main, "Concat", parts, {attribute_of("axis", 0)});
}

inline std::string exporter::resized(const shape& s) {
  std::vector<std::int64_t> numbers;
  std::size_t unknown = 0;
  for (std::size_t i = 0; i < s.rank; ++i) {
    numbers.push_back(known(s[i]));
    if (numbers.back() == 0) return extents(s);
    if (numbers.back() < 0) ++unknown, numbers.back() = -1;
  }
  return unknown == 1 ? integers(numbers) : extents(s);
}

/// Computes an extent from those of the inputs.
inline std::string exporter::dimension(std::int64_t code) {
  if (const auto known = dimensions_.find(code); known != dimensions_.end()) return known->second;
  std::string& name = dimensions_[code];
  if (const extent_definition* const d = top_.extent_formula(code); d && !d->is_name()) return name = polynomial(*d);
  for (const shared_value& v : all_)
    for (std::size_t i = 0; i < v->info.extents.rank; ++i)
      if (v->info.extents[i] == code && !v->data && !v->places.empty()) {
        const std::int64_t axis = axis_in(v->order(), std::int64_t(i));
        return name = add(model_.main, "Shape", {v->places[0].name},
                          {attribute_of("start", axis), attribute_of("end", axis + 1)});
      }
  throw error(error_code::failed_precondition, "save_onnx",
              {"the extent ", top_.extent_name(code), " is not known: feed a value that has it, or g.set(dyn<\"",
               top_.extent_name(code), "\">, n)"});
}

inline std::string exporter::polynomial(const extent_definition& d) {
  graph& to = model_.main;
  const auto of = [&](const extent_definition& e) {
    return e.is_number() ? integers({e.number()}) : e.is_name() ? dimension(e.code) : polynomial(e);
  };
  if (d.numerator) {
    const std::string by = of(*d.denominator);
    std::string n = of(*d.numerator);
    if (d.round == extent_definition::rounding::up) n = add(to, "Add", {n, add(to, "Sub", {by, integers({1})})});
    return add(to, "Div", {n, by});
  }
  std::string sum;
  for (std::size_t k = 0; k < d.term_count; ++k) {
    std::string product = d.terms[k].factor == 1 && d.terms[k].atoms[0] != 0 ? "" : integers({d.terms[k].factor});
    for (const std::int64_t atom : d.terms[k].atoms) {
      if (atom == 0) break;
      for (std::size_t i = 0; i < d.atom_count; ++i)
        if (d.atoms[i]->code == atom) {
          const std::string factor = of(*d.atoms[i]);
          product = product.empty() ? factor : add(to, "Mul", {product, factor});
          break;
        }
    }
    sum = sum.empty() ? product : add(to, "Add", {sum, product});
  }
  return sum;
}

inline std::string exporter::at(exported_value& v, layout order) {
  if (v.source) return at(*v.source, v.in_source(std::move(order)));
  const std::size_t rank = v.info.extents.rank;
  if (order.size() <= rank && is_same_order(order)) order.clear();
  for (const auto& p : v.places)
    if (p.order == order) return p.name;
  const std::size_t added = order.size() > rank ? order.size() - rank : 0;
  std::string name;
  if (v.data && (added || !v.own())) {
    std::vector<std::int64_t> from(added, 1), to;
    for (std::size_t i = 0; i < rank; ++i) from.push_back(known(v.info.extents[i]));
    if (order.empty()) {
      name = constant(v.info.type, from, v.data, v.name);
      model_.main.initializers.back().memory = std::make_shared<storage>(v.owner);
    } else {
      weft::value_info given{v.info.type, {}}, turned = given;
      for (const std::int64_t n : from) given.extents.push_back(n);
      for (const std::int64_t axis : order) to.push_back(from[std::size_t(axis)]), turned.extents.push_back(to.back());
      std::vector<std::byte> moved(turned.bytes());
      const sequence<std::int64_t> axes(order.data(), order.data() + order.size());
      const char* const unnamed[max_rank]{};
      const char* const* const names[]{unnamed};
      std::byte* const buffers[]{const_cast<std::byte*>(v.data), moved.data()};
      weft::detail::run_eagerly(operation_of<transpose_op>, axes, &given, names, 1, &turned, 1, buffers);
      name = constant(v.info.type, to, nullptr, v.name);
      model_.main.initializers.back().own(std::move(moved));
    }
  } else if (added) {
    if (rank == 1) {  // [channels, 1, 1]
      const std::size_t behind = order.size() - 1 - std::size_t(axis_in(order, std::int64_t(added)));
      name = at(v, {});
      if (behind > 0) name = add(*v.home, "Unsqueeze", {name, integers(counted(behind, 1))});
    } else {
      name = add(*v.home, "Unsqueeze", {at(v, {}), integers(counted(added))});
      name = add(*v.home, "Transpose", {name}, {attribute_of("perm", order)});
    }
  } else {
    layout moved;
    for (std::size_t i = 0; i < rank; ++i)
      moved.push_back(axis_in(v.order(), order.empty() ? std::int64_t(i) : order[i]));
    name = add(*v.home, "Transpose", {v.own()->name}, {attribute_of("perm", moved)});
    if (order.empty()) v.home->nodes.back().outputs[0] = name = unique(v.name);
  }
  v.places.push_back({order, name});
  return name;
}

inline std::string exporter::weights(const shared_value& v, const layout& order, std::size_t axis) {
  if (v->source) return weights(v->source, v->in_source(order), std::size_t(v->turned[axis]));
  if (!v->data || v->info.type != dtype::float32 || weights_ == dtype::float32) return at(*v, order);
  std::string& name = converted_[{v, order}];
  if (!name.empty()) return name;
  exported_value stored;
  stored.info = v->info;
  stored.info.type = weights_;
  stored.name = v->name;
  std::size_t count = 1, inner = 1;
  for (std::size_t i = 0; i < v->info.extents.rank; ++i) {
    const auto n = std::size_t(stored.info.extents[i] = known(v->info.extents[i]));
    count *= n;
    if (i > axis) inner *= n;
  }
  const auto* const from = reinterpret_cast<const float*>(v->data);
  const float most = weights_ == dtype::float16 ? 65504 : __FLT_MAX__;  // others remain float
  for (std::size_t i = 0; i < count; ++i)
    if (!(math::abs(from[i]) <= most)) return name = at(*v, order);
  stored.owner = storage(stored.info.bytes());
  stored.data = stored.owner.data();
  if (weights_ == dtype::float16) {
    for (std::size_t i = 0; i < count; ++i)
      reinterpret_cast<half*>(stored.owner.data())[i] = static_cast<half>(from[i]);
    return name = add(model_.main, "Cast", {at(stored, order)}, {attribute_of("to", type_of(dtype::float32))});
  }
  const auto channels = std::size_t(stored.info.extents[axis]);
  std::vector<float> scales;
  for (std::size_t j = 0; j < channels; ++j) {
    const auto place = [&](std::size_t i) { return (i / inner * channels + j) * inner + i % inner; };
    scales.push_back(weft::detail::quantize_channel(
        count / channels, [&](std::size_t i) { return from[place(i)]; },
        [&](std::size_t i, std::int8_t x) { stored.owner.data()[place(i)] = static_cast<std::byte>(x); }));
  }
  const auto* const bytes = reinterpret_cast<const std::byte*>(scales.data());
  const std::string integers = at(stored, order);
  const std::string factors = constant(dtype::float32, {std::int64_t(channels)}, nullptr, v->name + "_scales");
  model_.main.initializers.back().own({bytes, bytes + channels * sizeof(float)});
  return name = add(model_.main, "DequantizeLinear", {integers, factors},
                    {attribute_of("axis", axis_in(order, std::int64_t(axis)))});
}

inline shared_value exporter::held(const scope& s, std::uint32_t n) {
  const graph_node& from = s.g[n];
  auto v = std::make_shared<exported_value>();
  v->name = from.name;
  v->home = &model_.main;
  if (is_operation<constant_op>(from.def.op)) {
    v->info = from.def.outputs[0];
    for (std::size_t i = 0; i < v->info.extents.rank; ++i) {
      std::int64_t& extent = v->info.extents[i];
      if (known(extent) < 0) fixed_.bind(extent, from.def.attributes[i]);
      extent = from.def.attributes[i];
    }
    v->owner = from.init.data;
    v->data = v->owner.data();
  } else {
    v->info = session_.variable_info(n);
    const plan::variable_state& state = session_.state_of(n);
    if (!state.initialized) session_.initialize_variable(n);
    v->data = state.where.gpu ? nullptr : static_cast<const std::byte*>(state.data());
    if (!v->data) {
      v->owner = storage(v->info.bytes());
      session_.read_variable(n, v->owner.data());
      v->data = v->owner.data();
    }
  }
  return v;
}

inline void exported_call::set(std::uint32_t output, const std::string& name, layout order) const {
  auto v = std::make_shared<exported_value>();
  v->info = def.outputs[output];
  v->name = output ? str_cat({base, ":", output}) : base;
  v->home = &in.to;
  if (is_same_order(order)) order.clear();
  v->places.push_back({std::move(order), name});
  in.values[{in.node, output}] = v;
  if (&in.to == &to.model_.main) to.all_.push_back(v);
}

inline void exported_call::set_refused(std::uint32_t output, const std::string& why) const {
  set(output, add("", {}));
  in.to.nodes.back().doc = str_cat({"'", base, "' (", def.op->name, ") ", why});
}

inline void exporter::add_input(scope& s, value v) {
  if (s.values.count({v.node, v.output})) return;
  all_.push_back(input(s.to, s.g.info(v), name_of(s, v.node)));
  s.values[{v.node, v.output}] = all_.back();
}

inline shared_value exporter::input(graph& to, const weft::value_info& info, const std::string& name) {
  auto v = std::make_shared<exported_value>();
  v->info = info;
  v->name = name;
  v->home = &to;
  v->places.push_back({{}, unique(name)});
  to.inputs.push_back(described(v->places[0].name, info));
  return v;
}

inline void exporter::reserve_names() {
  for (std::uint32_t n = 0; n < top_.size(); ++n)
    if (is_operation<variable_op>(top_[n].def.op) && names_.insert(top_[n].name).second) reserved_.insert(top_[n].name);
}

inline void exporter::add_nodes(scope& s, const sequence<value>& results) {
  std::uint32_t end = 0;
  for (const value& v : results)
    if (v.node >= end) end = v.node + 1;
  std::vector<std::uint64_t> wanted(end, 0);
  const auto want = [&](value v) {
    if (!s.values.count({v.node, v.output})) wanted[v.node] |= std::uint64_t{1} << (v.output < 63 ? v.output : 63);
  };
  for (const value& v : results) want(v);
  for (std::uint32_t n = end; n-- > 0;) {
    const node_def& c = s.g[n].def;
    for (std::size_t k = 0; wanted[n] && k < c.inputs.size(); ++k)
      if (!c.op->use || c.op->use(c, k) != operand_use::extents) want(c.inputs[k]);
  }
  for (std::uint32_t n = 0; n < end; ++n) {
    if (!wanted[n]) continue;
    s.node = n;
    const node_def& def = s.g[n].def;
    if (is_operation<placeholder_op>(def.op))
      throw error(error_code::failed_precondition, "save_onnx",
                  {"the placeholder '", s.g[n].name, "' is needed, but not fed: add it to feed()"});
    if (is_operation<constant_op>(def.op) || is_operation<variable_op>(def.op)) {
      s.values[{n, 0}] = held(s, n);
      continue;
    }
    if (is_operation<random_position_op>(def.op)) continue;  // the draw that reads it is refused
    if (def.op->writes) refuse(s, "writes a variable, which ONNX cannot: fetch values, and no updates");
    if (!def.op->onnx) refuse(s, "has no ONNX form: compute it outside of the exported graph, and feed() its result");
    const exported_call call{*this, s, def, wanted[n], name_of(s, n)};
    const std::size_t first = s.to.nodes.size();
    export_form(call, def.op->onnx);
    for (std::uint32_t o = 0; o < def.outputs.size() && o < 63; ++o)
      if (call.is_wanted(o) && !s.values.count({n, o}))
        refuse(s, str_cat({"has no ONNX form for result ", o, ": export the model without its gradients"}));
    name_result(s, n, first);
  }
}

/// Gives the node that computes the first result the name of Weft's node, and the result, too, if its axes have Weft's
/// order. `first`: the first node that belongs to Weft's.
inline void exporter::name_result(scope& s, std::uint32_t n, std::size_t first) {
  const auto made = s.values.find({n, 0});
  if (made == s.values.end() || made->second->places.empty()) return;
  auto& [order, name] = made->second->places[0];
  for (std::size_t i = s.to.nodes.size(); i-- > first;) {
    node& from = s.to.nodes[i];
    if (from.outputs[0] != name) continue;
    const std::string base = name_of(s, n), old = std::exchange(name, unique(order.empty() ? base : base + "/moved"));
    from.name = unique(base, node_names_);
    from.outputs[0] = name;
    for (auto& [code, known] : dimensions_)
      if (known == old) known = name;
    for (std::size_t k = i + 1; k < s.to.nodes.size(); ++k)
      for (std::string& in : s.to.nodes[k].inputs)
        if (in == old) in = name;
    return;
  }
}

inline void exporter::add_output(scope& s, value v, std::set<std::string>& taken) {
  exported_value& x = *s.values.at({v.node, v.output});
  std::string name = at(x, {});
  bool computed = false;
  for (const node& n : s.to.nodes)
    for (const std::string& o : n.outputs) computed = computed || o == name;
  if (!computed || !taken.insert(name).second) {
    name = add(s.to, "Identity", {name});
    s.to.nodes.back().outputs[0] = name = unique(x.name);
    taken.insert(name);
  }
  s.to.outputs.push_back(described(name, s.g.info(v)));
}

inline std::vector<shared_value> exporter::add_subgraph(const subgraph& b, graph& to,
                                                        const std::vector<shared_value>& parameters,
                                                        const std::vector<bool>& wanted) {
  scope s{b.nodes, to};
  for (std::size_t i = 0; i < parameters.size(); ++i)
    s.values[{b.parameters[i].node, b.parameters[i].output}] = parameters[i];
  sequence<value> results;
  for (std::size_t r = 0; r < wanted.size(); ++r)
    if (wanted[r]) results.push_back(b.results[r]);
  add_nodes(s, results);
  std::vector<shared_value> values;
  for (const value& r : results) values.push_back(s.values.at({r.node, r.output}));
  return values;
}

inline void exporter::return_value(graph& from, const std::string& name, const weft::value_info& info) {
  from.outputs.push_back(described(add(from, "Identity", {name}), info));
}

}  // namespace weft::onnx::detail
WEFT_COLD_END
