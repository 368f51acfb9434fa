// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>
#include <weft/onnx/file.hpp>

#include "../element_types.hpp"
#include "integer.hpp"

/// The importer's form of a graph: values whose types and extents are known, and the C++ text that computes them.
namespace tool::importer {

using weft::dtype;

/// The element types of ONNX that the rows name (TensorProto.DataType).
enum element : int {
  same_type = 0,
  float32 = 1,
  uint8 = 2,
  int8 = 3,
  int32 = 6,
  int64 = 7,
  text_type = 8,
  boolean = 9,
  float16 = 10,
  float64 = 11,
  bfloat16 = 16
};

inline bool is_half(int type) { return type == float16 || type == bfloat16; }
inline bool is_float(int type) { return type == float32 || type == float64 || is_half(type); }

/// Returns Weft's type of elements. Throws unimplemented if there is none.
inline dtype element_type(int type) {
  const auto known = weft::onnx::element_type(type);
  if (!known)
    throw error(error_code::unimplemented, "import",
                {"elements of type ", weft::onnx::type_name(type), " are not supported"});
  return *known;
}

/// Returns the C++ name of an element type.
inline std::string cpp_type(int type) {
  const dtype known = element_type(type);
  switch (known) {
    case dtype::boolean:
      return "bool";
    case dtype::float32:
      return "float";
    case dtype::float64:
      return "double";
    case dtype::float16:
      return "half";
    case dtype::bfloat16:
      return "bfloat16";
    default:
      return "std::" + std::string(weft::name(known)) + "_t";
  }
}

/// A value of the graph.
struct value {
  std::string name;     ///< in the file
  int type = 0;         ///< TensorProto.DataType
  integers extents;     ///< in ONNX's order of axes, [batch, channels, ...]
  bool last = false;    ///< the text's channels are the last axis
  bool stated = false;  ///< the text is a name
  std::size_t uses = 0;
  std::string text;                                    ///< empty until the value is needed, if it is known at import
  const weft::onnx::tensor_value* constant = nullptr;  ///< the elements, in the file's order of axes
  std::optional<integers> elements;                    ///< integers that are known at import
  value* other = nullptr;                              ///< the same value in the other order of axes
  std::string suggested;                               ///< a C++ name for the value
  std::string layer;                                   ///< a dense layer without a bias whose result this is
  bool parameter = false;                              ///< a floating-point initializer of the graph
  std::vector<std::int64_t> view;                      ///< of a constant that is padded with leading extents 1
  std::vector<int> order;
  bool padded = false;
  bool zeros = false;    ///< all elements are 0
  bool bounded = false;  ///< the number of rows is known when a step has run
  bool shared = false;   ///< a parameter that several blocks read
  std::size_t home = 0;  ///< the body in which the text is valid

  std::size_t rank() const { return extents.size(); }
  bool known() const { return constant || elements; }
  /// Returns true for values that a layer can hold as its weights.
  bool trained() const { return constant && parameter; }
  bool scalar() const {
    for (const integer& n : extents)
      if (!n.is(1)) return false;
    return true;
  }
};

/// Returns the order of axes that moves the channels to the end, {0, 2, 3, 1}, or back, {0, 3, 1, 2}.
inline std::vector<int> channel_order(std::size_t rank, bool to_last) {
  std::vector<int> order(rank);
  for (std::size_t i = 0; i < rank; ++i) order[i] = static_cast<int>(i);
  if (rank < 3) return order;
  if (to_last)
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  else
    std::rotate(order.begin() + 1, order.end() - 1, order.end());
  return order;
}
template <class List>
List permuted(const List& of, const std::vector<int>& order) {
  List result;
  for (const int i : order) result.push_back(of[static_cast<std::size_t>(i)]);
  return result;
}

/// The elements of a variable in the safetensors file: a tensor of the model with its axes permuted.
struct weight {
  std::string name;  ///< "conv1/weights"
  const weft::onnx::tensor_value* from = nullptr;
  std::vector<std::int64_t> view;  ///< the extents before the permutation; equal to from->extents or a reshape of it
  std::vector<int> order;          ///< axis i of the result is axis order[i] of the view
  std::vector<std::int64_t> extents;
};

/// A layer or a variable of the model.
struct member {
  std::string type, name, options;
  std::vector<weight> weights;
  std::string key;                                              ///< equal for equal layers with the same weights
  std::size_t block = 0;                                        ///< the body of a block
  std::string full = {};                                        ///< the type with options that are the defaults
  std::vector<std::pair<std::string, std::string>> parts = {};  ///< of nn::sequential: their types and results
};

struct statement {
  std::vector<std::string> names;  ///< several: a structured binding
  std::string text, comment;

