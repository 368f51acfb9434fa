// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include <weft/device/cpu/matmul_strips.hpp>
#include <weft/frozen/attention.hpp>
#include <weft/frozen/reduce.hpp>
#include <weft/ops/arrays/box_copies.hpp>
#include <weft/ops/fused_operations.hpp>
#include <weft/ops/images/convolution.hpp>
#include <weft/ops/images/pooling.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/ops/products/attention_op.hpp>
#include <weft/ops/products/matmul.hpp>
#include <weft/ops/reduce/argmax.hpp>
#include <weft/ops/reduce/normalization.hpp>
#include <weft/ops/reduce/softmax.hpp>
#include <weft/plan/arenas.hpp>
#include <weft/plan/bind.hpp>
#include <weft/plan/kernels.hpp>
#include <weft/session/freeze_names.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

WEFT_COLD_BEGIN
namespace weft {

/// The weights of a frozen model.
enum class frozen_weights : unsigned char {
  in_header,  ///< in the header
  in_file,    ///< in a file beside it, model.weights for model.hpp, which the program reads by the header's `load`
  int8,       ///< in the header; float weights of products and convolutions as 8-bit integers with a scale for each
              ///< output channel. Values are float, and results differ from the session's
};

/// Options of `freeze`.
struct freeze_options {
  /// The namespace of the header; by default, the name of its file.
  std::string name = {};
  /// The maximum of the named extent, if the feeds have one.
  std::int64_t most = 0;
  frozen_weights weights = frozen_weights::in_header;
};

namespace detail {

/// An integer that may depend on the named extent: its values for the maximum, the next four, and some smaller extents.
struct frozen_number {
  static constexpr std::size_t samples = 11;
  std::int64_t at[samples]{};

  frozen_number() = default;
  frozen_number(std::int64_t n) {
    for (std::int64_t& x : at) x = n;
  }
  template <class F>
    requires std::is_invocable_v<F, std::size_t>
  explicit frozen_number(const F& f) {
    for (std::size_t q = 0; q < samples; ++q) at[q] = static_cast<std::int64_t>(f(q));
  }
  bool is_fixed() const {
    for (const std::int64_t x : at)
      if (x != at[0]) return false;
    return true;
  }
  friend frozen_number operator*(const frozen_number& a, const frozen_number& b) {
    return frozen_number([&](std::size_t q) { return a.at[q] * b.at[q]; });
  }
  friend bool operator==(const frozen_number&, const frozen_number&) = default;
};

/// The values of a step that depend on no feed, other than variables and constants: they are computed once, when the
/// step is frozen.
struct frozen_folding {
  frozen_folding(const plan::environment& session, const graph& g, const plan::step_request& of) {
    const owned<plan::program> p = plan::make_program(g, of, false, {});
    sequence<char> depends(p->nodes.size(), 0);
    for (std::uint32_t n = p->running; n < p->nodes.size(); ++n) depends[n] = p->nodes[n].fed;
    for (std::uint32_t n = 0; n < p->running; ++n) {
      const node_def& c = p->def(n);
      const bool is_value = is_operation<variable_op>(c.op) || is_operation<constant_op>(c.op);
      depends[n] = p->nodes[n].fed || (c.op->stateful && !is_value) || !c.subgraphs.empty();
      for (const value& v : c.inputs) depends[n] = depends[n] || depends[p->index_of(v)];
    }
    const auto fold = [&](const value& v) {
      const std::uint32_t by = p->computed_by(v);
      if (depends[p->index_of(v)] || !p->computes(by)) return;
      extent_bindings known = session.extents;
      for (const std::int64_t e : g.info(v).extents.extents)
        if (e < 0 && !known.compute(g, e)) return;
      for (const value& f : request.fetches)
        if (f == v) return;
      request.fetches.push_back(v);
    };
    for (std::uint32_t n = 0; n < p->running; ++n)
      for (std::size_t k = 0; depends[n] && k < p->def(n).inputs.size(); ++k)
        if (plan::program::reads(p->def(n), k)) fold(p->def(n).inputs[k]);
    values.resize(request.fetches.size());
  }
  void* place(std::size_t i, const shape& extents) {
    values[i].resize(extents.elements() * sizeof(double));
    return values[i].data();
  }

  plan::step_request request;  ///< fetches the values
  sequence<sequence<std::byte>> values;
};

/// Writes the header of a frozen step.
class frozen_writer {
 public:
  /// The feeds from `feeds` on have the given values.
  frozen_writer(const plan::environment& session, const graph& g, plan::step_request request, std::size_t feeds,
                const sequence<sequence<std::byte>>& values, freeze_options o)
      : session_(session),
        g_(g),
        feeds_(feeds),
        values_(values),
        options_(static_cast<freeze_options&&>(o)),
        step_(session, g, static_cast<plan::step_request&&>(request)) {
    find_named_extent();
    binding_ = bound(known_[0]);
    check_extents();
    check_variables();
  }

  void write(const std::string& path) {
    const program& p = *step_.made;
    name_buffers();
    for (std::uint32_t i = 0; i < p.instructions.size(); ++i) instruction(i);
    for (std::size_t f = 0; f < p.request.fetches.size(); ++f) {
      const std::uint32_t b = p.fetch_buffers[f];
      if (results_[f] == names_[b]) continue;
      const value_info& v = g_.info(p.request.fetches[f]);
      line({"__builtin_memcpy(", results_[f], ", ", used(b), ", ",
            size(elements(v.extents) * frozen_number(static_cast<std::int64_t>(size_of(v.type)))), ");"});
    }
    add_parameters();
    save(path, header(path));
    if (options_.weights == frozen_weights::in_file) save(weights_path(path), weight_bytes_);
  }

 private:
  using program = plan::program;

  // ---- extents ----

