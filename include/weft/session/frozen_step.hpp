// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include <weft/plan/arenas.hpp>
#include <weft/plan/bind.hpp>
#include <weft/plan/compile.hpp>
#include <weft/session/freeze_options.hpp>
#include <weft/session/frozen_arrays.hpp>
#include <weft/session/frozen_extents.hpp>
#include <weft/session/frozen_text.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

WEFT_COLD_BEGIN
namespace weft::detail {

/// A step that is being frozen: its buffers, the names and code that have been written, and the memory that they need.
class frozen_step {
 public:
  /// The feeds from `feeds` on have the given values.
  frozen_step(const plan::environment& session, const graph& g, plan::step_request request, std::size_t feeds,
              const sequence<sequence<std::byte>>& values, freeze_options o)
      : session_(session),
        g_(g),
        feeds_(feeds),
        values_(values),
        options_(static_cast<freeze_options&&>(o)),
        arrays_(options_.weights == frozen_weights::in_file),
        step_(session, g, static_cast<plan::step_request&&>(request)),
        extents_(session.extents, g, step_.made->request.feeds, options_.most,
                 [this](const extent_bindings& known) {
                   try {
                     bound(step_, known);
                     return true;
                   } catch (const error&) {
                     return false;
                   }
                 }),
        whole_(step_, bound(step_, extents_.sample(0)), 0, nullptr) {
    declare_extents();
    check_variables();
  }

 protected:
  using program = plan::program;

  /// The step, or a subgraph of one of its nodes. Functions about buffers and instructions refer to the current scope.
  struct scope {
    scope(plan::compiled_step& of, owned<plan::binding> b, std::size_t begin, scope* s)
        : step(of),
          binding(static_cast<owned<plan::binding>&&>(b)),
          assigned(*of.made, of.infos.data(), *binding),
          end(begin),
          around(s),
          names(of.made->buffers.size()),
          declared(of.made->buffers.size(), 0) {
      for (std::size_t a = 0; a < of.made->arenas.size(); ++a) {
        begins.push_back(end);
        end += (assigned.bytes(a) + 63) / 64 * 64;
      }
    }
    /// The address of a buffer in the workspace.
    std::size_t offset(std::uint32_t b) const { return begins[step.made->buffers[b].arena] + assigned.offset(b); }

    plan::compiled_step& step;
    owned<plan::binding> binding;
    plan::buffer_assignment assigned;
    sequence<std::size_t> begins;  // of the arenas in the workspace
    std::size_t end;
    scope* around;                     // null for the step
    sequence<std::uint32_t> captured;  // for each feed of a subgraph, the buffer around it that it is; or none
    sequence<std::string> names;       // of the buffers
    sequence<char> declared;           // for each buffer: 1 if code uses its name
    std::string number;                // of the instruction around a subgraph, and a dot
    std::uint32_t current = plan::none;
  };
  const program& made() const { return *scope_->step.made; }
  /// Calls a function in the scope around the current one.
  template <class F>
  auto around(const F& f) {
    scope* const inner = scope_;
    scope_ = inner->around;
    auto result = f();
    scope_ = inner;
    return result;
  }

  // ---- extents ----

  static owned<plan::binding> bound(plan::compiled_step& step, extent_bindings known) {
    sequence<plan::fed_value> fed;
    const program& p = *step.made;
    for (const value& v : p.request.feeds) fed.push_back({nullptr, known.resolve(p.g, "freeze", p.g.info(v).extents)});
    return plan::bind(step, fed.data(), known, nullptr);
  }
  void declare_extents() {
    const program& p = made();
    for (std::uint32_t b = 0; b < p.buffers.size(); ++b)
      if (p.buffers[b].kind != plan::buffer_kind::unused)
        for (const std::int64_t e : p.buffers[b].declared.extents.extents)
          extents_.declare(e, [this](const std::string& name) { return unique(name); });
  }
  shape resolved(const shape& s, std::size_t q) { return extents_.resolved(s, q); }
  frozen_number extent(std::int64_t code) { return extents_.extent(code); }
  frozen_number elements(const shape& s, std::size_t begin = 0, std::size_t end = max_rank) {
    frozen_number n = 1;
    for (std::size_t i = begin; i < s.rank && i < end; ++i) n = n * extent(s[i]);
    return n;
  }
  /// Writes a number as an expression.
  std::string text(const frozen_number& n) const {
    std::string sum;
    if (!extents_.write(n, sum)) refuse("its extents are neither polynomials of the named extent nor products");
    return sum;
  }
  std::string size(const frozen_number& n) const {
    return n.is_fixed() ? text(n) : "static_cast<std::size_t>(" + text(n) + ")";
  }
  /// Writes a pointer and an offset in elements.
  static std::string plus(const std::string& pointer, const std::string& offset) {
    return offset.empty() || offset == "0" ? pointer : str_cat({pointer, " + ", offset});
  }