  /// Returns the names as they are declared: `x`, or `[x, y]`.
  std::string declared() const {
    std::string all = names.at(0);
    for (std::size_t i = 1; i < names.size(); ++i) all += ", " + names[i];
    return names.size() > 1 ? "[" + all + "]" : all;
  }
};

inline bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// Returns how loosely the outermost operator of an expression binds: 0 for a name or a call, 1 for `-x`, and more for
/// `*`, `+`, `<`, `==`, `&&` and `||`.
inline int looseness(std::string_view text) {
  constexpr std::pair<std::string_view, int> operators[] = {
      {" * ", 2},  {" / ", 2}, {" % ", 2}, {" + ", 3},  {" - ", 3},   {" << ", 4},
      {" >> ", 4}, {" < ", 5}, {" > ", 5}, {" <= ", 5}, {" >= ", 5},  {" == ", 6},
      {" != ", 6}, {" & ", 7}, {" ^ ", 8}, {" | ", 9},  {" && ", 10}, {" || ", 11}};
  int depth = 0, loosest = !text.empty() && (text[0] == '-' || text[0] == '!' || text[0] == '~') ? 1 : 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool bracket = i > 0 && c == '<' && is_word(text[i - 1]);
    if (c == '(' || c == '{' || c == '[' || bracket) ++depth;
    if (c == ')' || c == '}' || c == ']' || (c == '>' && i > 0 && text[i - 1] != ' ' && text[i - 1] != '-')) --depth;
    if (depth == 0 && c == ' ')
      for (const auto& [mark, level] : operators)
        if (text.substr(i, mark.size()) == mark) loosest = std::max(loosest, level);
  }
  return loosest;
}

/// The contents of one function: the model's call operator, or that of a block.
struct body {
  std::size_t id = 0;  ///< 0: the model; blocks count from 1
  std::string scope;   ///< of a block: "layer1.0"
  std::vector<member> members;
  std::vector<statement> statements;
  std::vector<value*> inputs, outputs;
  std::vector<std::string> input_names, returned;  ///< C++ names of the inputs; texts of the outputs
  bool uses_mode = false, uses_graph = false;
  std::set<std::string> names;  ///< that are used
  std::string first_input = "input";
  std::map<const value*, value*> local;  ///< copies of the values of the model that a block reads

  /// Returns the last statement's value without a name for it.
  void return_last_statement() {
    if (returned.size() != 1 || statements.empty() || statements.back().names != returned) return;
    if (statements.back().text.size() > 95) return;
    std::string& text = returned[0] = statements.back().text;
    statements.pop_back();
    if (text.starts_with("let(") && text.ends_with(")") && looseness(text) == 0) text = text.substr(4, text.size() - 5);
  }
};

/// A part of the model that is a structure of its own, because it is repeated.
struct block {
  std::string scope, name;
  std::vector<std::size_t> nodes;
  body content;
};

class call;

/// Which order of axes a rule's operands have.
enum class layout {
  plain,     ///< ONNX's order
  kept,      ///< the order of the operands, which all get the same one: elementwise operations
  channels,  ///< the first operand's channels are last
  first,     ///< the result has the order of the first operand; other operands are as they are
  own        ///< the rule asks for the order itself
};

