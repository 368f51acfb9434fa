// SPDX-License-Identifier: BSL-1.0
#include <cmath>

#include "importer.hpp"

/// Joins the nodes that exporters write for one operation of Weft. The extents and the constants are those that a first
/// import of the same nodes has found.
namespace tool::importer {

namespace onnx = weft::onnx;

namespace {

/// Nodes, and the operator that computes the same. Letters are values, and equal letters are equal values; a number is
/// a constant, and e a constant that the attribute contains. A division by a number is a product with its inverse.
struct pattern {
  std::string_view nodes, op, inputs, attribute = "";
};
constexpr pattern patterns[] = {
    {"Mul(a, Sigmoid(a))", "Swish", "a"},
    {"Mul(a, HardSigmoid(a))", "HardSwish", "a"},
    {"Mul(Mul(a, Clip(Add(a, 3), 0, 6)), 0.16666667)", "HardSwish", "a"},
    {"Mul(a, Mul(Clip(Add(a, 3), 0, 6), 0.16666667))", "HardSwish", "a"},
    {"Mul(Mul(a, Add(Erf(Mul(a, 0.70710678)), 1)), 0.5)", "Gelu", "a"},
    {"Mul(Mul(a, 0.5), Add(Erf(Mul(a, 0.70710678)), 1))", "Gelu", "a"},
    {"Mul(a, Mul(Add(Erf(Mul(a, 0.70710678)), 1), 0.5))", "Gelu", "a"},
    {"Mul(Mul(a, 0.5), Add(Tanh(Mul(Add(a, Mul(Pow(a, 3), 0.044715)), 0.79788456)), 1))", "Gelu", "a",
     "approximate=tanh"},
    {"Add(Mul(Div(Sub(a, ReduceMean(a)), Sqrt(Add(ReduceMean(Pow(Sub(a, ReduceMean(a)), 2)), e))), s), b)",
     "LayerNormalization", "asb", "epsilon=e"},
};

/// Returns the place after a text's first argument, that of its closing bracket, or the end.
std::size_t argument_end(std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (depth == 0 && (text[i] == ',' || text[i] == ')')) return i;
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
  }
  return text.size();
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-5 * std::abs(b); }

std::int64_t number_of(const onnx::node& n, const char* attribute, std::int64_t otherwise) {
  const onnx::attribute* const a = n.find(attribute);
  return a ? a->i : otherwise;
}

/// A value that is another one with its axes divided, permuted and united.
struct view {
  const onnx::node* like = nullptr;  ///< the node whose name and scope the nodes of the view get
  std::string source;
  std::vector<std::vector<std::size_t>> from, to;  ///< parts by axis; an axis of extent 1 can have none
};

}  // namespace

class importer::simplifier {
 public:
  simplifier(importer& of, importer& first) : of_(of), first_(first) {
    for (const onnx::node& n : of.nodes_) {
      for (const std::string& name : n.outputs) producers_[name] = &n;
      for_each_read(n, [&](const std::string& name) { ++reads_[name]; });
    }
    for (const onnx::value_info& o : of.model.main.outputs) ++reads_[o.name];
  }

  std::vector<onnx::node> run() {
    for (const onnx::node& n : of_.nodes_) {
      const bool one = n.outputs.size() == 1 && n.domain.empty() && known(n.outputs[0]);
      if (one && fold(n.outputs[0])) continue;
      if (!one || constant(n.outputs[0])) {
        add(n);
      } else if (auto joined = joined_node(n)) {
        add(std::move(*joined));
      } else if (!moves(n) && !passes_views(n)) {
        add(n);
      }
    }
    for (const onnx::value_info& o : of_.model.main.outputs) shown(o.name, true);
    unite_slices();
    remove_unread();
    return std::move(nodes_);
  }

 private:
  // ---- what the first import has found ----