  void find_named_extent() {
    std::int64_t code = 0;
    for (const value& v : step_.made->request.feeds)
      for (const std::int64_t e : g_.info(v).extents.extents) {
        extent_bindings known = session_.extents;
        if (e >= 0 || e == code || known.find(e) || g_.extent_formula(e)) continue;
        if (code != 0)
          throw error(error_code::unimplemented, "freeze",
                      {"the feeds have two named extents, ", g_.extent_name(code), " and ", g_.extent_name(e),
                       ": give all but one a value with g.set(dyn<\"", g_.extent_name(e), "\">, n)"});
        code = e;
      }
    if (code != 0 && options_.most < 1)
      throw error(error_code::invalid_argument, "freeze",
                  {"the feeds have the named extent ", g_.extent_name(code), ": pass its maximum, {.most = 64}"});
    if (code != 0) {
      extent_ = identifier(g_.extent_name(code));
      code_of_extent_ = code;
      while (least_ < options_.most && !binds(least_)) ++least_;
    }
    // Not the least one: extents of 1 have strides and boxes of their own, which say nothing about others.
    const std::int64_t most = options_.most, smaller[] = {3, 5, 7, most / 4, most / 2, most - 1}, low = least_ + 1;
    for (std::size_t q = 0; q < frozen_number::samples; ++q) {
      const std::int64_t n = q < 5 ? most + static_cast<std::int64_t>(q) : smaller[q - 5];
      sampled_.push_back(n > low || q < 5 ? n : low < most ? low : most);
      known_.push_back(with_extent(sampled_[q]));
    }
  }
  /// The session's extents and n for the named one.
  extent_bindings with_extent(std::int64_t n) const {
    extent_bindings known = session_.extents;
    if (code_of_extent_ != 0) known.bind(code_of_extent_, n);
    return known;
  }
  owned<plan::binding> bound(extent_bindings known) {
    sequence<plan::fed_value> fed;
    for (const value& v : step_.made->request.feeds)
      fed.push_back({nullptr, known.resolve(g_, "freeze", g_.info(v).extents)});
    return plan::bind(step_, fed.data(), known, nullptr);
  }
  /// Whether the session can run the step with n as the named extent.
  bool binds(std::int64_t n) {
    try {
      bound(with_extent(n));
      return true;
    } catch (const error&) {
      return false;
    }
  }
  /// Refuses extents that are no polynomials of the named one, such as floor(time / 10), which few samples may not
  /// show.
  void check_extents() {
    if (code_of_extent_ == 0) return;
    const program& p = *step_.made;
    sequence<std::int64_t> checked;
    for (std::uint32_t b = 0; b < p.buffers.size(); ++b) {
      if (p.buffers[b].kind == plan::buffer_kind::unused) continue;
      for (const std::int64_t e : p.buffers[b].declared.extents.extents) {
        bool is_new = e < 0 && g_.extent_formula(e);
        for (const std::int64_t c : checked) is_new = is_new && c != e;
        if (!is_new) continue;
        checked.push_back(e);
        polynomial sum;
        bool fits = fit(extent(e), sum);
        const std::int64_t most = options_.most, step = most > 4096 ? most / 4096 : 1;
        for (std::int64_t n = least_; fits && n <= most; n += n < 4096 ? 1 : step)
          fits = sum(n) == with_extent(n).resolve(g_, "freeze", shape(e))[0];
        if (!fits)
          throw error(
              error_code::unimplemented, p.name(owner(b)),
              {"the extent ", g_.extent_name(e), " has no frozen form, because it is no polynomial of ", extent_,
               ": give ", extent_, " a value with g.set(dyn<\"", g_.extent_name(code_of_extent_), "\">, n)"});
      }
    }
  }
  shape resolved(const shape& s, std::size_t q) { return known_[q].resolve(g_, "freeze", s); }
  frozen_number extent(std::int64_t code) {
    return frozen_number([&](std::size_t q) { return resolved(shape(code), q)[0]; });
  }
  frozen_number elements(const shape& s, std::size_t begin = 0, std::size_t end = max_rank) {
    frozen_number n = 1;
    for (std::size_t i = begin; i < s.rank && i < end; ++i) n = n * extent(s[i]);
    return n;
  }

  __extension__ typedef __int128 wide;  // products of extents do not overflow

  /// A polynomial of the named extent, of degree 3 at most.
  struct polynomial {
    std::int64_t factor[4]{};
    std::int64_t operator()(std::int64_t n) const {
      wide sum = 0;
      for (std::size_t i = 4; i-- > 0;) sum = sum * n + factor[i];
      return static_cast<std::int64_t>(sum);
    }
  };
  /// Returns false unless a polynomial has all values of a number.
  bool fit(const frozen_number& n, polynomial& sum) const {
    wide d[4];
    for (std::size_t i = 0; i < 4; ++i) d[i] = n.at[i];
    for (std::size_t i = 1; i < 4; ++i)
      for (std::size_t k = 3; k >= i; --k) d[k] -= d[k - 1];
    // Newton's form in the distance from the maximum, times 6, then in the extent itself.
    const wide m = options_.most, a1 = 6 * d[1] - 3 * d[2] + 2 * d[3], a2 = 3 * d[2] - 3 * d[3], a3 = d[3];
    const wide c[] = {6 * d[0] - m * a1 + m * m * a2 - m * m * m * a3, a1 - 2 * m * a2 + 3 * m * m * a3,
                      a2 - 3 * m * a3, a3};
    for (std::size_t i = 0; i < 4; ++i) {
      if (c[i] % 6 != 0) return false;
      sum.factor[i] = static_cast<std::int64_t>(c[i] / 6);
    }
    for (std::size_t q = 0; q < frozen_number::samples; ++q)
      if (sum(sampled_[q]) != n.at[q]) return false;
    return true;
  }
  /// Writes a number as a polynomial.
  std::string text(const frozen_number& n) const {
    if (n.is_fixed()) return std::to_string(n.at[0]);
    polynomial of;
    if (!fit(n, of)) refuse("its extents are not polynomials of the named extent");
    std::string sum;
    for (std::size_t i = 0; i < 4; ++i) {
      if (of.factor[i] == 0) continue;
      if (!sum.empty()) sum += " + ";
      if (of.factor[i] != 1 || i == 0) sum += std::to_string(of.factor[i]) + (i ? " * " : "");
      for (std::size_t k = 0; k < i; ++k) append(sum, {k ? " * " : "", extent_});
    }
    return sum;
  }
  std::string size(const frozen_number& n) const {
    return n.is_fixed() ? text(n) : "static_cast<std::size_t>(" + text(n) + ")";
  }
  /// Writes a pointer and an offset of `steps` strides.
  static std::string plus(const std::string& pointer, const std::string& offset) {
    return offset.empty() || offset == "0" ? pointer : str_cat({pointer, " + ", offset});
  }

  // ---- names ----

  static std::string identifier(const std::string& name) {
    std::string id;
    for (const char c : name) {
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'), digit = c >= '0' && c <= '9';
      if (letter || (digit && !id.empty()))
        id += c;
      else if (!id.empty() && id.back() != '_')
        id += '_';
    }
    while (!id.empty() && id.back() == '_') id.pop_back();
    if (id.empty()) id = "value";
    constexpr const char* own =
        "std weft predict workspace memory load scratch results weights frozen expressions all apply argument constant "
        "formula numbers expression";
    // Loops count by i0, i1 and so on; numbers_1 and expression_1 are also names of the header.
    const std::string stem = id.substr(0, id.find_last_not_of("0123456789") + 1);
    const bool is_made = stem.size() < id.size() && has_word("i numbers_ expression_", stem);
    return is_made || has_word(words_of_cpp, id) || has_word(own, id) ? id + '_' : id;
  }
  std::string unique(const std::string& name) {
    const std::string id = identifier(name);
    std::string made = id;
    for (int k = 2; contains(made); ++k) made = id + "_" + std::to_string(k);
    taken_.push_back(made);
    return made;
  }
  bool contains(const std::string& name) const {
    for (const std::string& t : taken_)
      if (t == name) return true;
    return name == extent_;
  }
  static const char* type_name(dtype t) {
    constexpr const char* names[] = {"bool",          "std::int8_t",  "std::int16_t",   "std::int32_t",
                                     "std::int64_t",  "std::uint8_t", "std::uint16_t",  "std::uint32_t",
                                     "std::uint64_t", "weft::half",   "weft::bfloat16", "float",
                                     "double"};
    return names[static_cast<std::size_t>(t)];
  }
  std::string dtype_name(dtype t) const {
    const std::string n = name(t);
    return "weft::dtype::" + std::string(n == "bool"     ? "boolean"
                                         : n == "half"   ? "float16"
                                         : n == "float"  ? "float32"
                                         : n == "double" ? "float64"
                                                         : n);
  }

  void name_buffers() {
    const program& p = *step_.made;
    names_.resize(p.buffers.size());
    state_.assign(p.buffers.size(), 0);
    for (std::size_t i = 0; i < feeds_; ++i) {
      const value v = p.request.feeds[i];
      names_[p.feed_buffers[i]] = unique(g_[v.node].name);
    }
    for (std::size_t i = 0; i < p.request.fetches.size(); ++i) {
      const value v = p.request.fetches[i];
      results_.push_back(unique(g_[v.node].name));
      const std::uint32_t b = p.fetch_buffers[i];
      if (p.buffers[b].kind == plan::buffer_kind::caller && names_[b].empty()) names_[b] = results_[i];
    }
  }
  void add_parameters() {
    const program& p = *step_.made;
    for (std::size_t i = 0; i < feeds_; ++i) {
      const std::uint32_t b = p.feed_buffers[i];
      parameter(g_.info(p.request.feeds[i]), state_[b] ? "const " : "[[maybe_unused]] const ", names_[b]);
    }
    for (std::size_t i = 0; i < results_.size(); ++i) parameter(g_.info(p.request.fetches[i]), "", results_[i]);
  }
  void parameter(const value_info& v, const char* constness, const std::string& name) {
    check_type(v.type);
    append(parameters_, {parameters_.empty() ? "" : ", ", constness, type_name(v.type), "* ", name});
    append(arguments_, {arguments_.empty() ? "" : ", ", name});
    append(described_, {"/// ", name, ": ", type_name(v.type), " ", g_.to_string(v.extents), "\n"});
  }
  static void check_type(dtype t) {
    if (t == dtype::float16 || t == dtype::bfloat16)
      throw error(error_code::unimplemented, "freeze",
                  {name(t), " values have no frozen form: cast the model's weights to float"});
  }