/// Finds the types and extents of results, and what the row's text needs.
struct rule {
  void (*apply)(call&);
  layout order = layout::plain;
  bool wide = false;  ///< operands of half and bfloat16 become float, and the result becomes what they were
};

/// An operator: ONNX's name, the rule, the C++ text of the result, the header besides <weft/weft.hpp>, the element type
/// of the result if it is not that of the first operand, and the opsets to which the row applies.
///
/// In the text, `{0}` is an operand, `{1=0}` one that is 0 if the node does not have it, `{alpha=0.01}` an attribute
/// with its default or what the rule has stored under this name.
struct row {
  std::string_view op;
  rule how;
  std::string_view text = "";
  std::string_view header = "";
  int type = same_type;
  int since = 1, until = 1000;
};

struct options {
  std::string file, folder = ".", name;
  bool program = false, nchw = false;
  std::map<std::string, std::string> constants;      ///< inputs with fixed values, and their .npy files
  std::map<std::string, std::int64_t> extents = {};  ///< of names
};

/// Returns the elements of a tensor as T. The tensor's type must have this size.
template <class T>
T element_at(const weft::onnx::tensor_value& t, std::size_t i) {
  T x;
  std::memcpy(&x, t.bytes.data() + i * sizeof(T), sizeof(T));
  return x;
}
inline std::size_t count_of(const weft::onnx::tensor_value& t) { return tool::count_of(t.extents); }
/// Returns an element as a number. Large 64-bit integers lose digits.
inline double number_at(const weft::onnx::tensor_value& t, std::size_t i) {
  return with_type(element_type(t.type), [&]<class T>(T) {
    // A file's bytes of a boolean can be other than 0 and 1.
    using stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
    return tool::number(element_at<stored>(t, i));
  });
}

/// Appends an element to the bytes of a tensor.
template <class T>
void append_element(std::vector<std::byte>& bytes, const T& element) {
  const auto* const at = reinterpret_cast<const std::byte*>(&element);
  bytes.insert(bytes.end(), at, at + sizeof element);
}
/// Appends a number as an element of the type.
inline void append_number(std::vector<std::byte>& bytes, int type, double number) {
  with_type(element_type(type), [&]<class T>(T) { append_element(bytes, element_of<T>(number)); });
}

/// Returns true if all elements are known to be 0.
inline bool is_zero(const value& v) {
  if (v.zeros || !v.constant) return v.zeros;
  for (std::size_t i = 0; i < count_of(*v.constant); ++i)
    if (number_at(*v.constant, i) != 0) return false;
  return true;
}

/// Returns a number as C++ writes it: `0.5f`, `2.0`, `3`.
template <class T>
std::string digits(T x) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, x);
  return {text, end.ptr};
}
inline std::string literal(int type, double x) {
  if (type == boolean) return x != 0 ? "true" : "false";
  if (!is_float(type)) return digits(static_cast<std::int64_t>(x));
  const std::string of = type == float64 ? "double" : "float";
  if (std::isnan(x)) return "std::numeric_limits<" + of + ">::quiet_NaN()";
  if (std::isinf(x)) return (x < 0 ? "-std::numeric_limits<" : "std::numeric_limits<") + of + ">::infinity()";
  std::string text = type == float64 ? digits(x) : digits(static_cast<float>(x));
  if (text.find_first_of(".e") == text.npos) text += ".0";
  if (type != float64) text += "f";
  return is_half(type) ? cpp_type(type) + "(" + text + ")" : text;
}
/// Returns element i of a tensor as C++ writes it in a tensor's list of elements.
inline std::string element_text(const weft::onnx::tensor_value& t, std::size_t i) {
  if (t.type == int64) return digits(element_at<std::int64_t>(t, i));
  if (element_type(t.type) == dtype::uint64) return digits(element_at<std::uint64_t>(t, i)) + "u";
  return literal(t.type, number_at(t, i));
}