  bool known(const std::string& name) const {
    const auto at = first_.values_.find(name);
    return at != first_.values_.end() && at->second->type != 0 && at->second->type != text_type && !at->second->bounded;
  }
  bool constant(const std::string& name) const { return known(name) && first_.values_.at(name)->known(); }
  const integers& extents(const std::string& name) const {
    static const integers none;
    const auto at = made_.find(name);
    return at != made_.end() ? at->second : known(name) ? first_.values_.at(name)->extents : none;
  }
  const onnx::node* producer(const std::string& name) const {
    const auto at = producers_.find(name);
    return at == producers_.end() ? nullptr : at->second;
  }
  /// Returns a number that is known, or computed from such numbers.
  std::optional<double> number(const std::string& name, int depth = 0) {
    if (!known(name) || depth > 20) return std::nullopt;
    const auto [at, is_new] = numbers_.emplace(name, std::nullopt);
    if (is_new) at->second = computed_number(name, depth);
    return at->second;
  }
  std::optional<double> computed_number(const std::string& name, int depth) {
    const value& v = *first_.values_.at(name);
    if (!v.scalar()) return std::nullopt;
    if (v.elements)
      return v.elements->at(0).is_number() ? std::optional(static_cast<double>(v.elements->at(0).number()))
                                           : std::nullopt;
    if (v.constant) return number_at(*v.constant, 0);
    const onnx::node* const n = producer(name);
    if (!n || n->inputs.empty() || !is_float(v.type)) return std::nullopt;
    const auto a = number(n->inputs[0], depth + 1);
    const auto b = n->inputs.size() == 2 ? number(n->inputs[1], depth + 1) : std::nullopt;
    if (!a) return std::nullopt;
    if (n->op_type == "Cast" || n->op_type == "Identity") return a;
    if (n->op_type == "Sqrt") return std::sqrt(*a);
    if (n->op_type == "Mul" && b) return *a * *b;
    if (n->op_type == "Div" && b && *b != 0) return *a / *b;
    return std::nullopt;
  }
  /// Keeps what the first import has computed: integers, and numbers of floating-point constants.
  bool fold(const std::string& name) {
    const value& v = *first_.values_.at(name);
    if (v.constant) return false;
    if (v.elements) {
      if (v.elements->size() > 16 && all_numbers(*v.elements)) return false;
      list(name, *v.elements).extents = v.extents;
      of_.values_.at(name)->type = v.type;
      return true;
    }
    const auto x = number(name);
    const int type = v.type;
    if (!x || !is_float(type)) return false;
    onnx::tensor_value& t = of_.new_constant();
    t.name = name;
    t.type = type;
    t.extents.assign(extents(name).size(), 1);
    std::vector<std::byte> bytes;
    append_number(bytes, type, *x);
    t.own(std::move(bytes));
    set_constant(of_.add_value(name), t);
    return true;
  }

  // ---- patterns ----

  bool matches(std::string_view text, const std::string& name) {
    if (text.size() == 1 && text[0] >= 'a' && text[0] <= 'z')
      return bound_.emplace(text[0], name).first->second == name;
    if (text[0] >= '0' && text[0] <= '9') {
      const auto x = number(name), y = std::optional(std::strtod(std::string(text).c_str(), nullptr));
      return x && near(*x, *y);
    }
    const onnx::node* const n = producer(name);
    const std::size_t open = text.find('(');
    const std::string_view op = text.substr(0, open);
    if (!n || !n->domain.empty()) return false;
    std::vector<std::string_view> arguments;
    for (std::string_view rest = text.substr(open + 1); !rest.empty();) {
      const std::size_t end = argument_end(rest);
      arguments.push_back(rest.substr(0, end));
      rest.remove_prefix(std::min(rest.size(), end + (rest.substr(end).starts_with(", ") ? 2 : 1)));
    }
    const bool is_number = arguments.back()[0] >= '0' && arguments.back()[0] <= '9';
    if (op == "Mul" && n->op_type == "Div" && is_number) {
      const auto x = number(n->inputs.at(1));
      return x && near(1 / *x, std::strtod(std::string(arguments[1]).c_str(), nullptr)) && note(n) &&
             matches(arguments[0], n->inputs[0]);
    }
    if (op == "Pow" && n->op_type == "Mul" && n->inputs.at(0) == n->inputs.at(1) && arguments[1] == "2")
      return note(n) && matches(arguments[0], n->inputs[0]);
    if (n->op_type != op || n->inputs.size() < arguments.size()) return false;
    const auto bound = bound_;
    const auto matched = matched_;
    for (const bool swapped : {false, true}) {
      if (swapped && (arguments.size() != 2 || (op != "Mul" && op != "Add"))) continue;
      bool all = note(n);
      for (std::size_t i = 0; i < arguments.size() && all; ++i)
        all = matches(arguments[i], n->inputs[swapped ? 1 - i : i]);
      if (all) return true;
      bound_ = bound, matched_ = matched;
    }
    return false;
  }
  bool note(const onnx::node* n) {
    matched_.insert(n);
    return true;
  }
  /// Returns true if no other nodes read what the matched nodes compute, except for the last one.
  bool is_closed(const onnx::node& last) const {
    for (const onnx::node* n : matched_) {
      std::size_t inside = 0;
      for (const onnx::node* reader : matched_)
        inside += static_cast<std::size_t>(std::count(reader->inputs.begin(), reader->inputs.end(), n->outputs[0]));
      if (n != &last && inside != reads_.at(n->outputs[0])) return false;
    }
    return true;
  }
  /// Checks what the text of a pattern does not contain. A constant with more axes than a gives them to the result.
  bool fits(const onnx::node& last) {
    if (!(extents(bound_.at('a')) == extents(last.outputs[0]))) return false;
    for (const onnx::node* n : matched_) {
      if (n->op_type == "HardSigmoid") {
        const onnx::attribute *alpha = n->find("alpha"), *beta = n->find("beta");
        if (!alpha || !near(static_cast<double>(alpha->f), 1.0 / 6) || (beta && beta->f != 0.5f)) return false;
      }
      if (n->op_type == "ReduceMean") {
        integers row = extents(n->inputs[0]);
        if (row.empty() || row.back().is(1)) return false;
        row.back() = 1;
        if (!(row == extents(n->outputs[0]))) return false;
      }
    }
    for (const auto& [letter, name] : bound_)
      if ((letter == 's' || letter == 'b') &&
          (extents(name).size() != 1 || !(extents(name)[0] == extents(bound_.at('a')).back())))
        return false;
    return bound_.count('e') == 0 || number(bound_.at('e'));
  }