  // ---- buffers ----

  void check_variables() const {
    const program& p = *step_.made;
    for (const std::uint32_t n : p.variables) {
      const plan::variable_state& v = session_.variables[p.nodes[n].number];
      if (!v.initialized)
        throw error(error_code::failed_precondition, p.name(n),
                    "the variable is read but has no value: initialize it before freezing");
      if (v.where.gpu)
        throw error(error_code::unimplemented, p.name(n), "the variable is on a GPU: freeze a session on a CPU");
    }
  }
  /// The node that owns a buffer.
  std::uint32_t owner(std::uint32_t b) const {
    const program& p = *step_.made;
    for (std::uint32_t n = 0; n < p.nodes.size(); ++n)
      if (b >= p.nodes[n].first_buffer && b < p.nodes[n].first_buffer + p.def(n).outputs.size()) return n;
    refuse("a buffer has no node");
  }
  /// Returns the name of a root buffer, which it declares at its first use.
  std::string used(std::uint32_t b) {
    const program& p = *step_.made;
    const plan::step_buffer& buffer = p.buffers[b];
    if (state_[b]) return names_[b];
    state_[b] = 1;
    if (!names_[b].empty()) return names_[b];
    check_type(buffer.declared.type);
    const std::uint32_t n = owner(b);
    names_[b] = unique(p.name(n));
    if (const std::byte* const at = weight(b)) {
      const shape extents = resolved(buffer.declared.extents, 0);
      add_weights(names_[b], p.name(n), buffer.declared, at, extents.elements(), extents.elements());
      return names_[b];
    }
    if (buffer.kind != plan::buffer_kind::arena) refuse("a buffer has no frozen form");
    buffers_.push_back(b);
    return names_[b];
  }
  /// The values of a buffer that is known now; otherwise null.
  const std::byte* weight(std::uint32_t b) const {
    const program& p = *step_.made;
    for (std::size_t i = feeds_; i < p.feed_buffers.size(); ++i)
      if (p.feed_buffers[i] == b) return values_[i - feeds_].data();
    const plan::buffer_kind kind = p.buffers[b].kind;
    if (kind == plan::buffer_kind::variable) return session_.variables[p.nodes[owner(b)].number].data();
    if (kind == plan::buffer_kind::constant) return p.node_of(owner(b)).init.data.data();
    return nullptr;
  }

  /// Adds an array of rows of `columns` elements, each followed by zeros to a length of `stride`.
  void add_weights(const std::string& name, const std::string& what, const value_info& v, const std::byte* at,
                   std::size_t columns, std::size_t stride) {
    const std::size_t count = resolved(v.extents, 0).elements(), bytes = size_of(v.type);
    const std::size_t rows = columns ? count / columns : 0;
    std::string values;
    for (std::size_t i = 0; i < rows * stride; ++i) {
      const std::size_t r = i / stride, c = i % stride;
      static constexpr std::byte zero[8]{};
      const std::byte* const element = c < columns ? at + (r * columns + c) * bytes : zero;
      if (options_.weights == frozen_weights::in_file) {
        weight_bytes_.append(reinterpret_cast<const char*>(element), bytes);
        continue;
      }
      const std::size_t begin = values.rfind('\n') + 1;
      if (values.size() - begin > 100) values.back() = '\n', values += "    ";
      append(values, {number(v.type, element), i + 1 == rows * stride ? "" : ", "});
    }
    const std::string extents = g_.to_string(v.extents);
    if (options_.weights != frozen_weights::in_file) {
      append(weights_, {"/// ", what, " ", extents, stride == columns ? "" : ", rows padded to whole vectors",
                        "\nalignas(64) inline const ", type_name(v.type), " ", name, "[] = {\n    ",
                        rows * stride != 0 ? values : "0", "};\n"});
      weight_total_ += rows * stride * bytes;
      return;
    }
    weight_bytes_.append((64 - weight_bytes_.size() % 64) % 64, '\0');
    append(weights_, {"/// ", what, " ", extents, stride == columns ? "" : ", rows padded to whole vectors",
                      "\ninline const ", type_name(v.type), "* const ", name, " = reinterpret_cast<const ",
                      type_name(v.type), "*>(weights + ", weight_total_, ");\n"});
    weight_total_ = weight_bytes_.size();
  }
  static std::string number(dtype t, const std::byte* at) {
    const auto as = [&](auto x) {
      __builtin_memcpy(&x, at, sizeof x);
      return x;
    };
    const auto floating = [](double x, int digits, const char* suffix) -> std::string {
      if (x != x) return str_cat({"__builtin_nan", suffix, "(\"\")"});
      if (x > 0x1.fffffffffffffp1023 || x < -0x1.fffffffffffffp1023)
        return str_cat({x < 0 ? "-" : "", "__builtin_inf", suffix, "()"});
      std::string n = format_number("%.*g", digits, x);
      if (n.find_first_of(".e") == std::string::npos) n += '.';
      return n + suffix;
    };
    switch (t) {
      case dtype::float32:
        return floating(static_cast<double>(as(0.0f)), 9, "f");
      case dtype::float64:
        return floating(as(0.0), 17, "");
      case dtype::boolean:
        return as(std::uint8_t{}) ? "true" : "false";
      case dtype::int8:
        return std::to_string(as(std::int8_t{}));
      case dtype::int16:
        return std::to_string(as(std::int16_t{}));
      case dtype::int32: {
        const auto x = as(std::int32_t{});
        return x == INT32_MIN ? "-2147483647 - 1" : std::to_string(x);
      }
      case dtype::int64: {
        const auto x = as(std::int64_t{});
        return x == INT64_MIN ? "-9223372036854775807 - 1" : std::to_string(x);
      }
      case dtype::uint8:
        return std::to_string(as(std::uint8_t{}));
      case dtype::uint16:
        return std::to_string(as(std::uint16_t{}));
      case dtype::uint32:
        return std::to_string(as(std::uint32_t{})) + "u";
      default:
        return std::to_string(as(std::uint64_t{})) + "u";
    }
  }

  // ---- instructions ----

  /// A node as an instruction runs it, for each value of the named extent.
  struct call {
    const node_def& node;
    const char* name;
    std::size_t inputs;
    sequence<value_info> declared;  ///< of the inputs and then of the outputs
    sequence<value_info> infos[frozen_number::samples];
    sequence<prepare_context> at;
    const operand_part* parts;
    const std::uint32_t* result;  ///< the slots of the outputs
    const value_info& out() const { return declared[inputs]; }
  };
  call call_of(std::uint32_t n) {
    const program& p = *step_.made;
    const plan::operand_table& table = step_.operands;
    const std::size_t inputs = table.inputs(n), count = table.count(n);
    sequence<value_info> none;
    const prepare_context empty{p.def(n), nullptr, nullptr, table.slots(n), table.slots(n) + inputs};
    call c{p.def(n), p.op(n).name, inputs, {}, {}, {}, table.parts(n), table.slots(n) + inputs};
    for (std::size_t k = 0; k < count; ++k) c.declared.push_back(p.buffers[table.buffers(n)[k]].declared);
    for (std::size_t q = 0; q < frozen_number::samples; ++q) {
      for (std::size_t k = 0; k < count; ++k)
        c.infos[q].push_back({c.declared[k].type, resolved(c.declared[k].extents, q)});
      c.at.push_back(empty);
      c.at[q].inputs = c.infos[q].data();
      c.at[q].outputs = c.infos[q].data() + inputs;
    }
    return c;
  }
  std::string input(const call& c, std::size_t k) { return used(c.at[0].input_slots[k]); }
  std::string output(const call& c, std::size_t k = 0) { return used(c.result[k]); }