inline std::string cast_text(int type, const std::string& of) { return "cast<" + cpp_type(type) + ">(" + of + ")"; }

inline bool is_name(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), is_word); }
/// Returns the text with an underscore in place of each character that names of C++ cannot have.
inline std::string with_underscores(std::string text) {
  std::replace_if(text.begin(), text.end(), [](char c) { return !is_word(c); }, '_');
  return text;
}

/// Calls f(word) for each identifier of a text.
template <class F>
void for_each_word(std::string_view text, F f) {
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end > i && !(text[i] >= '0' && text[i] <= '9')) f(text.substr(i, end - i));
    i = end > i ? end : i + 1;
  }
}

/// The model that is written.
class importer : public body {
 public:
  explicit importer(const weft::onnx::model& model, const options& o);

  /// Imports all nodes. Throws unimplemented for the first one that cannot be imported.
  void run() { run(false); }

  value& find(const std::string& name) {
    const auto at = values_.find(name);
    if (at == values_.end())
      throw error(error_code::data_loss, "import", {"the graph has no value \"", name, "\", which a node reads"});
    return *at->second;
  }
  value& add_value(const std::string& name);
  /// Returns a value that nothing reads, for a first result without a name.
  value& unread_value() { return add_value("unread/" + std::to_string(unread_++)); }
  /// Returns an empty constant that the importer owns.
  weft::onnx::tensor_value& new_constant() { return *read_.emplace_back(std::make_unique<weft::onnx::tensor_value>()); }
  /// Returns the value with its channels in the last axis, or not.
  value& in_order(value& v, bool last);
  /// Returns the C++ text of a value that is read once more.
  std::string text_of(value& v);
  /// Gives a value its text. Statements are written for values that are read several times and for long texts.
  void define(value& v, std::string text, bool fuses = false, const std::string& suggested = "");
  /// Writes a statement for the value, so that its text is a name.
  void state(value& v, const std::string& text);
  void add_statement(statement s) { statements.push_back(std::move(s)); }

  /// Adds a layer and returns its name. Equal layers with the same weights are one.
  std::string add_member(member m, const std::string& suggested);
  member& find_member(const std::string& name);
  /// Returns a variable for a constant, as a name that can be called with any node.
  std::string variable_for(const value& v, const integers& extents, const std::vector<std::int64_t>& view,
                           const std::vector<int>& order);
  /// Returns an unused C++ name that resembles the text.
  std::string name_for(std::string text);
  /// Returns the extents of a value in the order of its text: `dims<dyn<"batch">, 8>`.
  std::string dims_of(const value& v) const { return dims_text(physical(v)); }
  static std::string dims_text(const integers& extents);
  static integers physical(const value& v) {
    return v.last ? permuted(v.extents, channel_order(v.rank(), true)) : v.extents;
  }
  /// For comments: `[batch, 8]`.
  static std::string shape_text(const integers& extents);

  void need(std::string_view header) {
    if (!header.empty()) headers.insert(std::string(header));
  }
  /// Imports the nodes of a subgraph, whose inputs are the arguments, and returns its outputs.
  std::vector<value*> import_graph(const weft::onnx::graph& g, const std::vector<value*>& arguments);
  /// Imports a subgraph as a lambda. Arguments that are not known are its parameters. `results` are its outputs; the
  /// lambda returns `first_result`, if there is one, and all from number `skipped` on, in a tuple if asked.
  std::string lambda(const weft::onnx::graph& g, const std::vector<value*>& arguments, std::vector<value*>& results,
                     bool tuple = false, const std::string& first_result = "", std::size_t skipped = 0);
  /// Returns true if the channels of the value should be last: convolutions read or compute it.
  bool wants_channels_last(const value& v) const { return last_.count(v.name) > 0; }
  /// Returns the value, or its copy in the block that is being imported.
  value& in_body(value& v);
  /// Returns the scope of a node, "layer1.0.conv1", relative to the block that is being imported.
  std::string relative(const std::string& text) const {
    return !scope.empty() && text.starts_with(scope + ".") ? text.substr(scope.size() + 1) : text;
  }
  std::int64_t opset_of(const std::string& domain) const;
  /// Returns a constant whose axes are stored in another order, or null for other values. Its elements are seen with
  /// the extents `view`.
  value* permuted_constant(value& v, const integers& view, const std::vector<int>& order);
  /// Returns a constant that broadcasts to `rank` axes with the channels last.
  value& broadcast_constant(value& v, std::size_t rank);