  std::optional<onnx::node> joined_node(const onnx::node& n) {
    onnx::node y = n;
    const bool can_match = n.op_type == "Mul" || n.op_type == "Div" || n.op_type == "Add";
    for (const pattern& p : patterns) {
      bound_.clear(), matched_.clear();
      if (!can_match || !matches(p.nodes, n.outputs[0]) || !is_closed(n) || !fits(n)) continue;
      y.op_type = p.op;
      y.inputs.clear();
      y.attributes.clear();
      for (const char letter : p.inputs) y.inputs.push_back(bound_.at(letter));
      if (p.attribute == "epsilon=e")
        y.attributes.push_back(attribute_of("epsilon", static_cast<float>(*number(bound_.at('e')))));
      if (p.attribute == "approximate=tanh") y.attributes.push_back(attribute_of("approximate", std::string("tanh")));
      return y;
    }
    if (n.op_type == "MatMul") return attention(n);
    if (n.op_type == "Concat") {
      // "Concat(a, b, c)" after "Concat(a, b)" reads the result: the features of a dense block.
      const std::string axis = std::to_string(number_of(n, "axis", 1));
      std::string key = axis, found;
      std::size_t count = 0;
      for (std::size_t i = 0; i < n.inputs.size(); ++i) {
        key += " " + n.inputs[i];
        if (const auto at = concats_.find(key); at != concats_.end()) found = at->second, count = i + 1;
      }
      concats_.emplace(key, n.outputs[0]);
      if (found.empty() || count == n.inputs.size()) return std::nullopt;
      y.inputs.erase(y.inputs.begin(), y.inputs.begin() + static_cast<std::ptrdiff_t>(count));
      y.inputs.insert(y.inputs.begin(), found);
      return y;
    }
    if (n.op_type == "Reshape" || n.op_type == "Flatten" || n.op_type == "Squeeze") return mean_without_axes(n);
    return std::nullopt;
  }

  /// A mean that keeps its axes, which a reshape removes.
  std::optional<onnx::node> mean_without_axes(const onnx::node& n) const {
    const onnx::node* const mean = producer(n.inputs[0]);
    if (!mean || (mean->op_type != "ReduceMean" && mean->op_type != "GlobalAveragePool") || reads_.at(n.inputs[0]) != 1)
      return std::nullopt;
    const integers &x = extents(mean->inputs[0]), &kept = extents(n.inputs[0]);
    integers left;
    std::vector<std::int64_t> axes;
    if (kept.size() != x.size()) return std::nullopt;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (kept[i].is(1) && !x[i].is(1))
        axes.push_back(static_cast<std::int64_t>(i));
      else
        left.push_back(kept[i]);
    if (!(left == extents(n.outputs[0])) || axes.empty()) return std::nullopt;
    onnx::node y = n;
    y.op_type = "ReduceMean";
    y.inputs = {mean->inputs[0]};
    y.attributes = {attribute_of("axes", axes), attribute_of("keepdims", std::int64_t{0})};
    return y;
  }