  [[noreturn]] void refuse(const char* why) const {
    const program& p = *step_.made;
    const bool running = current_ < p.instructions.size();
    throw error(error_code::unimplemented, running ? p.name(p.instructions[current_]) : "freeze",
                {running ? p.op(p.instructions[current_].node).name : "the step", " has no frozen form: ", why,
                 "; fetch its result, and compute it outside of the frozen model"});
  }

  void line(std::initializer_list<piece> pieces) {
    code_ += "  ";
    append(code_, pieces);
    code_ += '\n';
  }
  void reserve_scratch(std::size_t bytes) {
    if (bytes > scratch_) scratch_ = bytes;
  }
  void needs(unsigned header) { headers_ |= header; }
  enum : unsigned {
    map_header = 1,
    product_header = 2,
    image_header = 4,
    rows_header = 8,
    copy_header = 16,
    reduce_header = 32,
    attention_header = 64
  };

  void instruction(std::uint32_t i) {
    const program& p = *step_.made;
    const plan::instruction& in = p.instructions[i];
    current_ = i;
    if (in.kind != plan::instruction_kind::compute || p.op(in.node).writes || !in.beside.empty())
      refuse("a frozen model writes no variables");
    if (in.on.gpu) refuse("it runs on a GPU");
    append(code_, {"\n  // ", i + 1, ": ", p.name(in), ": ", comment(in), "\n"});
    if (in.leader != plan::none) operation(in.leader, in.node);
    operation(in.node, plan::none);
  }
  std::string comment(const plan::instruction& in) {
    const program& p = *step_.made;
    std::string text;
    for (const std::uint32_t n : {in.leader, in.node}) {
      if (n == plan::none) continue;
      const node_def& c = p.def(n);
      append(text, {text.empty() ? "" : ", then ", c.op->name});
      if (c.op->expression) append(text, {" ", skeleton::print(c.op->expression(c.detail)->text)});
    }
    return text + " " + g_.to_string(p.def(in.node).outputs[0].extents);
  }

  /// `follower`: the node that overwrites the result of this one, or none.
  void operation(std::uint32_t n, std::uint32_t follower) {
    call c = call_of(n);
    if (follower != plan::none) c.result = step_.operands.slots(follower) + step_.operands.inputs(follower);
    const weft::operation& op = *c.node.op;
    const auto is = [&](const char* name) { return __builtin_strcmp(op.name, name) == 0; };
    const dtype type = c.out().type;
    check_type(type);
    if (op.fusion == fusion_kind::expression && op.expression) return map(c);
    if (is_operation<reduction_op>(&op)) return reduce(c);
    if (op.copies) return copies(c);
    if (is("fill")) return fill(c);
    if (is("range")) return range(c);
    if (is("gather")) return gather(c);
    if (is("argmax")) return argmax(c);
    if (type != dtype::float32 && type != dtype::float64) refuse("its elements are neither float nor double");
    if (is_operation<matmul_op<float>>(&op)) return matmul(c, follower != plan::none);
    if (is("conv2d")) return convolution(c);
    if (is("max_pool2d")) return pool(c, pool_kind::max);
    if (is("avg_pool2d")) return pool(c, pool_kind::average);
    if (is("softmax") || is("log_softmax")) return softmax(c, is("log_softmax"));
    if (is("layer_normalization") || is("rms_normalization")) return normalization(c, is("layer_normalization"));
    if (is("attention")) return attention(c);
    refuse(c.node.subgraphs.empty() ? "this operation is not among those of weft/frozen.hpp" : "it has a subgraph");
  }

  // ---- elementwise expressions ----

  /// Writes the type of an expression.
  const skeleton::token* expression(const skeleton::token* t, std::string& to) const {
    if (!t->operation) {
      if (t->number >= 0)
        append(to, {"argument<", t->number, ", ", type_name(t->type), ">"});
      else
        append(to, {"constant<", ~t->number, ", ", type_name(t->type), ">"});
      return t + 1;
    }
    if (t->formula == skeleton::formula_id{}) refuse("it applies a formula outside of ops/elementwise/formulas.hpp");
    const bool is_quotient = t->formula == skeleton::formula_id::divide && !is_floating(t->type);
    append(to, {is_quotient ? "apply<weft::frozen::" : "apply<formula::", is_quotient ? "quotient" : t->operation});
    if (t->formula == skeleton::formula_id::cast) append(to, {"<", type_name(t->type), ">"});
    append(to, {", ", type_name(t->type)});
    const int operands = t++->number;
    for (int i = 0; i < operands; ++i) {
      to += ", ";
      t = expression(t, to);
    }
    to += '>';
    return t;
  }
  /// Returns the name of an expression's type, which it declares.
  std::string expression_of(const fused& f) {
    std::string type;
    expression(f.text, type);
    for (std::size_t k = 0; k < expressions_.size(); ++k)
      if (expressions_[k] == type) return "expression_" + std::to_string(k + 1);
    expressions_.push_back(type);
    return "expression_" + std::to_string(expressions_.size());
  }
  /// Declares the numbers in an expression; returns ", numbers_3", or nothing if there are none.
  std::string literals_of(const fused& f, const call& c) {
    if (c.node.literals.empty()) return "";
    std::string values, shown;
    for (std::size_t k = 0; k < c.node.literals.size(); ++k) {
      char bits[32];
      std::snprintf(bits, sizeof bits, "0x%llx", static_cast<unsigned long long>(c.node.literals[k]));
      append(values, {k ? ", " : "", bits});
      append(shown, {k ? ", " : "",
                     number(f.signature.constant_types[k], reinterpret_cast<const std::byte*>(&c.node.literals[k]))});
    }
    const std::string name = "numbers_" + std::to_string(current_ + 1);
    line({"static constexpr std::uint64_t ", name, "[] = {", values, "};  // ", shown});
    return ", " + name;
  }

  /// The strides of an operand in a space, and the element at which it begins.
  struct walk {
    frozen_number stride[max_rank];
    frozen_number begin = 0;
  };
  walk walk_of(const call& c, std::size_t k, std::size_t rank) {
    const shape& s = c.declared[k].extents;
    walk w;
    frozen_number step = 1;
    for (std::size_t i = s.rank; i-- > 0;) {
      w.stride[rank - s.rank + i] = s[i] == 1 ? frozen_number(0) : step;
      step = step * extent(s[i]);
    }
    if (!c.parts || c.parts[k].count == 1) return w;
    const operand_part& part = c.parts[k];
    w.begin = frozen_number(part.number) * elements(s, part.axis);
    for (std::size_t axis = 0; axis < part.axis; ++axis)
      w.stride[rank - s.rank + axis] = w.stride[rank - s.rank + axis] * frozen_number(part.count);
    return w;
  }

