// SPDX-License-Identifier: BSL-1.0
#include "importer.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <weft/format.hpp>
#include <weft/session/freeze_names.hpp>

namespace tool::importer {

namespace onnx = weft::onnx;

// ---- names ----

namespace {

/// Names that the written files use, besides the keywords of C++.
constexpr std::string_view reserved_words =
    "std weft nn g model net path v how graph node tensor dims dyn extent let constant transpose reshape "
    "g s argc argv flags result output main "
    "placeholder session with fetch read_npy write_npy variable visit net results outputs printf "
    "fprintf "
    // Functions of texts that rules make.
    "max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d conv1d conv2d conv3d grouped_conv2d "
    "depthwise_conv2d slice reverse squeeze fill gather batch_normalization layer_normalization zeros_like matvec "
    "vecdot "
    "broadcast_matmul expand_dims maximum minimum select range cast softmax log_softmax graph_of padding size2d "
    "clamp any all eye pad take_along_axis argsort top_k repeat let round hard_shrink soft_shrink hard_sigmoid "
    "gelu_tanh silu relu6 attention selu triu tril square log einsum range is_inf fmod floor_mod pow "
    "moments rsqrt split random_bernoulli max_pool2d_with_indices sqrt";

/// Names of Weft with which a namespace would be confused.
constexpr std::string_view names_of_weft =
    "detail device plan math data queue queue_runner summary library gpu symbol shape node_def expression skeleton "
    "formula init metrics onnx frozen half bfloat16 tensor_view mode";

std::string lower_snake(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool capital = text[i] >= 'A' && text[i] <= 'Z';
    if (capital && i > 0 && (text[i - 1] < 'A' || text[i - 1] > 'Z') && is_word(text[i - 1]) && text[i - 1] != '_')
      result += '_';
    result += capital ? static_cast<char>(text[i] + ('a' - 'A')) : text[i];
  }
  return result;
}

}  // namespace

std::string scope_of(const onnx::node& n) {
  // PyTorch writes ['', 'layer1', 'layer1.0', 'layer1.0.conv1', 'conv2d_1'] into the metadata.
  std::string found;
  for (const auto& [key, text] : n.metadata)
    if (key == "pkg.torch.onnx.name_scopes") {
      const std::size_t last = text.rfind(", '"), before = text.rfind('\'', last - 2);
      if (last != text.npos && last > 2 && before != text.npos) found = text.substr(before + 1, last - before - 2);
      return found;
    }
  std::string name = n.name;
  for (std::size_t at; (at = name.find('/')) != name.npos; name.erase(0, at + 1)) {
    const std::string part = name.substr(0, at);
    // "/layer1/layer1.0/conv1/Conv" repeats the name of the outer module.
    std::size_t repeated = 0;
    for (std::size_t dot = part.rfind('.'); dot != part.npos && dot > 0; dot = part.rfind('.', dot - 1)) {
      const std::string outer = part.substr(0, dot);
      if (found == outer || found.ends_with("." + outer)) repeated = dot + 1;
      if (repeated > 0) break;
    }
    if (!part.empty()) found += (found.empty() ? "" : ".") + part.substr(repeated);
  }
  return found;
}

std::string importer::name_for(std::string text) {
  text = with_underscores(lower_snake(text));
  while (text.find("__") != text.npos) text.erase(text.find("__"), 1);
  while (!text.empty() && text.back() == '_') text.pop_back();
  while (!text.empty() && text.front() == '_') text.erase(0, 1);
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) text = "x" + text;
  if (text.size() > 60) text.resize(60);
  if (text.size() == 1 && text[0] >= 'A' && text[0] <= 'Z') text += "_";
  std::string unused = text;
  for (int i = 1; !names.insert(unused).second; ++i) unused = text + "_" + std::to_string(i);
  return unused;
}

// ---- values ----

value& importer::add_value(const std::string& name) {
  auto& v = values_[name];
  if (v && (v->type != 0 || !v->text.empty()))
    throw error(error_code::data_loss, "import", {"the graph computes the value \"", name, "\" twice"});
  if (!v) v = std::make_unique<value>();
  v->name = name;
  return *v;
}

std::string importer::dims_text(const integers& extents) {
  std::string text = "dims<";
  for (std::size_t i = 0; i < extents.size(); ++i) text += (i > 0 ? ", " : "") + extents[i].text();
  return text + ">";
}
std::string importer::shape_text(const integers& extents) {
  std::string text = "[";
  for (std::size_t i = 0; i < extents.size(); ++i) text += (i > 0 ? ", " : "") + extents[i].text(true);
  return text + "]";
}

value& importer::in_order(value& v, bool last) {
  if (v.rank() < 3 || v.last == last) return v;
  if (v.other) return *v.other;
  auto& w = *reordered_.emplace_back(std::make_unique<value>(v));
  w.other = &v;
  v.other = &w;
  w.last = last;
  w.text.clear();
  w.stated = false;
  if (v.known()) return w;
  std::string axes;
  for (const int axis : channel_order(v.rank(), last)) axes += (axes.empty() ? "" : ", ") + std::to_string(axis);
  define(w, "transpose<" + axes + ">(" + text_of(v) + ")", false, last ? "x" : "transposed");
  return w;
}