  /// Returns the operand of products with numbers, by which `factor` is multiplied.
  std::string unscaled(std::string name, double& factor) {
    for (const onnx::node* n; (n = producer(name)) && n->inputs.size() == 2;) {
      const auto x = number(n->inputs[1]), y = number(n->inputs[0]);
      if (n->op_type == "Mul" && (x || y))
        factor *= x ? *x : *y, name = n->inputs[x ? 0 : 1];
      else if (n->op_type == "Div" && x)
        factor /= *x, name = n->inputs[0];
      else
        break;
    }
    return name;
  }
  /// softmax(scale * q k^T + mask) v.
  std::optional<onnx::node> attention(const onnx::node& n) {
    const onnx::node* const softmax = producer(n.inputs[0]);
    if (!softmax || softmax->op_type != "Softmax" || reads_.at(n.inputs[0]) != 1) return std::nullopt;
    const std::int64_t axis = number_of(*softmax, "axis", of_.opset_of("") < 13 ? 1 : -1);
    double scale = 1;
    std::string scores = unscaled(softmax->inputs[0], scale), mask;
    if (const onnx::node* const sum = producer(scores); sum && sum->op_type == "Add" && scale == 1)
      for (const std::size_t i : {0u, 1u}) {
        double factor = 1;
        const std::string inner = unscaled(sum->inputs[i], factor);
        const onnx::node* const product = producer(inner);
        if (mask.empty() && product && product->op_type == "MatMul")
          scores = inner, mask = sum->inputs[1 - i], scale = factor;
      }
    const onnx::node* const product = producer(scores);
    if (!product || product->op_type != "MatMul") return std::nullopt;
    const std::string q = unscaled(product->inputs[0], scale), k = unscaled(product->inputs[1], scale);
    const integers qs = extents(q), ks = extents(k), vs = extents(n.inputs[1]), ms = extents(mask);
    if (qs.size() != 4 || ks.size() != 4 || vs.size() != 4 || (axis != -1 && axis != 3) || ms.size() > 4 ||
        !is_float(first_.values_.at(q)->type) || constant(k))
      return std::nullopt;
    for (const std::size_t i : {0u, 1u})
      if (!(qs[i] == ks[i]) || !(qs[i] == vs[i])) return std::nullopt;
    // The scale and the mask may not broadcast the scores.
    if (!(ks[3] == vs[2]) || !(extents(n.outputs[0]) == integers{qs[0], qs[1], qs[2], vs[3]})) return std::nullopt;
    onnx::node y = n;
    y.op_type = "Attention";
    y.inputs = {q, k + "/keys", n.inputs[1]};
    y.attributes.clear();
    if (!qs[3].is_number() || scale < 0 || !near(scale * scale * static_cast<double>(qs[3].number()), 1))
      y.attributes.push_back(attribute_of("scale", static_cast<float>(scale)));
    const std::size_t axes = ms.size();
    if (qs[2] == ks[3] && axes > 1 && ms[axes - 2] == qs[2] && ms[axes - 1] == ks[3] && is_causal(mask))
      y.attributes.push_back(attribute_of("is_causal", std::int64_t{1}));
    else if (!mask.empty())
      y.inputs.push_back(attended(n, mask));
    const std::string parts[] = {"queries", "keys", "values"}, ones[] = {"query", "key", "value"};
    const std::string* const of[] = {&q, &k, &n.inputs[1]};
    for (std::size_t i = 0; i < 3; ++i) {
      of_.called_.emplace(view_of(*of[i]).source, ones[i]);
      of_.called_.emplace(i == 1 ? y.inputs[1] : *of[i], parts[i]);
    }
    of_.called_.emplace(y.outputs[0], "attended");
    view keys = view_of(k);
    keys.like = &n;
    std::swap(keys.to[2], keys.to[3]);
    views_[y.inputs[1]] = std::move(keys);
    return y;
  }
  /// Returns the name of a mask for `attention`, which broadcasts it: of bool if the mask is 0 or minus infinity.
  std::string attended(const onnx::node& n, std::string mask) {
    view v = view_of(mask);
    const onnx::node* const expand = v.from == v.to ? producer(v.source) : nullptr;
    if (expand && expand->op_type == "Expand") v = view_of(mask = expand->inputs[0]);
    bound_.clear(), matched_.clear();
    if (!matches("Where(c, x, y)", v.source)) return mask;
    const onnx::node& where = *producer(v.source);
    const auto low = number(where.inputs[1]);
    const bool zeros = is_zero(*first_.values_.at(where.inputs[2]));
    if (!low || !std::isinf(*low) || !zeros || !(extents(where.inputs[0]) == extents(v.source))) return mask;
    const std::string allowed = v.source + "/allowed";
    if (made_.count(allowed) == 0) {
      const onnx::node* const equal = producer(where.inputs[0]);
      const bool is_equal = equal && equal->op_type == "Equal";
      add(made(where, is_equal ? "NotEqual" : "Not", is_equal ? equal->inputs : std::vector{where.inputs[0]}, allowed));
      if (is_equal) nodes_.back().domain = "weft";
      made_[allowed] = extents(v.source);
    }
    v.source = allowed;
    v.like = &n;
    views_[mask + "/allowed_view"] = v;
    return mask + "/allowed_view";
  }
  /// Returns true for a mask [..., queries, keys] that lets each query attend to its own and earlier keys.
  bool is_causal(const std::string& mask) {
    bound_.clear(), matched_.clear();
    if (matches("Where(Equal(Trilu(Expand(1, a)), 0), b, 0)", mask)) {
      const auto low = number(bound_.at('b'));
      const onnx::node& triangle = *producer(producer(producer(mask)->inputs[0])->inputs[0]);
      return low && *low <= -1e9 && number_of(triangle, "upper", 1) == 0 && triangle.inputs.size() == 1;
    }
    const auto at = first_.values_.find(mask);
    if (at == first_.values_.end() || !at->second->constant) return false;
    const std::size_t keys = static_cast<std::size_t>(extents(mask).back().number()),
                      count = count_of(*at->second->constant);
    if (keys == 0 || count != keys * keys) return false;
    for (std::size_t i = 0; i < count; ++i) {
      const double x = number_at(*at->second->constant, i);
      if (i % keys <= i / keys ? x != 0 : !(x <= -1e9)) return false;
    }
    return keys > 1;
  }