  void map(const call& c) {
    needs(map_header);
    const fused& f = *c.node.op->expression(c.node.detail);
    const std::string type = expression_of(f), literals = literals_of(f, c);
    const std::size_t operands = c.inputs + 1;
    const shape& space = c.out().extents;
    sequence<walk> walks;
    for (std::size_t k = 0; k < operands; ++k) walks.push_back(walk_of(c, k, space.rank));
    // Merges axes as device::merge_axes does.
    sequence<frozen_number> extents;
    for (std::size_t axis = 0; axis < space.rank; ++axis) {
      const frozen_number n = extent(space[axis]);
      if (n == frozen_number(1)) continue;
      const std::size_t last = extents.size();
      bool joins = last > 0;
      for (std::size_t k = 0; joins && k < operands; ++k)
        joins = walks[k].stride[last - 1] == walks[k].stride[axis] * n;
      if (joins)
        extents[last - 1] = extents[last - 1] * n;
      else
        extents.push_back(n);
      for (std::size_t k = 0; k < operands; ++k) walks[k].stride[extents.size() - 1] = walks[k].stride[axis];
    }
    const std::size_t rank = extents.size();
    bool contiguous = rank < 2;
    for (std::size_t k = 0; k < operands; ++k)
      contiguous = contiguous && (rank == 0 || walks[k].stride[0] == frozen_number(1));
    sequence<std::string> at;
    for (std::size_t k = 0; k < operands; ++k)
      at.push_back(plus(k < c.inputs ? input(c, k) : output(c), text(walks[k].begin)));
    std::string indent;
    for (std::size_t axis = 0; axis + 2 < rank; ++axis) {
      line({indent, "for (std::int64_t i", axis, " = 0; i", axis, " < ", text(extents[axis]), "; ++i", axis, ")"});
      indent += "  ";
      for (std::size_t k = 0; k < operands; ++k)
        if (!(walks[k].stride[axis] == frozen_number(0)))
          append(at[k], {" + i", axis, " * (", text(walks[k].stride[axis]), ")"});
    }
    std::string list;
    if (contiguous || c.inputs == 0) {
      for (std::size_t k = 0; k < c.inputs; ++k) append(list, {k ? ", " : "", at[k]});
      if (c.inputs == 0) list = "nullptr";
      return line({indent, "frozen::map<", type, ">({", list, "}, ", at[c.inputs], ", ", text(elements(space)),
                   literals, ");"});
    }
    const auto stride = [&](std::size_t k, std::size_t from_last) {
      return rank < from_last ? frozen_number(0) : walks[k].stride[rank - from_last];
    };
    for (std::size_t k = 0; k < c.inputs; ++k)
      append(list, {k ? ", " : "", "{", at[k], ", ", size_of(c.declared[k].type), ", ", text(stride(k, 2)), ", ",
                    text(stride(k, 1)), "}"});
    line({indent, "frozen::map_rows<", type, ">({", list, "}, ", at[c.inputs], ", ", size_of(c.out().type), ", ",
          text(stride(c.inputs, 2)), ", ", rank < 2 ? "1" : text(extents[rank - 2]), ", ", text(extents[rank - 1]),
          literals, ");"});
  }

  std::string operand_text(dtype t, const walk& w, std::size_t rank) const {
    std::string strides;
    for (std::size_t i = 0; i < rank; ++i) append(strides, {i ? ", " : "", text(w.stride[i])});
    return str_cat({"{", dtype_name(t), ", {", strides, "}}"});
  }
  std::string shape_text(const shape& s) {
    std::string extents;
    for (std::size_t i = 0; i < s.rank; ++i) append(extents, {i ? ", " : "", text(extent(s[i]))});
    return s.rank == 0 ? "weft::shape()" : str_cat({"weft::shape(", extents, ")"});
  }

  void reduce(const call& c) {
    needs(reduce_header);
    const auto& r = *static_cast<const fused_reduction*>(c.node.detail);
    const auto a = attributes_of<reduction_op>(c.node);
    if (c.inputs > 3) refuse("its expression has more than three operands: compute the expression with let()");
    check_type(r.body->type);
    const std::string type = expression_of(*r.body), literals = literals_of(*r.body, c);
    const shape space = broadcast_space(c.declared.data(), c.inputs);
    const char* const hows[] = {"store", "sum", "product", "maximum", "minimum"};
    const device::reduce_op how = a.how;
    bool kept[max_rank];
    kept_axes(a.reduced, space.rank, kept);
    std::string walks, list;
    for (std::size_t k = 0; k < c.inputs; ++k) {
      append(walks, {k ? ", " : "", operand_text(c.declared[k].type, walk_of(c, k, space.rank), space.rank)});
      append(list, {k ? ", " : "", plus(input(c, k), text(walk_of(c, k, space.rank).begin))});
    }
    walk result;
    frozen_number step = 1, results = elements(c.out().extents);
    for (std::size_t i = space.rank; i-- > 0;) {
      result.stride[i] = !kept[i] || space[i] == 1 ? frozen_number(0) : step;
      if (kept[i]) step = step * extent(space[i]);
    }
    std::string divisor = "1";
    if (a.mean)
      divisor =
          str_cat({"static_cast<double>(", text(elements(space)), ") / static_cast<double>(", text(results), ")"});
    // The memory may not grow with the extent, so it is computed for all of its values.
    const std::int64_t most = extent_.empty() ? 1 : options_.most;
    for (std::int64_t n = least_; n <= most; n += most > 4096 && n + most / 4096 <= most ? most / 4096 : 1) {
      extent_bindings known = with_extent(n);
      device::operand in[3];
      const shape all = known.resolve(g_, "freeze", space);
      for (std::size_t k = 0; k < c.inputs; ++k)
        in[k] = device::broadcast_operand(c.declared[k].type, known.resolve(g_, "freeze", c.declared[k].extents), all);
      const device::operand out = device::reduced_operand(c.out().type, all, kept);
      const device::loop body(all, c.inputs, in, 1, &out, &how, &r.arithmetic, evaluation(*r.body), version(r.reduce),
                              r.body->signature.memory_bound);
      reserve_scratch(frozen::scratch_bytes(body, known.resolve(g_, "freeze", c.out().extents).elements()));
    }
    line({"frozen::reduce<",
          type,
          ", weft::device::reduce_op::",
          hows[static_cast<int>(how)],
          ">(",
          shape_text(space),
          ", {",
          walks,
          "}, ",
          operand_text(c.out().type, result, space.rank),
          ", {",
          list,
          "}, ",
          output(c),
          ", ",
          text(results),
          ", ",
          divisor,
          ", scratch",
          literals,
          ");"});
  }

  // ---- other kernels ----

  void matmul(const call& c, bool followed) {
    needs(product_header);
    const auto t = attributes_of<matmul_op<float>>(c.node);
    sequence<matmul_batch> of;
    for (const prepare_context& p : c.at) of.push_back(product_of(p, t));
    const auto one = [&](auto member) { return size(frozen_number([&](std::size_t q) { return member(of[q]); })); };
    const matmul_shape& s = of[0].each;
    const bool ta = t.transpose_a, tb = t.transpose_b;
    bool fixed = true;
    for (const matmul_batch& b : of)
      fixed = fixed && b.each.m == s.m && b.each.n == s.n && b.each.k == s.k && b.count == of[0].count;
    const bool is_double = c.out().type == dtype::float64;
    const std::size_t element = is_double ? 8 : 4;
    const bool rows = fixed && !tb && (s.m <= 2 || (s.k == 1 && s.n >= 32)), dots = fixed && tb && !ta && s.m == 1;
    const bool in_place = fixed && !tb && matmul_strips(s) == 1 && s.n * element >= 128 &&
                          (s.m < 48 || s.n * s.k * element <= (std::size_t{1} << 18));
    const bool packs = !rows && !dots && !in_place;
    if (packs)
      reserve_scratch((is_double ? matmul_packed_elements<double>(s.n, s.k) : matmul_packed_elements<float>(s.n, s.k)) *
                      element);
    if (options_.weights == frozen_weights::int8 && !is_double && !ta && of[0].count == 1)
      if (const std::byte* const w = weight(c.at[0].input_slots[1])) return quantized_matmul(c, of, w);
    std::string shape = str_cat({"{", one([](auto& b) { return b.each.m; }), ", ",
                                 one([](auto& b) { return b.each.n; }), ", ", one([](auto& b) { return b.each.k; })});
    if (ta || tb) append(shape, {ta ? ", true" : ", false", tb ? ", true" : ", false"});
    shape += "}";
    const std::string memory =
        packs ? str_cat({"reinterpret_cast<", type_name(c.out().type), "*>(scratch)"}) : "nullptr";
    const std::string arrays = str_cat({input(c, 0), ", ", input(c, 1), ", ", output(c)}),
                      operands = arrays + ", " + memory;
    if (rows && !ta && of[0].count == 1)
      return line({"frozen::row_product<", type_name(c.out().type), ", ", s.n, ">(", shape, ", ", arrays, ");"});
    const bool single = fixed && of[0].count == 1 && (!followed || matmul_panels<float>(s, 1, of[0].outer) == 1);
    if (single) return line({"frozen::product<", type_name(c.out().type), ">(", shape, ", ", operands, ");"});
    line({"frozen::products<", type_name(c.out().type), ">({", shape, ", ", one([](auto& b) { return b.count; }), ", ",
          one([](auto& b) { return b.outer; }), "}, ", followed ? "true, " : "false, ", operands, ");"});
  }