  // ---- names ----

  std::string unique(const std::string& name) {
    const std::string id = frozen_identifier(name);
    std::string made = id;
    for (int k = 2; contains(made); ++k) made = id + "_" + std::to_string(k);
    taken_.push_back(made);
    return made;
  }
  bool contains(const std::string& name) const {
    for (const std::string& t : taken_)
      if (t == name) return true;
    return name == extents_.name();
  }

  void name_buffers() {
    const program& p = made();
    for (std::size_t i = 0; i < feeds_; ++i) {
      const value v = p.request.feeds[i];
      scope_->names[p.feed_buffers[i]] = unique(g_[v.node].name);
    }
    for (std::size_t i = 0; i < p.request.fetches.size(); ++i) {
      const value v = p.request.fetches[i];
      results_.push_back(unique(g_[v.node].name));
      const std::uint32_t b = p.fetch_buffers[i];
      if (p.buffers[b].kind == plan::buffer_kind::caller && scope_->names[b].empty()) scope_->names[b] = results_[i];
    }
  }
  void add_parameters() {
    const program& p = made();
    for (std::size_t i = 0; i < feeds_; ++i) {
      const std::uint32_t b = p.feed_buffers[i];
      parameter(g_.info(p.request.feeds[i]), scope_->declared[b] ? "const " : "[[maybe_unused]] const ",
                scope_->names[b]);
    }
    for (std::size_t i = 0; i < results_.size(); ++i) parameter(g_.info(p.request.fetches[i]), "", results_[i]);
  }
  void parameter(const value_info& v, const char* constness, const std::string& name) {
    append(parameters_, {parameters_.empty() ? "" : ", ", constness, frozen_type(v.type), "* ", name});
    append(arguments_, {arguments_.empty() ? "" : ", ", name});
    append(described_, {"/// ", name, ": ", frozen_type(v.type), " ", g_.to_string(v.extents), "\n"});
  }

  // ---- buffers ----

  void check_variables() const {
    const program& p = made();
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
    const program& p = made();
    for (std::uint32_t n = 0; n < p.nodes.size(); ++n)
      if (b >= p.nodes[n].first_buffer && b < p.nodes[n].first_buffer + p.def(n).outputs.size()) return n;
    refuse("a buffer has no node");
  }
  /// Returns the name of a root buffer, which it declares at its first use.
  std::string used(std::uint32_t b) {
    const program& p = made();
    const plan::step_buffer& buffer = p.buffers[b];
    std::string& name = scope_->names[b];
    if (scope_->declared[b]) return name;
    scope_->declared[b] = 1;
    if (!name.empty()) return name;
    if (const std::uint32_t same = captured(b); same != plan::none) return name = around([&] { return used(same); });
    const std::uint32_t n = owner(b);
    name = unique(p.name(n));
    if (const std::byte* const at = weight(b)) {
      add_array(name, n, buffer.declared, at);
      return name;
    }
    if (buffer.kind != plan::buffer_kind::arena) refuse("a buffer has no frozen form");
    declare(name, frozen_type(buffer.declared.type), scope_->offset(b), g_.to_string(buffer.declared.extents));
    return name;
  }
  /// Declares an array in the workspace.
  void declare(const std::string& name, const char* type, std::size_t offset, const std::string& comment) {
    append(pointers_, {"  auto* const ", name, " = reinterpret_cast<", type, "*>(memory.bytes + ", offset, ");  // ",
                       comment, "\n"});
  }
  /// The buffer around a subgraph that one of the subgraph's buffers is; otherwise none.
  std::uint32_t captured(std::uint32_t b) const {
    for (std::size_t i = 0; i < scope_->captured.size(); ++i)
      if (made().feed_buffers[i] == b) return scope_->captured[i];
    return plan::none;
  }
  /// The values of a buffer that is known now; otherwise null.
  const std::byte* weight(std::uint32_t b) {
    if (const std::uint32_t same = captured(b); same != plan::none) return around([&] { return weight(same); });
    const program& p = made();
    for (std::size_t i = feeds_; !scope_->around && i < p.feed_buffers.size(); ++i)
      if (p.feed_buffers[i] == b) return values_[i - feeds_].data();
    const plan::buffer_kind kind = p.buffers[b].kind;
    if (kind == plan::buffer_kind::variable) return session_.variables[p.nodes[owner(b)].number].data();
    if (kind == plan::buffer_kind::constant) return p.node_of(owner(b)).init.data.data();
    return nullptr;
  }
  /// Adds an array of weights of a node, in rows that are padded to a length of `stride`; 0: in one piece.
  void add_array(const std::string& name, std::uint32_t node, const value_info& v, const std::byte* at,
                 std::size_t columns = 0, std::size_t stride = 0) {
    const std::size_t count = resolved(v.extents, 0).elements();
    arrays_.add(name, str_cat({made().name(node), " ", g_.to_string(v.extents)}), v.type, at, count,
                stride ? columns : count, stride ? stride : count);
  }