void importer::state(value& v, const std::string& text) {
  statements.push_back({{v.text}, text, shape_text(physical(v))});
  v.stated = true;
}

void importer::define(value& v, std::string text, bool fuses, const std::string& suggested) {
  v.suggested = suggested;
  if (is_name(text) || (v.uses < 2 && text.size() <= 80)) {
    v.stated = is_name(text);
    v.text = std::move(text);
    return;
  }
  v.text = name_for(suggested.empty() ? "x" : suggested);
  state(v, fuses && v.uses > 1 ? "let(" + text + ")" : text);
}

std::string importer::text_of(value& v) {
  if (!v.text.empty()) return v.text;
  if (!v.known()) throw error(error_code::data_loss, path_, {"reads \"", v.name, "\" before it is computed"});
  const std::string type = cpp_type(v.type);
  std::vector<std::int64_t> view = v.view;
  if (view.empty())
    for (const integer& n : v.extents) view.push_back(n.number());
  std::vector<int> order = v.order;
  if (order.empty()) {
    order = channel_order(view.size(), true);
    if (!v.last) std::iota(order.begin(), order.end(), 0);
  }
  const std::vector<std::int64_t> result = permuted(view, order);
  integers extents(result.begin(), result.end());
  while (v.padded && !extents.empty() && extents[0].is(1)) extents.erase(extents.begin());
  const std::size_t count = tool::count_of(view);
  if (count > 16 || (v.parameter && count > 1)) {
    if (!v.constant) throw error(error_code::unimplemented, path_, "a computed list of integers is too long");
    v.text = variable_for(v, extents, view, order) + "(" + first_input + ")";
    return v.text;
  }
  std::string list;
  for (const std::size_t i : source_elements(view, order)) {
    if (v.elements && !(*v.elements)[i].is_number())
      throw error(error_code::unimplemented, path_,
                  {"computes with the extent ", (*v.elements)[i].text(true), ", which is not known at import"});
    const std::string one =
        v.elements ? (v.type == boolean ? literal(boolean, (*v.elements)[i].is(0) ? 0 : 1) : (*v.elements)[i].text())
                   : element_text(*v.constant, i);
    list += (list.empty() ? "" : ", ") + one;
  }
  uses_graph = true;
  const std::string made = "constant(g, tensor<" + type + ", " + dims_text(extents) + ">{" + list + "})";
  if (v.uses > 1 || made.size() > 64) {
    v.text = name_for(v.name);
    statements.push_back({{v.text}, made, ""});
  } else {
    v.text = made;
  }
  return v.text;
}

std::vector<std::size_t> source_elements(const std::vector<std::int64_t>& view, const std::vector<int>& order) {
  const std::size_t rank = view.size();
  std::vector<std::size_t> strides(rank, 1), extents, steps, index(rank, 0);
  std::size_t count = 1;
  for (std::size_t i = rank; i-- > 0;) {
    strides[i] = count;
    count *= static_cast<std::size_t>(view[i]);
  }
  for (const int axis : order) {
    extents.push_back(static_cast<std::size_t>(view[static_cast<std::size_t>(axis)]));
    steps.push_back(strides[static_cast<std::size_t>(axis)]);
  }
  std::vector<std::size_t> sources(count);
  std::size_t at = 0;
  for (std::size_t& source : sources) {
    source = at;
    for (std::size_t i = rank; i-- > 0;) {
      at += steps[i];
      if (++index[i] < extents[i]) break;
      at -= steps[i] * extents[i];
      index[i] = 0;
    }
  }
  return sources;
}

// ---- layers and variables ----

std::string importer::add_member(member m, const std::string& suggested) {
  m.key = m.type + "|" + m.options;
  for (const weight& w : m.weights) {
    m.key += "|" + digits(reinterpret_cast<std::uintptr_t>(w.from)) + ":";
    for (const int axis : w.order) m.key += std::to_string(axis) + ",";
  }
  // Exporters merge equal lists, such as biases of 0: these are variables of each layer.
  const bool can_be_shared = std::any_of(m.weights.begin(), m.weights.end(),
                                         [&](const weight& w) { return w.extents.size() > 1 || w.name == "value"; });
  for (const member& other : members)
    if (other.key == m.key && can_be_shared) return other.name;
  m.name = name_for(suggested);
  members.push_back(std::move(m));
  return members.back().name;
}

member& importer::find_member(const std::string& name) {
  for (member& m : members)
    if (m.name == name) return m;
  throw error(error_code::internal, "import", {"there is no layer ", name});
}

