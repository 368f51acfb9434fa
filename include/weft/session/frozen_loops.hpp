// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include <weft/frozen/reduce.hpp>
#include <weft/ops/elementwise/more_formulas.hpp>
#include <weft/ops/fused_operations.hpp>
#include <weft/session/frozen_step.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// The elementwise expressions and reductions of a frozen step.
class frozen_loops : public frozen_step {
 protected:
  using frozen_step::frozen_step;

  /// Writes the type of an expression.
  const skeleton::token* expression(const skeleton::token* t, std::string& to) {
    if (!t->operation) {
      if (t->number >= 0)
        append(to, {"argument<", t->number, ", ", frozen_type(t->type), ">"});
      else
        append(to, {"constant<", ~t->number, ", ", frozen_type(t->type), ">"});
      return t + 1;
    }
    using skeleton::formula_id, skeleton::more_formulas;
    if (t->formula == formula_id{}) refuse("it applies a formula of the program's own");
    const bool is_quotient = t->formula == formula_id::divide && !is_floating(t->type);
    if (t->formula > formula_id::logical_or) {
      needs(formulas_header);
      const auto f = static_cast<more_formulas>(t->formula);
      if (!is_floating(t->type) &&
          (f == more_formulas::floor_div || f == more_formulas::floor_mod || f == more_formulas::fmod))
        refuse("an integer divided by 0 would throw");
    }
    append(to, {is_quotient ? "apply<weft::frozen::" : "apply<formula::", is_quotient ? "quotient" : t->operation});
    if (t->formula == formula_id::cast) append(to, {"<", frozen_type(t->type), ">"});
    append(to, {", ", frozen_type(t->type)});
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
      append(shown, {k ? ", " : "", frozen_literal(f.signature.constant_types[k],
                                                   reinterpret_cast<const std::byte*>(&c.node.literals[k]))});
    }
    const std::string name = "numbers_" + std::to_string(++numbers_);
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
      const frozen_number n = elements(space);
      if (n == frozen_number(product_.columns))
        return write_product(str_cat({", ", type}), str_cat({", {", list, "}", literals}));
      write_product();
      const bool known = n.is_fixed() && n.at[0] > 0 && n.at[0] <= 512;  // long loops share their code
      return line({indent, "frozen::map<", type, known ? ", " : "", known ? text(n) : "", ">({", list, "}, ",
                   at[c.inputs], known ? "" : ", ", known ? "" : text(n), literals, ");"});
    }
    write_product();
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
    return str_cat({"{", frozen_dtype(t), ", {", strides, "}}"});
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
    const std::int64_t most = extents_.most();
    for (std::int64_t n = extents_.least(); n <= most; n += most > 4096 && n + most / 4096 <= most ? most / 4096 : 1) {
      extent_bindings known = extents_.with(n);
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

  /// A product of one row that is not written yet, because an expression can follow in the same call.
  struct row_product {
    std::int64_t columns = -1;  ///< -1: none
    std::string name, arguments;
  };
  void write_product(const std::string& expression = {}, const std::string& operands = {}) {
    if (product_.columns >= 0) line({product_.name, expression, ">(", product_.arguments, operands, ");"});
    product_ = {};
  }

  row_product product_;
  sequence<std::string> expressions_;
  std::size_t numbers_ = 0;
};

}  // namespace weft::detail
WEFT_COLD_END