  // ---- instructions ----

  /// A node as an instruction runs it, for each value of the named extent.
  struct call {
    const node_def& node;
    std::size_t inputs;
    sequence<value_info> declared;  ///< of the inputs and then of the outputs
    sequence<value_info> infos[frozen_number::samples];
    sequence<prepare_context> at;
    const operand_part* parts;
    const std::uint32_t* result;  ///< the slots of the outputs
    const value_info& out() const { return declared[inputs]; }
  };
  call call_of(std::uint32_t n) {
    const program& p = made();
    const plan::operand_table& table = scope_->step.operands;
    const std::size_t inputs = table.inputs(n), count = table.count(n);
    const prepare_context empty{p.def(n), nullptr, nullptr, table.slots(n), table.slots(n) + inputs};
    call c{p.def(n), inputs, {}, {}, {}, table.parts(n), results_of(n)};
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
  const std::uint32_t* results_of(std::uint32_t n) const {
    const plan::operand_table& table = scope_->step.operands;
    return table.slots(n) + table.inputs(n);
  }
  std::string input(const call& c, std::size_t k) { return used(c.at[0].input_slots[k]); }
  std::string output(const call& c, std::size_t k = 0) { return used(c.result[k]); }

  [[noreturn]] void refuse(const char* why) const {
    const program& p = made();
    const std::uint32_t current = scope_->current;
    const bool running = current < p.instructions.size();
    throw error(error_code::unimplemented, running ? p.name(p.instructions[current]) : "freeze",
                {running ? p.op(p.instructions[current].node).name : "the step", " has no frozen form: ", why,
                 "; fetch its result, and compute it outside of the frozen model"});
  }

  void line(std::initializer_list<piece> pieces) {
    code_ += indent_;
    append(code_, pieces);
    code_ += '\n';
  }
  frozen_number bytes(const value_info& v) {
    return elements(v.extents) * frozen_number(static_cast<std::int64_t>(size_of(v.type)));
  }
  void copy(const std::string& to, const std::string& from, const value_info& v, const std::string& condition = {}) {
    line({condition, "__builtin_memcpy(", to, ", ", from, ", ", size(bytes(v)), ");"});
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
    attention_header = 64,
    formulas_header = 128
  };

  const plan::environment& session_;
  const graph& g_;
  std::size_t feeds_;
  const sequence<sequence<std::byte>>& values_;
  freeze_options options_;
  frozen_arrays arrays_;
  plan::compiled_step step_;
  frozen_extents extents_;
  scope whole_;
  scope* scope_ = &whole_;
  sequence<std::string> results_, taken_;
  std::string parameters_, arguments_, described_, pointers_, code_, indent_ = "  ";
  std::size_t scratch_ = 0;
  unsigned headers_ = 0;
};

}  // namespace weft::detail
WEFT_COLD_END

#pragma pop_macro("slots")