  // ---- views ----

  std::size_t new_part(const integer& extent) {
    parts_.push_back(extent);
    return parts_.size() - 1;
  }
  view view_of(const std::string& name) {
    if (const auto at = views_.find(name); at != views_.end()) return at->second;
    view v{producer(name), name, {}, {}};
    for (const integer& n : extents(name)) v.from.push_back({new_part(n)});
    v.to = v.from;
    return v;
  }
  integers extents_of(const std::vector<std::vector<std::size_t>>& axes) const {
    integers all;
    for (const auto& axis : axes) {
      all.push_back(1);
      for (const std::size_t part : axis) all.back() = all.back() * parts_[part];
    }
    return all;
  }
  static void replace(std::vector<std::vector<std::size_t>>& axes, std::size_t part,
                      const std::vector<std::size_t>& by) {
    for (auto& axis : axes)
      if (const auto at = std::find(axis.begin(), axis.end(), part); at != axis.end())
        axis.insert(axis.erase(at), by.begin(), by.end());
  }
  /// Divides the parts among other extents. Returns false if the division is not known to be possible.
  bool reshape(view& v, const integers& to) {
    std::vector<std::size_t> flat;
    for (const auto& axis : v.to) flat.insert(flat.end(), axis.begin(), axis.end());
    std::vector<std::vector<std::size_t>> axes;
    std::size_t at = 0;
    const auto drop = [&] { replace(v.from, flat[at++], {}); };
    for (const integer& extent : to) {
      auto& axis = axes.emplace_back();
      if (extent.is(0)) return false;
      if (extent.is(1) && at < flat.size() && parts_[flat[at]].is(1)) axis.push_back(flat[at++]);
      for (integer left = extent; !left.is(1);) {
        if (at == flat.size()) return false;
        const integer own = parts_[flat[at]];
        if (own.is(1)) {
          drop();
        } else if (const auto rest = exact_quotient(left, own)) {
          axis.push_back(flat[at++]);
          left = *rest;
        } else if (const auto inner = exact_quotient(own, left)) {
          const std::size_t first = new_part(left), second = new_part(*inner);
          replace(v.from, flat[at], {first, second});
          axis.push_back(first);
          flat[at] = second;
          left = 1;
        } else {
          return false;
        }
      }
    }
    for (; at < flat.size(); drop())
      if (!parts_[flat[at]].is(1)) return false;
    v.to = axes;
    return true;
  }