  std::map<std::string, std::string> called_;           ///< names of values for people
  std::map<std::string, std::set<std::string>> parts_;  ///< the scopes of constants in each scope

  const weft::onnx::model& model;
  const options chosen;
  std::set<std::string> headers;
  std::vector<block> blocks;

 private:
  class simplifier;
  void run(bool is_first);
  /// Replaces groups of nodes by single ones. `first` has imported the same nodes and contains their extents.
  void simplify(importer& first);
  void inline_functions(const std::vector<weft::onnx::node>& from, const std::map<std::string, std::string>& names,
                        const std::map<std::string, const weft::onnx::attribute*>& attributes, int depth);
  void find_channels_last();
  void add_constant(const std::string& name, const weft::onnx::tensor_value& t);
  void import_node(const weft::onnx::node& n);
  void import_call(call& c);
  value& declared(const std::string& name);
  void remove_unused();
  /// Keeps the statements whose names are read, and adds what they read.
  static void keep_read(std::vector<statement>& all, std::set<std::string, std::less<>>& read);
  void find_blocks();
  std::string extent_name(const std::string& in_file, bool is_new);
  std::vector<std::size_t> order_of_nodes();
  void import_block(block& b);

  std::map<std::string, std::unique_ptr<value>> values_;
  std::vector<std::unique_ptr<value>> reordered_;
  std::vector<weft::onnx::node> nodes_;
  std::vector<std::unique_ptr<weft::onnx::tensor_value>> read_;
  std::vector<std::unique_ptr<weft::onnx::node>> nodes_read_;  ///< of subgraphs
  int depth_ = 0, graphs_ = 0, unread_ = 0;
  std::set<std::string> last_;
  std::map<std::pair<const value*, std::vector<int>>, value*> permuted_;  ///< constants that several blocks read
  std::map<std::string, std::string> extent_names_;                       ///< in C++, by their names in the file
  std::size_t calls_ = 0;                                                 ///< of functions of the model
  std::vector<std::size_t> block_of_;  ///< the block of each node, counted from 1; 0: none
  std::string path_;                   ///< of the node that is imported
};

/// Returns the operator of a node with its domain, "com.microsoft.QGemm"; ONNX's own domain is empty.
inline std::string operator_of(const weft::onnx::node& n) {
  return n.domain.empty() ? n.op_type : n.domain + "." + n.op_type;
}

/// Returns an attribute with an integer, a number, integers or a text.
template <class T>
weft::onnx::attribute attribute_of(const std::string& name, T x) {
  weft::onnx::attribute a;
  a.name = name;
  if constexpr (std::is_same_v<T, std::int64_t>)
    a.type = weft::onnx::attribute::int_type, a.i = x;
  else if constexpr (std::is_same_v<T, float>)
    a.type = weft::onnx::attribute::float_type, a.f = x;
  else if constexpr (std::is_same_v<T, std::string>)
    a.type = weft::onnx::attribute::string_type, a.s = std::move(x);
  else
    a.type = weft::onnx::attribute::ints_type, a.ints = std::move(x);
  return a;
}

/// A node that is imported by a row.
class call {
 public:
  call(importer& i, const weft::onnx::node& n, const row& r, std::int64_t set);

  /// Throws unimplemented with the operator, the node's name and the opset.
  [[noreturn]] void refuse(const std::string& why) const;