  /// Writes the product with a quantized matrix: by its integers if it has few rows, otherwise by the floats that they
  /// stand for.
  void quantized_matmul(const call& c, const sequence<matmul_batch>& of, const std::byte* w) {
    const matmul_shape& s = of[0].each;
    const std::string b = quantize(c.at[0].input_slots[1], w, s.k, s.n, s.transpose_b);
    const std::string m = size(frozen_number([&](std::size_t q) { return of[q].each.m; }));
    if (s.m <= 4)
      return line(
          {"frozen::quantized_product({", m, ", ", s.n, ", ", s.k, "}, ", input(c, 0), ", ", b, ", ", output(c), ");"});
    const std::size_t bytes = (s.k * s.n * sizeof(float) + 63) / 64 * 64;
    reserve_scratch(bytes + matmul_packed_elements<float>(s.n, s.k) * sizeof(float));
    line({"frozen::dequantize(", b, ", reinterpret_cast<float*>(scratch), ", s.k, ", ", s.n, ", ", s.n, ");"});
    line({"frozen::product<float>({", m, ", ", s.n, ", ", s.k, "}, ", input(c, 0),
          ", reinterpret_cast<const float*>(scratch), ", output(c), ", reinterpret_cast<float*>(scratch + ", bytes,
          "));"});
  }
  /// Adds a matrix as integers and scales; returns the expression for both.
  std::string quantize(std::uint32_t buffer, const std::byte* at, std::size_t rows, std::size_t columns,
                       bool transposed) {
    std::string name = padded_filters(buffer);
    if (name.empty()) {
      const std::string of = step_.made->name(owner(buffer));
      name = unique(of);
      padded_.push_back({buffer, name});
      const auto element = [&](std::size_t p, std::size_t j) {
        float x;
        __builtin_memcpy(&x, at + 4 * (transposed ? j * rows + p : p * columns + j), sizeof x);
        return x;
      };
      sequence<float> scales;
      sequence<std::int8_t> integers(rows * columns);
      for (std::size_t j = 0; j < columns; ++j) {
        float most = 0;
        for (std::size_t p = 0; p < rows; ++p)
          if (const float x = math::abs(element(p, j)); x > most) most = x;
        scales.push_back(most > 0 ? most / 127 : 1);
        for (std::size_t p = 0; p < rows; ++p)
          integers[p * columns + j] = static_cast<std::int8_t>(__builtin_rintf(element(p, j) / scales[j]));
      }
      const auto add = [&](const std::string& id, dtype type, const weft::shape& s, const void* data) {
        add_weights(id, of, {type, s}, static_cast<const std::byte*>(data), s.elements(), s.elements());
      };
      add(name, dtype::int8, weft::shape(rows, columns), integers.data());
      add(unique(name + "_scales"), dtype::float32, weft::shape(columns), scales.data());
    }
    return str_cat({"frozen::quantized{", name, ", ", name, "_scales}"});
  }