std::string importer::variable_for(const value& v, const integers& extents, const std::vector<std::int64_t>& view,
                                   const std::vector<int>& order) {
  need("nn/weight.hpp");
  const bool trained = is_float(v.type) && v.parameter;
  std::string type = "nn::weight<" + dims_text(extents);
  if (v.type != float32 || !trained) type += ", " + cpp_type(v.type);
  if (!trained) type += ", variable_kind::frozen";
  std::vector<std::int64_t> numbers;
  for (const integer& n : extents) numbers.push_back(n.number());
  return add_member({type + ">", "", "", {{"value", v.constant, view, order, numbers}}, "", 0},
                    v.name.empty() ? "constant"
                    : scope.empty() || v.name.starts_with(scope + ".")
                        ? relative(v.name)
                        : v.name.substr(0, v.name.find_last_not_of("0123456789") + 1));
}

// ---- the graph ----

const std::set<std::string>& reserved_names() {
  static const std::set<std::string> all = [] {
    std::set<std::string> names;
    for (const std::string_view words : {weft::detail::words_of_cpp, reserved_words})
      for_each_word(words, [&](std::string_view word) { names.emplace(word); });
    // Functions that the rows call, or that a row without a text of its own lists for its rule.
    for_each_row([&](const row& r) {
      for_each_word(r.text, [&](std::string_view word) {
        const char* const end = word.data() + word.size();
        const bool is_called = end < r.text.data() + r.text.size() && (*end == '(' || *end == '<');
        if (is_called || r.text.find('{') == r.text.npos) names.emplace(word);
      });
    });
    return names;
  }();
  return all;
}

bool can_be_namespace(const std::string& name) {
  return !reserved_names().contains(name) && !weft::detail::has_word(weft::detail::functions_of_c, name) &&
         !weft::detail::has_word(names_of_weft, name);
}

importer::importer(const onnx::model& m, const options& o) : model(m), chosen(o) { names = reserved_names(); }

void importer::add_constant(const std::string& name, const onnx::tensor_value& t) {
  value& v = add_value(name);
  set_constant(v, t);
  v.parameter = is_float(t.type);
}

void set_constant(value& v, const onnx::tensor_value& t) {
  v.type = t.type;
  v.constant = &t;
  v.extents.assign(t.extents.begin(), t.extents.end());
  if ((t.type == int64 || t.type == int32 || t.type == boolean) && count_of(t) <= 65536) {
    v.elements.emplace();
    for (std::size_t i = 0; i < count_of(t); ++i)
      v.elements->emplace_back(t.type == int64 ? element_at<std::int64_t>(t, i)
                                               : static_cast<std::int64_t>(number_at(t, i)));
  }
}