  bool has(std::size_t i) const { return i < in.size() && in[i]; }
  /// Returns operand i. Refuses a node without it.
  value& operand(std::size_t i) {
    if (!has(i)) refuse("operand " + std::to_string(i) + " is missing");
    return *in[i];
  }
  std::size_t rank(std::size_t i = 0) { return operand(i).rank(); }
  /// Refuses operand i, if there is one, unless it has this number of axes.
  void need_rank(std::size_t i, std::size_t least, std::size_t most) {
    if (has(i) && (rank(i) < least || rank(i) > most))
      refuse("operand " + std::to_string(i) + " has " + std::to_string(rank(i)) + " axes, but must have " +
             std::to_string(least) + (most > least ? " to " + std::to_string(most) : ""));
  }
  void need_rank(std::size_t i, std::size_t exactly) { need_rank(i, exactly, exactly); }
  const integer& extent(std::size_t operand_number, std::size_t axis) {
    if (axis >= rank(operand_number)) refuse("operand " + std::to_string(operand_number) + " has too few axes");
    return in[operand_number]->extents[axis];
  }

  const weft::onnx::attribute* find(std::string_view name) {
    seen_.insert(std::string(name));
    return from.find(name);
  }
  bool has_attribute(std::string_view name) { return find(name) != nullptr; }
  /// Returns an attribute, or null. Refuses one of another type.
  const weft::onnx::attribute* find(std::string_view name, weft::onnx::attribute::kind type, const char* what) {
    const auto* a = find(name);
    if (a && a->type != type && a->type != weft::onnx::attribute::undefined)
      refuse("the attribute " + std::string(name) + " must be " + what);
    return a;
  }
  std::int64_t number(std::string_view name, std::int64_t otherwise) {
    const auto* a = find(name, weft::onnx::attribute::int_type, "an integer");
    return a ? a->i : otherwise;
  }
  bool flag(std::string_view name, bool otherwise = false) { return number(name, otherwise) != 0; }
  double real(std::string_view name, double otherwise) {
    const auto* a = find(name, weft::onnx::attribute::float_type, "a floating-point number");
    return a ? static_cast<double>(a->f) : otherwise;
  }
  /// Returns a number that an option of a call can be: not infinite, and not NaN.
  double finite(std::string_view name, double otherwise) {
    const double x = real(name, otherwise);
    if (!std::isfinite(x)) refuse("the attribute " + std::string(name) + " must be finite");
    return x;
  }
  std::string word(std::string_view name, const std::string& otherwise) {
    const auto* a = find(name, weft::onnx::attribute::string_type, "a string");
    return a ? a->s : otherwise;
  }
  /// Returns one of the words, of which the first is the default.
  std::string word_of(std::string_view name, std::initializer_list<std::string_view> words) {
    const std::string given = word(name, std::string(*words.begin()));
    for (const std::string_view each : words)
      if (each == given) return given;
    refuse("the attribute " + std::string(name) + " is \"" + given + "\", which is not supported");
  }
  std::vector<std::int64_t> list(std::string_view name, std::vector<std::int64_t> otherwise) {
    const auto* a = find(name, weft::onnx::attribute::ints_type, "a list of integers");
    return a ? a->ints : otherwise;
  }
  /// Returns an axis, counted from the first one.
  std::size_t axis(std::int64_t given, std::size_t of_rank) const {
    const auto n = static_cast<std::int64_t>(of_rank);
    if (given < -n || given >= n) refuse("axis " + std::to_string(given) + " is out of range");
    return static_cast<std::size_t>(given < 0 ? given + n : given);
  }
  /// Returns the integers of operand i, which must be known at import.
  const integers& known_integers(std::size_t i);
  /// Returns the numbers of operand i, which must be known at import.
  std::vector<double> known_numbers(std::size_t i);
  /// Returns numbers of operand i or of an attribute, in which older opsets have them.
  std::vector<std::int64_t> list_or_operand(std::string_view attribute, std::size_t i);