  /// Notes the result of a node that only moves elements as a view. Returns false for other nodes.
  bool moves(const onnx::node& n) {
    if (n.inputs.empty() || !known(n.inputs[0]) || constant(n.inputs[0])) return false;
    const std::string &op = n.op_type, &x = n.inputs[0], &y = n.outputs[0];
    view v = view_of(x);
    v.like = &n;
    if (op == "Transpose") {
      const onnx::attribute* const perm = n.find("perm");
      if (!perm || std::any_of(perm->ints.begin(), perm->ints.end(), [](std::int64_t a) { return a < 0; }))
        return false;
      if (!(permuted(extents(x), {perm->ints.begin(), perm->ints.end()}) == extents(y))) return false;
      v.to = permuted(v.to, {perm->ints.begin(), perm->ints.end()});
    } else if (op == "Reshape" || op == "Squeeze" || op == "Unsqueeze" || op == "Flatten") {
      if (!reshape(v, extents(y))) return false;
    } else if (op == "Gather" && n.inputs.size() == 2 && views_.count(x) > 0 && extents(n.inputs[1]).empty()) {
      // An element of an axis that is the outer part of an axis of the source: a slice of it.
      const auto index = number(n.inputs[1]);
      const std::int64_t axis = number_of(n, "axis", 0);
      if (!index || *index < 0 || axis < 0 || v.to.at(static_cast<std::size_t>(axis)).size() != 1) return false;
      const std::size_t part = v.to[static_cast<std::size_t>(axis)][0];
      for (std::size_t i = 0; i < v.from.size(); ++i) {
        if (v.from[i].size() < 2 || v.from[i][0] != part) continue;
        v.from[i].erase(v.from[i].begin());
        v.to.erase(v.to.begin() + axis);
        const integer size = extents_of(v.from)[i], begin = size * integer(static_cast<std::int64_t>(*index));
        if (!size.is_number()) return false;
        const std::string sliced = y + "/slice";
        add(made(n, "Slice",
                 {v.source, list(sliced + "/from", {begin}).name, list(sliced + "/to", {begin + size}).name,
                  list(sliced + "/axis", {integer(static_cast<std::int64_t>(i))}).name},
                 sliced));
        made_[sliced] = extents_of(v.from);
        v.source = sliced;
        views_[y] = v;
        return true;
      }
      return false;
    } else {
      return false;
    }
    views_[y] = std::move(v);
    return true;
  }

  /// Computes functions of the last axis, such as a dense layer, on the source of a view, or on a view in the source's
  /// order of axes, so that what follows can move the axes back.
  bool passes_views(const onnx::node& n) {
    const bool product = n.op_type == "MatMul" || n.op_type == "Gemm";
    const row* const r = find_row(n.op_type, of_.opset_of(""));
    std::size_t which = n.op_type == "Add" && n.inputs.size() == 2 && constant(n.inputs[0]) ? 1 : 0;
    if (n.inputs.empty() || views_.count(n.inputs[which]) == 0 || extents(n.inputs[which]).size() < 2) return false;
    if (product || n.op_type == "Add") {
      if (n.inputs.size() < 2 || !constant(n.inputs[1 - which]) ||
          extents(n.inputs[1 - which]).size() != (product ? 2 : 1))
        return false;
    } else if (!r || r->how.order != layout::kept || n.inputs.size() != 1 || n.op_type == "Identity") {
      return false;
    }
    if (n.op_type == "Gemm") {
      const onnx::attribute *alpha = n.find("alpha"), *beta = n.find("beta");
      if (number_of(n, "transA", 0) != 0 || (alpha && alpha->f != 1) || (beta && beta->f != 1) ||
          (n.inputs.size() > 2 && extents(n.inputs[2]).size() != 1))
        return false;
    }
    view v = views_[n.inputs[which]];
    const std::vector<std::size_t> last = v.to.back();
    if (last.empty() || (n.op_type == "Add" && !(extents(n.inputs[1 - which])[0] == extents(n.inputs[which]).back())))
      return false;
    std::vector<std::vector<std::size_t>> axes;  // of the operand
    std::set<std::size_t> leading;
    for (std::size_t i = 0; i + 1 < v.to.size(); ++i) leading.insert(v.to[i].begin(), v.to[i].end());
    if (v.from.back() == last) {
      axes = v.from;
    } else if (!product) {
      return false;
    } else {
      for (auto& axis : v.from) {
        std::vector<std::size_t> kept;
        for (const std::size_t part : axis)
          if (leading.count(part)) kept.push_back(part);
        if (&axis == &v.from[0] && axis.empty()) {  // the batch of 1
          axis.push_back(new_part(1));
          v.to[0].insert(v.to[0].begin(), axis[0]);
          kept = axis;
        }
        if (!kept.empty()) axes.push_back(kept);
      }
      axes.push_back(last);
    }
    if (axes == v.to) return false;
    const std::string base = n.outputs[0] + "/moved";
    onnx::node y = n;
    y.inputs[which] = base + "/x";
    views_[y.inputs[which]] = {&n, v.source, v.from, axes};
    y.outputs = {base};
    view result{&n, base, axes, v.to};
    if (product) result.from.back() = result.to.back() = {new_part(extents(n.outputs[0]).back())};
    made_[base] = extents_of(result.from);
    views_[n.outputs[0]] = std::move(result);
    add(std::move(y));
    return true;
  }