void importer::inline_functions(const std::vector<onnx::node>& from,
                                const std::map<std::string, std::string>& arguments_of,
                                const std::map<std::string, const onnx::attribute*>& attributes, int depth) {
  if (depth > 50)
    throw error(error_code::invalid_argument, "import", "the functions of the model call each other without end");
  if (calls_ > 100'000)
    throw error(error_code::resource_exhausted, "import",
                "the functions of the model are called more than 100,000 times");
  std::map<std::string, std::string> in_caller = arguments_of;
  const std::string prefix = depth == 0 ? "" : "call" + std::to_string(++calls_) + "/";
  const auto renamed = [&](const std::string& name) {
    const auto at = in_caller.find(name);
    return name.empty() || depth == 0 ? name : at != in_caller.end() ? at->second : in_caller[name] = prefix + name;
  };
  for (const onnx::node& n : from) {
    onnx::node copy = n;
    for (std::string& name : copy.inputs) name = renamed(name);
    for (std::string& name : copy.outputs) name = renamed(name);
    std::erase_if(copy.attributes, [&](onnx::attribute& a) {
      if (a.ref_attr_name.empty()) return false;
      const auto given = attributes.find(a.ref_attr_name);
      if (given == attributes.end()) return true;
      const std::string name = a.name;
      a = *given->second;
      a.name = name;
      return false;
    });
    const onnx::function* called = nullptr;
    for (const onnx::function& f : model.functions)
      if (f.name == n.op_type && f.domain == n.domain && (f.overload == n.overload)) called = &f;
    const bool has_row = called && n.domain.empty() && find_row(n.op_type, 1000) != nullptr;
    if (!called || has_row) {
      std::vector<onnx::node> parts = with_real_numbers(copy);
      if (parts.empty()) parts.push_back(std::move(copy));
      std::move(parts.begin(), parts.end(), std::back_inserter(nodes_));
      if (nodes_.size() > 2'000'000)
        throw error(error_code::resource_exhausted, "import", "the model has more than 2,000,000 nodes");
      continue;
    }
    std::map<std::string, std::string> arguments;
    for (std::size_t i = 0; i < called->inputs.size(); ++i)
      arguments[called->inputs[i]] = i < copy.inputs.size() ? copy.inputs[i] : "";
    for (std::size_t i = 0; i < called->outputs.size() && i < copy.outputs.size(); ++i)
      if (!copy.outputs[i].empty()) arguments[called->outputs[i]] = copy.outputs[i];
    std::map<std::string, const onnx::attribute*> values;
    for (const onnx::attribute& a : called->defaults) values[a.name] = &a;
    for (const onnx::attribute& a : copy.attributes) values[a.name] = &a;
    inline_functions(called->nodes, arguments, values, depth + 1);
  }
}

/// Finds the values whose channels are last because convolutions and the like read or compute them, directly or through
/// elementwise operations.
void importer::find_channels_last() {
  std::vector<const onnx::node*> elementwise;
  for (const onnx::node& n : nodes_) {
    const row* const r = find_row(operator_of(n), opset_of(n.domain));
    if (!r || n.outputs.empty() || n.inputs.empty()) continue;
    if (r->how.order == layout::channels) last_.insert({n.inputs[0], n.outputs[0]});
    if (r->how.order == layout::kept || r->how.order == layout::first) elementwise.push_back(&n);
  }
  for (int pass = 0; pass < 2; ++pass) {
    for (const onnx::node* n : elementwise)
      if (std::any_of(n->inputs.begin(), n->inputs.end(), [&](const auto& name) { return last_.count(name) > 0; }))
        last_.insert(n->outputs[0]);
    for (std::size_t i = elementwise.size(); i-- > 0;)
      if (last_.count(elementwise[i]->outputs[0]))
        last_.insert(elementwise[i]->inputs.begin(), elementwise[i]->inputs.end());
  }
}

std::int64_t importer::opset_of(const std::string& domain) const {
  const auto at = model.opsets.find(domain);
  return at == model.opsets.end() ? 1 : at->second;
}

/// Returns the name of a named extent. Names that differ in the file differ in C++.
std::string importer::extent_name(const std::string& in_file, bool is_new) {
  std::string& name = extent_names_[(is_new ? "?" : "") + in_file];
  if (!name.empty()) return name;
  const std::string clean = with_underscores(in_file);
  name = clean;
  const auto is_used = [&] {
    return std::count_if(extent_names_.begin(), extent_names_.end(), [&](const auto& e) { return e.second == name; }) >
           1;
  };
  for (int i = 1; is_used(); ++i) name = clean + "_" + std::to_string(i);
  return name;
}

void importer::run(bool is_first) {
  const std::int64_t opset = opset_of("");
  if (opset < 6 && (model.opsets.count("") || model.opsets.empty()))
    throw error(error_code::unimplemented, "import",
                {"the file uses opset ", opset,
                 " of ONNX, but Weft imports opsets from 6: convert it with "
                 "onnx.version_converter"});
  for (const onnx::tensor_value& t : model.main.initializers) add_constant(t.name, t);
  for (const auto& [name, file] : chosen.constants) {
    const auto input = std::find_if(model.main.inputs.begin(), model.main.inputs.end(),
                                    [&, n = name](const auto& i) { return i.name == n; });
    if (input == model.main.inputs.end())
      throw error(error_code::invalid_argument, "import", {"--constant ", name, ": the model has no such input"});
    auto& t = new_constant() = read_constant(file);
    t.name = name;
    const onnx::value_info& info = *input;
    bool fits = info.type == t.type && (!info.has_shape || info.extents.size() == t.extents.size());
    for (std::size_t i = 0; fits && info.has_shape && i < t.extents.size(); ++i)
      fits = info.extents[i].value < 0 || info.extents[i].value == t.extents[i];
    if (!fits)
      throw error(error_code::invalid_argument, "import",
                  {"--constant ", name, ": ", file, " has ", onnx::type_name(t.type), " ",
                   shape_text({t.extents.begin(), t.extents.end()}), ", but the input is ", onnx::type_name(info.type),
                   " of other extents or another type"});
    values_.erase(name);
    add_constant(name, t);
  }
  for (const auto& [name, v] : values_)
    for (std::size_t dot = name.rfind('.'), end; dot != name.npos && dot > 0 && v->constant; dot = end) {
      end = name.rfind('.', dot - 1);
      if (end != name.npos) parts_[name.substr(0, end)].insert(name.substr(end + 1, dot - end - 1));
    }
  inline_functions(model.main.nodes, {}, {}, 0);
  if (!is_first) {
    importer first(model, chosen);
    first.run(true);
    simplify(first);
  }
  find_channels_last();
  for (const onnx::value_info& info : model.main.inputs) {
    if (values_.count(info.name)) continue;
    value& v = add_value(info.name);
    if (info.kind != "tensor")
      throw error(error_code::unimplemented, "import",
                  {"the input \"", info.name, "\" is a ", info.kind.empty() ? "value without a type" : info.kind,
                   ", but only tensors are imported"});
    if (!info.has_shape)
      throw error(error_code::unimplemented, "import",
                  {"the input \"", info.name,
                   "\" has no shape: give it one, with names for unknown extents, or a "
                   "value by --constant ",
                   info.name, "=FILE.npy"});
    v.type = info.type;
    cpp_type(v.type);
    for (std::size_t i = 0; i < info.extents.size(); ++i) {
      const onnx::dimension& d = info.extents[i];
      const std::string name =
          extent_name(d.name.empty() ? info.name + "_" + std::to_string(i) : d.name, d.name.empty());
      const auto fixed = chosen.extents.find(name);
      v.extents.push_back(d.value >= 0                    ? integer(d.value)
                          : fixed != chosen.extents.end() ? integer(fixed->second)
                                                          : integer::named(name));
    }
    if (v.rank() > 8)
      throw error(error_code::unimplemented, "import", {"the input \"", info.name, "\" has more than 8 axes"});
    v.last = !chosen.nchw && v.rank() >= 3 && last_.count(info.name) > 0;
    v.text = name_for(info.name);
    v.stated = true;
    inputs.push_back(&v);
    input_names.push_back(v.text);
  }
  if (!inputs.empty())
    first_input = inputs[0]->text;
  else
    first_input = "g", uses_graph = true;
  for (const onnx::node& n : nodes_)
    if (n.op_type != "Shape" && n.op_type != "Size")
      for_each_read(n, [&](const std::string& name) { ++declared(name).uses; });
  for (const onnx::value_info& o : model.main.outputs) ++declared(o.name).uses;
  if (is_first)
    block_of_.assign(nodes_.size(), 0);
  else
    find_blocks();
  std::map<std::string, std::set<std::size_t>> readers;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    for_each_read(nodes_[i], [&](const std::string& name) { readers[name].insert(block_of_[i]); });
  for (auto& [name, v] : values_) v->shared = v->parameter && v->rank() > 1 && !v->scalar() && readers[name].size() > 1;
  for (const std::size_t i : order_of_nodes())
    if (block_of_[i] == 0)
      import_node(nodes_[i]);
    else
      import_block(blocks[block_of_[i] - 1]);
  path_.clear();
  if (model.main.outputs.empty()) throw error(error_code::unimplemented, "import", "the model has no outputs");
  for (const onnx::value_info& o : model.main.outputs) {
    value& v = find(o.name);
    if (v.type == 0 && v.text.empty())
      throw error(error_code::data_loss, "import", {"no node computes the output \"", o.name, "\""});
    value& shown = chosen.nchw ? in_order(v, false) : v;
    outputs.push_back(&shown);
    returned.push_back(text_of(shown));
  }
  remove_unused();
}

void importer::import_node(const onnx::node& n) {
  if (n.outputs.empty()) return;
  const std::string op = operator_of(n);
  const std::int64_t opset = opset_of(n.domain);
  path_ = "import: " + op + (n.name.empty() ? "" : " \"" + n.name + "\"");
  const row* const r = find_row(op, opset);
  if (!r) {
    static constexpr row none{"", {nullptr}};
    call(*this, n, none, opset).refuse("the operator is not supported");
  }
  call c(*this, n, *r, opset);
  try {
    import_call(c);
  } catch (const std::out_of_range&) {
    c.refuse("an operand has too few axes, or an operand or an attribute too few elements");
  } catch (const std::length_error&) {
    c.refuse("its numbers are too large");
  }
}

void importer::import_call(call& c) {
  const row* const r = &c.of;
  if (r->how.order == layout::plain)
    for (std::size_t i = 0; i < c.in.size(); ++i)
      if (c.has(i)) c.reorder(i, false);
  if (r->how.order == layout::channels && c.has(0)) c.reorder(0, true);
  if (r->how.order == layout::kept) c.unify_order();
  r->how.apply(c);
  c.check_attributes();
  static const std::set<std::string_view> moves{"Expand", "Flatten", "Gather",  "Identity",  "Reshape",
                                                "Slice",  "Split",   "Squeeze", "Transpose", "Unsqueeze"};
  for (value* v : c.out)
    if (v && moves.count(r->op) > 0 && is_zero(c.operand(0))) v->zeros = true;
  for (value* v : c.out)
    if (v && v->type != text_type) {
      cpp_type(v->type);
      if (v->rank() > 8) c.refuse("a result has more than 8 axes");
      for (const integer& extent : v->extents)
        if (extent.is_number() && extent.number() < 0)
          c.refuse("a result has an extent below 0: " + shape_text(v->extents));
    }
  if (c.done || c.out.empty() || !c.out[0] || c.out[0]->known()) return;
  value& y = *c.out[0];
  if (c.out.size() == 1 && (y.type == int64 || y.type == int32 || y.type == boolean))
    if (auto known = evaluate(c)) {
      const bool has_text = known->size() <= 16 || !all_numbers(*known);
      y.elements = std::move(known);
      if (has_text) return;
    }
  if (c.text.empty() && c.texts.empty()) c.refuse("these operands are not supported");
  need(c.of.header);
  if (!c.texts.empty()) {
    if (c.has(0)) c.name_operand(0);
    for (std::size_t i = 0; i < c.out.size(); ++i)
      if (c.out[i]) define(*c.out[i], c.filled(c.after_statements(c.texts.at(i))), c.fuses, c.out[i]->name);
    return;
  }
  c.text = c.after_statements(c.text);
  std::string text = c.filled(c.text);
  // Instead of a long expression, statements for its operands, the longest first.
  while (text.size() > 90) {
    value* longest = nullptr;
    for (value* const v : c.in)
      if (v && !v->stated && !v->known() && !v->text.empty() && (!longest || v->text.size() > longest->text.size()))
        longest = v;
    if (!longest || longest->text.size() < 24) break;
    const std::string once = longest->text;
    longest->text = name_for(longest->suggested.empty() ? "x" : longest->suggested);
    state(*longest, once);
    text = c.filled(c.text);
  }
  if (r->how.wide && is_half(y.type) && c.text != "{0}") text = cast_text(y.type, text);
  if (c.out.size() == 1 || !c.tuple) return define(y, text, c.fuses, c.result_name());
  statement s{{}, text, ""};
  std::vector<std::string> shapes;
  for (std::size_t i = 0; i < c.out.size(); ++i) {
    value* const v = c.out[i];
    // "split_12_split_0" is one of many.
    const bool numbered = v && std::any_of(v->name.begin(), v->name.end(), [](char d) { return d >= '0' && d <= '9'; });
    const auto called = v ? called_.find(v->name) : called_.end();
    s.names.push_back(name_for(called != called_.end() ? called->second
                               : !v                    ? "unused"
                               : numbered              ? c.from.op_type + "_" + std::to_string(i)
                                                       : v->name));
    if (!v) continue;
    v->text = s.names.back();
    v->stated = true;
    shapes.push_back(shape_text(physical(*v)));
  }
  const bool equal = std::all_of(shapes.begin(), shapes.end(), [&](const auto& shape) { return shape == shapes[0]; });
  for (const std::string& shape : shapes)
    if (s.comment.empty())
      s.comment = (equal && shapes.size() > 1 ? "each " : "") + shape;
    else if (!equal)
      s.comment += ", " + shape;
  statements.push_back(std::move(s));
}

value& importer::declared(const std::string& name) {
  auto& v = values_[name];
  if (!v) {
    v = std::make_unique<value>();
    v->name = name;
  }
  return *v;
}

void importer::keep_read(std::vector<statement>& all, std::set<std::string, std::less<>>& read) {
  for (std::size_t i = all.size(); i-- > 0;) {
    const auto& names = all[i].names;
    if (std::any_of(names.begin(), names.end(), [&](const auto& name) { return read.count(name) > 0; }))
      for_each_word(all[i].text, [&](std::string_view word) { read.insert(std::string(word)); });
    else
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void importer::remove_unused() {
  std::set<std::string, std::less<>> read;
  const auto note = [&](std::string_view word) { read.insert(std::string(word)); };
  for (const std::string& text : returned) for_each_word(text, note);
  keep_read(statements, read);
  std::erase_if(members, [&](const member& m) { return !read.count(m.name); });
  uses_graph = read.count("g") > 0;
  if (uses_graph) read.insert(first_input);
  for (std::string& name : input_names)
    if (!read.count(name)) name.clear();
}

// ---- a node ----

call::call(importer& i, const onnx::node& n, const row& r, std::int64_t set)
    : to(i), from(n), of(r), opset(set), text(r.text), fuses(r.how.order == layout::kept) {
  for (const std::string& name : n.inputs) in.push_back(name.empty() ? nullptr : &to.in_body(to.find(name)));
  while (!in.empty() && !in.back()) in.pop_back();
  if (r.how.apply)
    for (std::size_t k = 0; k < in.size(); ++k) {
      if (in[k] && in[k]->bounded)
        refuse("operand " + std::to_string(k) + " has a number of rows that only a step knows");
      if (in[k] && in[k]->type == 0 && in[k]->text.empty())
        refuse("it reads \"" + in[k]->name + "\" before a node computes it");
    }
  for (const std::string& name : n.outputs)
    out.push_back(!r.how.apply    ? nullptr
                  : !name.empty() ? &to.add_value(name)
                  : out.empty()   ? &to.unread_value()
                                  : nullptr);
  for (value* v : out)
    if (v) v->home = to.id;
  while (!out.empty() && (!out.back() || (out.size() > 1 && out.back()->uses == 0))) out.pop_back();
}

void call::refuse(const std::string& why) const {
  throw error(error_code::unimplemented, "import",
              {operator_of(from), from.name.empty() ? "" : " \"" + from.name + "\"", " (opset ", opset, "): ", why});
}

const integers& call::known_integers(std::size_t i) {
  value& v = operand(i);
  if (!v.elements) {
    for (const onnx::value_info& input : to.model.main.inputs)
      if (input.name == v.name)
        refuse("\"" + v.name + "\" must be known at import: give it by --constant " + v.name + "=FILE.npy");
    refuse("operand " + std::to_string(i) + " must be known at import, but \"" + v.name + "\" is computed");
  }
  return *v.elements;
}

std::vector<double> call::known_numbers(std::size_t i) {
  value& v = operand(i);
  std::vector<double> numbers;
  if (v.constant) {
    for (std::size_t k = 0; k < count_of(*v.constant); ++k) numbers.push_back(number_at(*v.constant, k));
    return numbers;
  }
  for (const integer& n : known_integers(i)) numbers.push_back(static_cast<double>(n.number()));
  return numbers;
}

std::vector<std::int64_t> call::list_or_operand(std::string_view attribute, std::size_t i) {
  if (!has(i)) return list(attribute, {});
  std::vector<std::int64_t> numbers;
  for (const integer& n : known_integers(i)) {
    if (!n.is_number()) refuse("operand " + std::to_string(i) + " must be numbers, but has " + n.text(true));
    numbers.push_back(n.number());
  }
  return numbers;
}

void call::result(std::size_t i, integers extents, bool last, int type) {
  if (i >= out.size() || !out[i]) return;
  out[i]->type = type != same_type ? type : of.type != same_type ? of.type : operand(0).type;
  out[i]->extents = std::move(extents);
  out[i]->last = last && out[i]->rank() >= 3;
}

/// Gives all operands of an elementwise operation one order of axes. Constants of fewer axes are permuted at import.
void call::unify_order() {
  std::size_t rank = 0;
  bool last = false, possible = true;
  for (const value* v : in)
    if (v) rank = std::max(rank, v->rank());
  for (const value* v : in)
    if (v && !v->known()) {
      last |= v->last && v->rank() == rank;
      possible &= v->rank() == rank || v->scalar();
    }
  for (value*& v : in)
    if (v && !(last && possible)) {
      v = &to.in_order(*v, false);
    } else if (v && v->known() && !v->scalar()) {
      v = &to.broadcast_constant(*v, rank);
    } else if (v && v->rank() == rank) {
      v = &to.in_order(*v, true);
    }
  last_order = last && possible;
  for (const value* v : in) numbers_allowed |= v && in.size() > 1 && !(v->known() && v->scalar());
}

value* importer::permuted_constant(value& v, const integers& view, const std::vector<int>& order) {
  for (const auto& [outer, inner] : local)
    if (inner == &v && outer->constant && !v.known()) {
      value*& w = permuted_[{outer, order}];
      if (!w) w = permuted_constant(const_cast<value&>(*outer), view, order);
      return &in_body(*w);
    }
  if (!v.known()) return nullptr;
  auto& w = *reordered_.emplace_back(std::make_unique<value>(v));
  w.text.clear();
  w.stated = w.last = false;
  w.other = nullptr;
  w.view.clear();
  for (const integer& n : view) w.view.push_back(n.number());
  w.order = order;
  w.extents = permuted(view, order);
  return &w;
}

value& importer::broadcast_constant(value& v, std::size_t rank) {
  integers view(rank - v.rank(), 1);
  view.insert(view.end(), v.extents.begin(), v.extents.end());
  value& w = *permuted_constant(v, view, channel_order(rank, true));
  w.extents = view;
  w.last = w.padded = true;
  return w;
}

/// Writes a statement for an operand, unless its text is a name or a number.
void call::name_operand(std::size_t i) {
  value& v = *in[i];
  if (v.stated || (v.known() && v.scalar())) return;
  const std::string once = to.text_of(v);
  if (v.stated) return;
  v.text = to.name_for(v.known() ? v.name : v.suggested.empty() ? "x" : v.suggested);
  to.state(v, once);
}

void call::name_repeated(std::string_view t) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::string mark = "{" + std::to_string(i);
    const std::size_t first = std::min(t.find(mark + "}"), t.find(mark + "="));
    if (first != t.npos && std::min(t.find(mark + "}", first + 1), t.find(mark + "=", first + 1)) != t.npos && has(i))
      name_operand(i);
  }
}

std::string call::after_statements(std::string t) {
  name_repeated(t);
  int depth = 0;
  for (std::size_t i = 0; i < t.size(); ++i) {
    depth += t[i] == '(' || t[i] == '{' ? 1 : t[i] == ')' || t[i] == '}' ? -1 : 0;
    if (depth > 0 || t[i] != ';') continue;
    const std::size_t equals = t.find(" = ");
    statement s{{}, filled(std::string_view(t).substr(equals + 3, i - equals - 3)), ""};
    for_each_word(t.substr(0, equals), [&](std::string_view name) {
      s.names.push_back(holes[std::string(name)] = to.name_for(std::string(name)));
    });
    to.add_statement(std::move(s));
    t.erase(0, i + 2);
    i = t.npos;
  }
  return t;
}

std::string call::filled(std::string_view t) {
  const int around = looseness(t);
  name_repeated(t);
  std::string result;
  for (std::size_t at = 0; at < t.size();) {
    if (t[at] != '{' || at + 1 == t.size() || !(is_word(t[at + 1]) || t[at + 1] == '*')) {
      result += t[at++];
      continue;
    }
    const std::size_t end = t.find('}', at);
    std::string_view hole = t.substr(at + 1, end - at - 1), otherwise;
    const std::size_t equals = hole.find('=');
    if (equals != hole.npos) otherwise = hole.substr(equals + 1), hole = hole.substr(0, equals);
    const std::string_view before = t.substr(0, at), after = t.substr(end + 1);
    at = end + 1;
    if (hole == "*") {
      for (std::size_t i = 0; i < in.size(); ++i)
        if (has(i)) result += (i > 0 ? ", " : "") + operand_text(i, "(", ")", 0);
    } else if (hole[0] >= '0' && hole[0] <= '9') {
      std::size_t i = 0;
      std::from_chars(hole.data(), hole.data() + hole.size(), i);
      if (!has(i) && equals != hole.npos)
        result += otherwise;
      else
        operand(i), result += operand_text(i, before, after, around);
    } else if (const auto stored = holes.find(hole); stored != holes.end()) {
      result += stored->second;
    } else {
      const onnx::attribute* const a = find(hole);
      if (!a && equals == hole.npos) refuse("the attribute " + std::string(hole) + " is missing");
      const int type =
          has(0) && is_float(in[0]->type) && !is_half(in[0]->type) ? in[0]->type : static_cast<int>(float32);
      const bool real = a ? a->type == onnx::attribute::float_type : otherwise.find('.') != otherwise.npos;
      if (real)
        result += literal(type, a ? static_cast<double>(a->f) : std::strtod(std::string(otherwise).c_str(), nullptr));
      else if (!a)
        result += otherwise;
      else if (a->type == onnx::attribute::int_type)
        result += std::to_string(a->i);
      else if (a->type == onnx::attribute::ints_type)
        for (std::size_t i = 0; i < a->ints.size(); ++i) result += (i > 0 ? ", " : "") + std::to_string(a->ints[i]);
      else
        refuse("the attribute " + std::string(hole) + " must be a number");
    }
  }
  return result;
}

std::string call::operand_text(std::size_t i, std::string_view before, std::string_view after, int around) {
  value& v = *in[i];
  std::string t;
  bool number = numbers_allowed && v.known() && v.scalar();
  if (number)
    for (const value* other : in)
      number = number && (!other || other->rank() >= v.rank() || other == &v || other->known());
  if (number) {
    t = v.constant && !v.elements       ? element_text(*v.constant, 0)
        : v.type == boolean             ? literal(boolean, v.elements->at(0).is(0) ? 0 : 1)
        : v.elements->at(0).is_number() ? v.elements->at(0).text()
                                        : to.text_of(v);
  } else {
    t = to.text_of(v);
  }
  if (of.how.wide && is_half(v.type) && text != "{0}")
    return number ? literal(float32, number_at(*v.constant, 0)) : "cast<float>(" + t + ")";
  const bool alone = (before.empty() || before.ends_with("(") || before.ends_with(", ")) &&
                     (after.empty() || after.starts_with(")") || after.starts_with(","));
  const int own = looseness(t);
  return alone || own == 0 || own < around || (own == around && before.empty() && own > 1) ? t : "(" + t + ")";
}

std::string call::suggestion() const {
  for (const value* v : in) {
    if (!v || !v->constant) continue;
    if (!to.scope.empty() && !v->name.starts_with(to.scope + ".")) continue;  // shared with another block
    const std::string name = to.relative(v->name);
    const std::size_t dot = name.rfind('.');
    if (dot != name.npos && dot > 0 && name.find("::") == name.npos) {
      // "downsample.0" is the only layer of "downsample".
      std::string whole = v->name.substr(0, v->name.size() - (name.size() - dot));
      while (whole.ends_with(".0") && to.parts_[whole.substr(0, whole.size() - 2)].size() == 1)
        whole.resize(whole.size() - 2);
      const std::string short_name = to.relative(whole);
      return short_name.empty() || whole == to.scope ? name.substr(0, dot) : short_name;
    }
    if (const std::size_t slash = name.rfind('/'); slash != name.npos && slash > 0) return name.substr(0, slash);
  }
  const std::string scope = scope_of(from);
  return scope.empty() || scope == to.scope ? from.op_type : to.relative(scope);
}

std::string call::result_name() const {
  std::string name = from.outputs[0];
  if (const auto called = to.called_.find(name); called != to.called_.end()) return called->second;
  if (name.find('/') != name.npos) {
    const std::string scope = scope_of(from);
    name = scope == to.scope ? from.op_type : scope.substr(scope.rfind('.') + 1);
  }
  // "relu_12" is one of many.
  while (!name.empty() && ((name.back() >= '0' && name.back() <= '9') || name.back() == '_')) name.pop_back();
  return name.empty() || name == "val" || name == "getitem" ? from.op_type : name;
}

std::string call::layer(std::string type, std::string layer_options, std::vector<weight> weights, bool with_mode) {
  const std::string name =
      to.add_member({std::move(type), "", std::move(layer_options), std::move(weights), "", 0}, suggestion());
  to.uses_mode |= with_mode;
  text = name + (with_mode ? "({0}, how)" : "({0})");
  return name;
}

void call::check_attributes() const {
  for (const onnx::attribute& a : from.attributes) {
    if (from.find(a.name) != &a) refuse("the attribute " + a.name + " is given twice");
    bool read = seen_.count(a.name) > 0 || text.find("{" + a.name + "=") != text.npos ||
                text.find("{" + a.name + "}") != text.npos;
    for (const std::string& each : texts) read |= each.find("{" + a.name + "=") != each.npos;
    if (!read) refuse("the attribute " + a.name + " is not supported");
  }
}

}  // namespace tool::importer