  /// Sets the type and the extents of result i.
  void result(std::size_t i, integers extents, bool last = false, int type = same_type);
  /// Returns where an axis of ONNX's order is in the text of operand i.
  std::size_t physical_axis(std::size_t i, std::size_t axis) {
    const value& v = operand(i);
    return !v.last || axis == 0 ? axis : axis == 1 ? v.rank() - 1 : axis - 1;
  }
  /// Changes the order of axes of operand i.
  void reorder(std::size_t i, bool last) { in[i] = &to.in_order(operand(i), last); }
  /// Result 0 is operand i itself, with the extents that result() was given.
  void pass(std::size_t i) { text = "{" + std::to_string(i) + "}"; }

  void unify_order();
  void name_operand(std::size_t i);

  /// Writes the statements in front of a text, `a = text; b, c = text; ...`, and returns the text after them. Their
  /// names are holes in what follows.
  std::string after_statements(std::string t);
  /// Gives names to the operands that a text reads twice.
  void name_repeated(std::string_view t);
  /// Fills a text of a row.
  std::string filled(std::string_view row_text);
  /// Adds a layer and makes `text` the call of it with operand 0: `conv1(x)`, or `norm1(x, m)`.
  std::string layer(std::string type, std::string layer_options, std::vector<weight> weights, bool with_mode = false);
  /// Returns a name for a layer from the names of its weights or of the node.
  std::string suggestion() const;
  std::string result_name() const;

  void check_attributes() const;
  /// Includes a header of <weft/...>.
  void need_header(const std::string& header) { to.need(header); }

  importer& to;
  const weft::onnx::node& from;
  const row& of;
  const std::int64_t opset;
  std::vector<value*> in, out;  ///< null if the node does not have it
  std::map<std::string, std::string, std::less<>> holes;
  std::string text;                ///< with holes; the row's text unless the rule replaces it
  bool fuses = false;              ///< the text is an expression that is computed where it is read
  bool numbers_allowed = false;    ///< an operand may be a C++ number
  bool last_order = false;         ///< of an elementwise operation: the channels of its operands are last
  bool tuple = false;              ///< the text has several results
  bool done = false;               ///< the rule has given the results their texts
  std::vector<std::string> texts;  ///< one for each result, in place of `text`

 private:
  std::string operand_text(std::size_t i, std::string_view before, std::string_view after, int around);

  std::set<std::string, std::less<>> seen_ = {"consumed_inputs"};
};

/// Returns the row of an operator; null if there is none.
const row* find_row(const std::string& op, std::int64_t opset);
/// Calls f(row) for all rows.
void for_each_row(const std::function<void(const row&)>& f);
/// Returns the keywords, and the functions and names that the written files use.
const std::set<std::string>& reserved_names();
/// Returns false for names of the standard library and of Weft, too.
bool can_be_namespace(const std::string& name);
/// Makes a value a constant.
void set_constant(value& v, const weft::onnx::tensor_value& t);
/// Returns the nodes as which an operator on quantized numbers is imported: a Conv between DequantizeLinear and
/// QuantizeLinear for QLinearConv. Returns an empty list for other operators.
std::vector<weft::onnx::node> with_real_numbers(const weft::onnx::node& n);
/// Reads an .npy file.
weft::onnx::tensor_value read_constant(const std::string& file);
/// Returns the number of the element of a tensor with the extents `view` that is element i after the axes are permuted.
std::vector<std::size_t> source_elements(const std::vector<std::int64_t>& view, const std::vector<int>& order);
/// Calls f(name) for each value that a node reads, also in its subgraphs.
void for_each_read(const weft::onnx::node& n, const std::function<void(const std::string&)>& f);
/// Returns the scope of a node, "layer1.0.conv1", from its name or from PyTorch's metadata.
std::string scope_of(const weft::onnx::node& n);
/// Evaluates a node whose operands are known integers.
std::optional<integers> evaluate(call& c);

}  // namespace tool::importer