  std::string shape_text(const sequence<convolution_shape>& of) const {
    std::string all;
    const auto add = [&](auto member) {
      append(all, {all.empty() ? "{" : ", ", text(frozen_number([&](std::size_t q) { return of[q].*member; }))});
    };
    using s = convolution_shape;
    for (const auto member :
         {&s::batch, &s::height, &s::width, &s::channels, &s::window_height, &s::window_width, &s::filters,
          &s::out_height, &s::out_width, &s::stride_height, &s::stride_width, &s::dilation_height, &s::dilation_width,
          &s::pad_top, &s::pad_bottom, &s::pad_left, &s::pad_right})
      add(member);
    if (of[0].counts_padding) all += ", true";
    return all + "}";
  }
  void convolution(const call& c) {
    needs(image_header);
    const auto a = attributes_of<convolution_op<float>>(c.node);
    sequence<convolution_shape> of;
    for (const prepare_context& p : c.at) of.push_back(shape_of_call<convolution_kind::forward>(p, a));
    const convolution_shape& s = of[0];
    const std::size_t element = size_of(c.out().type), columns = static_cast<std::size_t>(s.filters);
    const std::size_t whole = 128 / element, stride = (columns + whole - 1) / whole * whole;
    const std::size_t rows = s.filter_elements() / (columns ? columns : 1);
    const char* const type = type_name(c.out().type);
    const weft::detail::padded_image image{
        s.height,
        s.width,
        s.channels,
        s.pad_top,
        s.pad_left,
        1,
        1,
        (s.out_height - 1) * s.stride_height + (s.window_height - 1) * s.dilation_height + 1,
        (s.out_width - 1) * s.stride_width + (s.window_width - 1) * s.dilation_width + 1};
    const std::size_t image_bytes = (image.elements() * element + 63) / 64 * 64;
    std::string filters;
    const std::byte* const known = weight(c.at[0].input_slots[1]);
    if (known && options_.weights == frozen_weights::int8 && element == 4) {
      needs(product_header);
      filters = str_cat({"reinterpret_cast<float*>(scratch + ", image_bytes, ")"});
      line({"frozen::dequantize(", quantize(c.at[0].input_slots[1], known, rows, columns, false), ", ", filters, ", ",
            rows, ", ", columns, ", ", stride, ");"});
      reserve_scratch(image_bytes + rows * stride * element);
    } else if (stride == columns) {
      filters = input(c, 1);
      reserve_scratch(image_bytes);
    } else if (const std::uint32_t b = c.at[0].input_slots[1]; known) {
      filters = padded_filters(b);
      if (filters.empty()) {
        const std::uint32_t n = owner(b);
        filters = unique(step_.made->name(n));
        padded_.push_back({b, filters});
        add_weights(filters, step_.made->name(n), c.declared[1], known, columns, stride);
      }
      reserve_scratch(image_bytes);
    } else {  // computed filters
      needs(copy_header);
      filters = str_cat({"reinterpret_cast<", type, "*>(scratch + ", image_bytes, ")"});
      line({"frozen::copy(weft::shape(", rows, ", ", columns, "), ", input(c, 1), ", {", dtype_name(c.out().type),
            ", {", columns, ", 1}}, ", filters, ", {", dtype_name(c.out().type), ", {", stride, ", 1}}, ", element,
            ");"});
      reserve_scratch(image_bytes + rows * stride * element);
    }
    line({"frozen::convolve<", type, ", ", columns, ">(", shape_text(of), ", ", input(c, 0), ", ", filters, ", ",
          stride, ", ", output(c), ", reinterpret_cast<", type, "*>(scratch));"});
  }
  std::string padded_filters(std::uint32_t b) const {
    for (const auto& [buffer, name] : padded_)
      if (buffer == b) return name;
    return "";
  }
  void pool(const call& c, pool_kind kind) {
    needs(image_header);
    const auto a = attributes_of<max_pool_op<float>>(c.node);
    sequence<convolution_shape> of;
    for (const prepare_context& p : c.at) of.push_back(pooling_of(p, a, kind));
    line({"frozen::pool<", type_name(c.out().type), ", weft::pool_kind::", kind == pool_kind::max ? "max" : "average",
          ">(", shape_text(of), ", ", input(c, 0), ", ", output(c), ");"});
  }
  void softmax(const call& c, bool log) {
    needs(rows_header);
    const shape& s = c.out().extents;
    const frozen_number columns = extent(s[s.rank - 1]);
    std::string scratch;
    if (log) {
      scratch = str_cat({", reinterpret_cast<", type_name(c.out().type), "*>(scratch)"});
      reserve_scratch(static_cast<std::size_t>(columns.at[0]) * size_of(c.out().type));
    }
    line({"frozen::", c.node.op->name, "(", input(c, 0), ", ", output(c), ", ", text(elements(s, 0, s.rank - 1)), ", ",
          text(columns), scratch, ");"});
  }
  void normalization(const call& c, bool centred) {
    needs(rows_header);
    const shape &x = c.declared[0].extents, &scale = c.declared[1].extents;
    const double epsilon = attributes_of<layer_normalization_op<float, true>>(c.node).epsilon;
    line({"frozen::normalize<",
          type_name(c.out().type),
          ", ",
          centred ? "true" : "false",
          ">(",
          input(c, 0),
          ", ",
          input(c, 1),
          ", ",
          centred ? input(c, 2) : "nullptr",
          ", ",
          output(c),
          ", ",
          output(c, 1),
          ", ",
          centred ? output(c, 2) : "nullptr",
          ", ",
          text(elements(x, 0, x.rank - scale.rank)),
          ", ",
          text(elements(scale)),
          ", ",
          format_number("%.*g", 17, epsilon),
          ");"});
  }
  void attention(const call& c) {
    needs(attention_header);
    const auto a = attributes_of<attention_op<float>>(c.node);
    const attention_operands o = a.operands();
    using problem = device::attention_problem;
    sequence<problem> of;
    for (const prepare_context& p : c.at) of.push_back(attention_problem_of(p, a));
    std::string all;
    const auto add = [&](auto f) {
      append(all, {all.empty() ? "" : ", ", text(frozen_number([&](std::size_t q) { return f(of[q]); }))});
    };
    using m = std::int64_t problem::*;
    for (const m member : {&problem::batch, &problem::heads, &problem::kv_heads, &problem::queries, &problem::keys,
                           &problem::width, &problem::value_width})
      add([=](const problem& s) { return s.*member; });
    std::string steps;
    all.swap(steps);
    for (std::size_t i = 0; i < 4; ++i) add([=](const problem& s) { return s.mask_steps[i]; });
    all = str_cat({"{", steps, ", {", all, "}, ", of[0].window, ", ", format_number("%.*g", 17, of[0].scale), ", ",
                   of[0].causal ? "true, " : "false, ", of[0].alibi ? "true, " : "false, ",
                   of[0].positions_differ ? "true}" : "false}"});
    const bool is_double = c.out().type == dtype::float64,
               is_mask = o.mask >= 0 && c.declared[static_cast<std::size_t>(o.mask)].type == dtype::boolean;
    reserve_scratch(is_double ? 8 * frozen::attention_elements<double>(of[0])
                              : 4 * frozen::attention_elements<float>(of[0]));
    const auto given = [&](int k, bool yes) {
      return k < 0 || !yes ? std::string("nullptr") : input(c, static_cast<std::size_t>(k));
    };
    const bool has_logs = step_.made->buffers[c.result[1]].kind != plan::buffer_kind::unused;
    line({"frozen::attention<",
          type_name(c.out().type),
          ">(",
          all,
          ", ",
          input(c, 0),
          ", ",
          input(c, 1),
          ", ",
          input(c, 2),
          ", ",
          given(o.mask, !is_mask),
          ", ",
          given(o.mask, is_mask),
          ", ",
          given(o.lengths, true),
          ", ",
          given(o.positions, true),
          ", ",
          output(c),
          ", ",
          has_logs ? output(c, 1) : "nullptr",
          ", reinterpret_cast<",
          type_name(c.out().type),
          "*>(scratch));"});
  }
  void argmax(const call& c) {
    needs(rows_header);
    const shape& x = c.declared[0].extents;
    const std::size_t axis = attributes_of<argmax_op<float>>(c.node).axis;
    line({"frozen::argmax(", input(c, 0), ", ", output(c), ", ", text(elements(x, 0, axis)), ", ",
          text(extent(x[axis])), ", ", text(elements(x, axis + 1)), ");"});
  }
  void gather(const call& c) {
    needs(rows_header);
    const shape& x = c.declared[0].extents;
    const std::size_t axis = attributes_of<gather_op<float>>(c.node).axis;
    const frozen_number bytes = static_cast<std::int64_t>(size_of(c.out().type));
    line({"frozen::gather(reinterpret_cast<const std::byte*>(", input(c, 0), "), ", input(c, 1),
          ", reinterpret_cast<std::byte*>(", output(c), "), ", text(elements(x, 0, axis)), ", ", text(extent(x[axis])),
          ", ", text(elements(x, axis + 1) * bytes), ", ", text(elements(c.declared[1].extents)), ");"});
  }
  void fill(const call& c) {
    needs(map_header);
    const std::uint64_t bits = element_bits(literal_value<double>(c.node.literals[0]), c.out().type);
    line({"frozen::fill(", output(c), ", ", bits, "u, ", size_of(c.out().type), ", ", text(elements(c.out().extents)),
          ");"});
  }
  void range(const call& c) {
    needs(map_header);
    const dtype t = c.out().type;
    const auto literal = [&](std::size_t k) {
      return number(t, reinterpret_cast<const std::byte*>(&c.node.literals[k]));
    };
    line({"frozen::range<", type_name(t), ">(", literal(0), ", ", literal(1), ", ", output(c), ", ",
          text(elements(c.out().extents)), ");"});
  }
  void copies(const call& c) {
    needs(copy_header);
    sequence<strided_copies> of;
    for (const prepare_context& p : c.at) of.push_back(c.node.op->copies(p));
    const std::size_t bytes = size_of(of[0].type);
    for (std::size_t o = 0; of[0].fills && o < c.node.outputs.size(); ++o) {
      needs(map_header);
      line({"frozen::fill(", output(c, o), ", ", of[0].fill, "u, ", bytes, ", ",
            text(elements(c.declared[c.inputs + o].extents)), ");"});
    }
    for (std::size_t k = 0; k < of[0].regions.size(); ++k) {
      const auto sampled = [&](auto f) {
        return text(frozen_number([&](std::size_t q) {
          if (of[q].regions.size() != of[0].regions.size()) refuse("its boxes depend on the named extent");
          return f(of[q].regions[k]);
        }));
      };
      const strided_region& r = of[0].regions[k];
      std::string extents, from, to;
      for (std::size_t i = 0; i < r.extents.rank; ++i) {
        append(extents, {i ? ", " : "", sampled([i](auto& x) { return x.extents[i]; })});
        append(from, {i ? ", " : "", sampled([i](auto& x) { return x.from_stride()[i]; })});
        append(to, {i ? ", " : "", sampled([i](auto& x) { return x.to_stride()[i]; })});
      }
      line({"frozen::copy(weft::shape(", extents, "), ",
            plus(input(c, r.from), sampled([](auto& x) { return x.from_offset; })), ", {", dtype_name(of[0].type),
            ", {", from, "}}, ", plus(output(c, r.to), sampled([](auto& x) { return x.to_offset; })), ", {",
            dtype_name(of[0].type), ", {", to, "}}, ", bytes, ");"});
    }
  }