  onnx::node made(const onnx::node& like, const std::string& op, std::vector<std::string> inputs,
                  const std::string& output) {
    onnx::node n;
    n.op_type = op;
    n.name = like.name;
    n.metadata = like.metadata;
    n.inputs = std::move(inputs);
    n.outputs = {output};
    return n;
  }
  /// Adds a constant list.
  value& list(const std::string& name, const integers& numbers) {
    value& v = of_.add_value(name);
    v.type = int64;
    v.extents = {integer(static_cast<std::int64_t>(numbers.size()))};
    v.elements = numbers;
    return v;
  }

  /// Adds the nodes that compute a view, and returns the name of the value: that of the source if nothing is moved,
  /// unless the name is `kept`.
  std::string shown(const std::string& name, bool kept = false) {
    const auto at = views_.find(name);
    if (at == views_.end()) return name;
    std::string& known_name = shown_[name];
    if (!known_name.empty() && (!kept || known_name == name)) return known_name;
    view v = at->second;
    // Axes of extent 1 that the source does not have stand for those of the source that are missing.
    for (std::size_t i = 0, k = 0; i < v.from.size(); ++i) {
      if (!v.from[i].empty()) continue;
      while (k < v.to.size() && !v.to[k].empty()) ++k;
      if (k < v.to.size()) v.from[i] = v.to[k] = {new_part(1)};
    }
    struct run {
      std::size_t axis, place, to;
      integer extent;
    };
    std::vector<run> runs;
    for (std::size_t k = 0; k < v.to.size(); ++k)
      for (const std::size_t part : v.to[k])
        for (std::size_t i = 0; i < v.from.size(); ++i)
          for (std::size_t p = 0; p < v.from[i].size(); ++p) {
            if (v.from[i][p] != part) continue;
            if (!runs.empty() && runs.back().to == k && runs.back().axis == i && runs.back().place + 1 == p)
              runs.back().place = p, runs.back().extent = runs.back().extent * parts_[part];
            else
              runs.push_back({i, p, k, parts_[part]});
          }
    std::vector<std::int64_t> perm(runs.size());
    for (std::size_t i = 0; i < runs.size(); ++i) perm[i] = static_cast<std::int64_t>(i);
    const auto place = [&](std::int64_t i) {
      return std::pair(runs[static_cast<std::size_t>(i)].axis, runs[static_cast<std::size_t>(i)].place);
    };
    std::sort(perm.begin(), perm.end(), [&](auto a, auto b) { return place(a) < place(b); });
    integers now = extents_of(v.from), inner, moved;
    for (const std::int64_t i : perm) inner.push_back(runs[static_cast<std::size_t>(i)].extent);
    for (const run& r : runs) moved.push_back(r.extent);
    std::vector<std::int64_t> order(runs.size());
    for (std::size_t i = 0; i < perm.size(); ++i)
      order[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
    const integers result = extents_of(v.to);
    std::string x = v.source;
    int count = 0;
    std::vector<onnx::node> steps;
    const auto step = [&](const std::string& op, std::vector<std::string> more) {
      const std::string y = name + "/view" + std::to_string(++count);
      more.insert(more.begin(), x);
      steps.push_back(made(*v.like, op, std::move(more), y));
      x = y;
    };
    const auto reshaped = [&](const integers& to) {
      step("Reshape", {list(name + "/dims" + std::to_string(count), to).name});
    };
    if (!std::is_sorted(order.begin(), order.end())) {
      if (!(inner == now)) reshaped(inner);
      step("Transpose", {});
      steps.back().attributes.push_back(attribute_of("perm", order));
      now = moved;
    }
    if (!(now == result)) reshaped(result);
    if (steps.empty() && !kept) return known_name = x;
    if (steps.empty()) step("Identity", {});
    steps.back().outputs = {name};
    for (onnx::node& each : steps) nodes_.push_back(std::move(each));
    return known_name = name;
  }

  void add(onnx::node n) {
    for (std::string& name : n.inputs) name = shown(name);
    for_each_read(n, [&](const std::string& name) { shown(name, true); });  // in subgraphs
    nodes_.push_back(std::move(n));
  }

  // ---- the new nodes ----

  /// Makes slices that divide an axis into equal parts one split.
  void unite_slices() {
    struct part {
      std::size_t node;
      std::int64_t begin, end;
    };
    std::map<std::pair<std::string, std::int64_t>, std::vector<part>> groups;
    const auto only = [&](const std::string& name) -> std::optional<std::int64_t> {
      const auto own = of_.values_.find(name), seen = first_.values_.find(name);
      const value* v = own != of_.values_.end() && own->second->elements ? own->second.get()
                       : seen != first_.values_.end()                    ? seen->second.get()
                                                                         : nullptr;
      if (!v || !v->elements || v->elements->size() != 1 || !v->elements->at(0).is_number()) return std::nullopt;
      return v->elements->at(0).number();
    };
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const onnx::node& n = nodes_[i];
      if (n.op_type != "Slice" || !n.domain.empty() || n.inputs.size() < 4) continue;
      const auto begin = only(n.inputs[1]), end = only(n.inputs[2]);
      auto axis = only(n.inputs[3]);
      if (axis && *axis < 0) *axis += std::ssize(extents(n.inputs[0]));
      if (!begin || !end || !axis || *axis < 0 || (n.inputs.size() > 4 && only(n.inputs[4]) != 1)) continue;
      groups[{n.inputs[0], *axis}].push_back({i, *begin, *end});
    }
    for (auto& [of, all] : groups) {
      std::sort(all.begin(), all.end(), [](const part& a, const part& b) { return a.begin < b.begin; });
      const integers& x = extents(of.first);
      const std::int64_t n = std::ssize(all), size = all[0].end;
      const auto axis = static_cast<std::size_t>(of.second);
      bool fits = n > 1 && size > 0 && axis < x.size() && x[axis].is_number() && x[axis].number() / n == size &&
                  x[axis].number() % n == 0;
      if (!fits) continue;  // products of other sizes can overflow
      for (std::int64_t i = 0; i < n; ++i) {
        const part& p = all[static_cast<std::size_t>(i)];
        const bool open = i + 1 == n && p.end > n * size;  // up to the end
        fits = fits && p.begin == i * size && (p.end == p.begin + size || open);
      }
      if (!fits) continue;
      std::size_t first = nodes_.size();
      for (const part& p : all) first = std::min(first, p.node);
      onnx::node split = made(nodes_[first], "Split", {of.first}, "");
      split.outputs.clear();
      for (const part& p : all) split.outputs.push_back(nodes_[p.node].outputs[0]), nodes_[p.node].outputs.clear();
      split.attributes = {attribute_of("axis", of.second)};
      nodes_[first] = std::move(split);
    }
    std::erase_if(nodes_, [](const onnx::node& n) { return n.outputs.empty(); });
  }
  void remove_unread() {
    std::set<std::string> read;
    for (const onnx::value_info& o : of_.model.main.outputs) read.insert(o.name);
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      const auto& outputs = nodes_[i].outputs;
      if (std::any_of(outputs.begin(), outputs.end(), [&](const auto& name) { return read.count(name) > 0; }))
        for_each_read(nodes_[i], [&](const std::string& name) { read.insert(name); });
      else
        nodes_[i].outputs.clear();
    }
    std::erase_if(nodes_, [](const onnx::node& n) { return n.outputs.empty(); });
  }

  importer &of_, &first_;
  std::map<std::string, const onnx::node*> producers_;
  std::map<std::string, std::size_t> reads_;
  std::map<char, std::string> bound_;
  std::set<const onnx::node*> matched_;
  std::vector<integer> parts_;  ///< their extents
  std::map<std::string, view> views_;
  std::map<std::string, std::string> shown_;  ///< the names of views that nodes read
  std::map<std::string, std::optional<double>> numbers_;
  std::map<std::string, std::string> concats_;
  std::map<std::string, integers> made_;  ///< the extents of new values
  std::vector<onnx::node> nodes_;
};

void importer::simplify(importer& first) { nodes_ = simplifier(*this, first).run(); }

}  // namespace tool::importer