  // ---- the file ----

  static std::string weights_path(const std::string& path) {
    const std::size_t dot = path.rfind('.'), slash = path.rfind('/');
    const bool has_end = dot != std::string::npos && (slash == std::string::npos || dot > slash);
    return path.substr(0, has_end ? dot : path.size()) + ".weights";
  }
  static void save(const std::string& path, const std::string& bytes) {
    std::FILE* const f = std::fopen(path.c_str(), "wb");
    const bool written = f && std::fwrite(bytes.data(), 1, bytes.size(), f) == bytes.size();
    if (!f || std::fclose(f) != 0 || !written)
      throw error(error_code::unavailable, "freeze", {"cannot write ", path, ": check the folder and the free space"});
  }

  std::string header(const std::string&) {
    const program& p = *step_.made;
    const plan::buffer_assignment assigned(p, step_.infos.data(), *binding_);
    sequence<std::size_t> begins;
    std::size_t total = 0;
    for (std::size_t a = 0; a < p.arenas.size(); ++a)
      begins.push_back(total), total += (assigned.bytes(a) + 63) / 64 * 64;
    const std::size_t scratch_at = total, all = total + (scratch_ + 63) / 64 * 64;
    std::string kernels;
    const char* const files[] = {"map", "product", "image", "rows", "copy", "reduce", "attention"};
    for (const unsigned k : {6u, 4u, 2u, 0u, 1u, 5u, 3u})
      if (headers_ >> k & 1) append(kernels, {"#include <weft/frozen/", files[k], ".hpp>\n"});
    std::string space = identifier(options_.name);
    if (has_word(functions_of_c, space)) space += '_';
    const bool named = !extent_.empty();
    std::string h =
        str_cat({"// Written by weft::freeze. Do not edit: freeze the model again.\n#pragma once\n\n#include "
                 "<array>\n#include <cstddef>\n#include <cstdint>\n",
                 options_.weights == frozen_weights::in_file ? "#include <cstdio>\n" : "", "\n", kernels,
                 "\nnamespace ", space, " {\n\n"});
    append(h, {"// Weights: ", weight_total_, " bytes. Memory of a call: ", all, " bytes, of which ", scratch_,
               " are scratch memory of single kernels.\n\n"});
    if (options_.weights == frozen_weights::in_file)
      append(h, {"alignas(64) inline unsigned char weights[", weight_total_ ? weight_total_ : 1,
                 "];\n\n/// Reads the weights from a file; returns false if it cannot be read or has another size. "
                 "Call it once, before\n/// predict.\ninline bool load(const char* path) {\n  std::FILE* const f = "
                 "std::fopen(path, \"rb\");\n  if (!f) return false;\n  const bool read = std::fread(weights, 1, ",
                 weight_total_, ", f) == ", weight_total_,
                 " && std::fgetc(f) == EOF;\n  std::fclose(f);\n  return read;\n}\n\n"});
    append(h, {weights_, weights_.empty() ? "" : "\n"});
    if (!expressions_.empty()) {
      h += "namespace expressions {\nusing namespace weft::skeleton;\nnamespace formula = weft::formula;\n";
      for (std::size_t k = 0; k < expressions_.size(); ++k)
        append(h, {"using expression_", k + 1, " = ", expressions_[k], ";\n"});
      h += "}  // namespace expressions\n\n";
    }
    append(h, {"/// The memory in which predict works. One call at a time can use it.\nstruct alignas(64) workspace "
               "{\n  std::byte bytes[",
               all ? all : 1, "];\n};\n\n", described_});
    if (named)
      append(h, {"/// Returns false, and computes nothing, unless ", least_, " <= ", extent_, " <= ", options_.most,
                 ".\n"});
    const std::string extent_parameter = named ? str_cat({"std::int64_t ", extent_, ", "}) : "";
    append(h, {"inline ", named ? "bool" : "void", " predict(", extent_parameter, parameters_, ", ",
               "[[maybe_unused]] workspace& memory) {\n  namespace frozen = weft::frozen;\n"});
    if (!expressions_.empty()) h += "  using namespace expressions;\n";
    if (named)
      append(h, {"  if (", extent_, " < ", least_, " || ", extent_, " > ", options_.most, ") return false;\n"});
    for (const std::uint32_t b : buffers_) {
      const char* const type = type_name(p.buffers[b].declared.type);
      append(h, {"  auto* const ", names_[b], " = reinterpret_cast<", type, "*>(memory.bytes + ",
                 begins[p.buffers[b].arena] + assigned.offset(b), ");  // ",
                 g_.to_string(p.buffers[b].declared.extents), "\n"});
    }
    if (scratch_) append(h, {"  std::byte* const scratch = memory.bytes + ", scratch_at, ";\n"});
    append(h, {code_, named ? "  return true;\n" : "", "}\n\n"});
    append(h, {"/// The same in memory of the thread.\ninline ", named ? "bool" : "void", " predict(", extent_parameter,
               parameters_, ") {\n  static thread_local workspace memory;\n  ", named ? "return " : "", "predict(",
               named ? extent_ + ", " : "", arguments_, ", memory);\n}\n"});
    if (!named) h += returning();
    append(h, {"\n}  // namespace ", space, "\n"});
    return h;
  }
  /// The function that returns its results.
  std::string returning() {
    const program& p = *step_.made;
    std::string members, inputs, arguments;
    for (std::size_t i = 0; i < feeds_; ++i) {
      const value_info& v = g_.info(p.request.feeds[i]);
      const std::string& name = names_[p.feed_buffers[i]];
      append(inputs, {i ? ", " : "", "const ", type_name(v.type), "* ", name});
      append(arguments, {i ? ", " : "", name});
    }
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const value_info& v = g_.info(p.request.fetches[i]);
      append(members,
             {"  std::array<", type_name(v.type), ", ", resolved(v.extents, 0).elements(), "> ", results_[i], ";\n"});
      append(arguments, {arguments.empty() ? "" : ", ", "all.", results_[i], ".data()"});
    }
    return str_cat({"\nstruct results {\n", members, "};\n/// The same; returns the results.\ninline results predict(",
                    inputs, ") {\n  results all;\n  predict(", arguments, ");\n  return all;\n}\n"});
  }

  const plan::environment& session_;
  const graph& g_;
  std::size_t feeds_;
  const sequence<sequence<std::byte>>& values_;
  freeze_options options_;
  plan::compiled_step step_;
  owned<plan::binding> binding_;
  std::int64_t code_of_extent_ = 0;  // of the named extent; 0: none
  std::int64_t least_ = 1;           // the least named extent for which the session runs the step
  sequence<std::int64_t> sampled_;   // the named extent in each sample of a frozen_number
  sequence<extent_bindings> known_;
  std::string extent_;  // the named extent; empty: none
  sequence<std::string> names_, results_, taken_, expressions_;
  sequence<char> state_;             // of each buffer: 1 if it is declared
  sequence<std::uint32_t> buffers_;  // in the workspace
  struct padded_array {
    std::uint32_t buffer;
    std::string name;
  };
  sequence<padded_array> padded_;
  std::string parameters_, arguments_, described_, weights_, weight_bytes_, code_;
  std::size_t weight_total_ = 0, scratch_ = 0;
  unsigned headers_ = 0;
  std::uint32_t current_ = plan::none;
};

}  // namespace detail
}  // namespace weft
WEFT_COLD_END

#pragma pop_macro("slots")
