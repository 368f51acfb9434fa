// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdio>
#include <string>

#include <weft/graph/effects.hpp>
#include <weft/graph/gradients.hpp>
#include <weft/graph/graph_of.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/lowering.hpp>
#include <weft/tensor/print.hpp>

/// Checks and prints values while a step runs. Not part of <weft/weft.hpp>. On a GPU, the values are copied to the CPU
/// first.
WEFT_COLD_BEGIN
namespace weft {

/// Returns x, and throws invalid_argument in the step if an element is NaN or infinite (tf.debugging.check_numerics).
/// The error contains the message, the first such element and their number. The gradient is checked as well, with the
/// same message.
template <Expression X>
[[nodiscard]] auto check_numerics(const X& x, const std::string& message);

/// Throws invalid_argument in the step if an element of the condition is false (tf.debugging.Assert). The error
/// contains the message, and the values in NumPy's layout. A step runs the check if it is a target, or if
/// `control_dependencies after(g, check)` put it before a node:
///
///     const control_dependencies after(g, assert_that(lengths > 0, "lengths must be positive", lengths));
template <Expression Condition, Expression... Values>
[[nodiscard]] effect assert_that(const Condition& condition, const std::string& message, const Values&... values);

/// Writes the message and the values to standard error whenever a step runs it (tf.print): as a target, or through
/// control_dependencies. A step writes in the order in which the calls were recorded.
template <Expression X, Expression... More>
[[nodiscard]] effect print_values(const std::string& message, const X& x, const More&... more);

/// Returns x, and writes the message and x to standard error whenever a step computes it (tf.Print).
template <Expression X>
[[nodiscard]] auto print_through(const X& x, const std::string& message);

/// The values must be in a graph.
template <class... Xs>
struct values_are_not_in_a_graph : mistake<!(Xs::symbolic || ...)> {};

/// Holds the text of an operation's report in the graph's memory.
struct kept_text : graph_owned {
  explicit kept_text(const std::string& s) : text(s) {}
  std::string text;
};

/// The operand, after a check of its elements.
struct check_numerics_op {
  static constexpr const char* name = "check_numerics";
  static constexpr const char* onnx = "a";
  static kernel* prepare(const prepare_context&);
  static void gradient(gradient_context&);
  static bool in_place(const node_def&, const value_info*, const value_info&) { return true; }
};

/// Inputs: the condition, and values for the message.
struct assert_op {
  static constexpr const char* name = "assert_that";
  static constexpr bool stateful = true;
  static kernel* prepare(const prepare_context&);
};

/// Inputs: the values to print. The output is the first one, unless the node is an effect.
struct print_op {
  static constexpr const char* name = "print";
  static constexpr bool ordered = true;
  static kernel* prepare(const prepare_context&);
  static void gradient(gradient_context& g) { g.set_gradient(0, g.upstream()); }
};

namespace detail {

/// Records an operation with a message. The output is an effect if `output` is null.
symbol record_with_message(const operation&, const sequence<operand_source>&, const value_info* output,
                           const std::string& message);

inline symbol record_with_message(const operation& op, const sequence<operand_source>& operands,
                                  const value_info* output, const std::string& message) {
  node_def c;
  c.op = &op;
  c.outputs = {output ? *output : value_info{dtype::boolean, shape(0)}};
  for (const operand_source& each : operands) {
    if (!each.node) continue;
    auto* const text = new kept_text(message);
    graph_of(each.node->erased()).whole().keep(text);
    c.detail = text;
    break;
  }
  return record_operation(static_cast<node_def&&>(c), operands.data(), operands.size());
}

/// Inputs, their types and extents, and the message of a node.
class reporting_kernel : public kernel {
 public:
  explicit reporting_kernel(const prepare_context& p)
      : operands_(p.input_slots, p.input_slots + p.node.inputs.size()),
        infos(p.inputs, p.inputs + p.node.inputs.size()),
        result(p.output_slots[0]),
        result_bytes(p.outputs[0].bytes()),
        message(static_cast<const kept_text*>(p.node.detail)->text),
        name_(p.node.op->name) {}
  std::string describe() const override { return str_cat({name_, " ", message}); }

 protected:
  std::string values_from(const kernel_context& f, std::size_t first) const {
    std::string all;
    for (std::size_t i = first; i < operands_.size(); ++i)
      all += (i > first ? " " : "") + array_text(f.buffers[operands_[i]], infos[i].type, infos[i].extents);
    return all;
  }
  void pass_first(const kernel_context& f) const {
    if (f.buffers[result] != f.buffers[operands_[0]])
      __builtin_memcpy(f.buffers[result], f.buffers[operands_[0]], result_bytes);
  }

  sequence<std::uint32_t> operands_;
  sequence<value_info> infos;
  std::uint32_t result;
  std::size_t result_bytes;
  std::string message;

 private:
  const char* name_;
};

/// Index i of an array as text, such as "[3, 4]".
inline std::string index_text(const shape& extents, std::size_t i) {
  shape at = extents;
  for (std::size_t axis = at.rank; axis-- > 0;) {
    at[axis] = static_cast<std::int64_t>(i) % extents[axis];
    i /= static_cast<std::size_t>(extents[axis]);
  }
  return to_string(at);
}

class check_numerics_kernel final : public reporting_kernel {
 public:
  using reporting_kernel::reporting_kernel;
  void run(const kernel_context& f) override {
    const void* const x = f.buffers[operands_[0]];
    switch (infos[0].type) {
      case dtype::float64:
        check(static_cast<const std::uint64_t*>(x), std::uint64_t{0x7ff} << 52, std::uint64_t{1} << 63);
        break;
      case dtype::float32:
        check(static_cast<const std::uint32_t*>(x), std::uint32_t{0xff} << 23, std::uint32_t{1} << 31);
        break;
      default: {
        const bool is_half = infos[0].type == dtype::float16;
        check(static_cast<const std::uint16_t*>(x), static_cast<std::uint16_t>(is_half ? 0x7c00 : 0x7f80),
              std::uint16_t{0x8000});
      }
    }
    pass_first(f);
  }

 private:
  /// Finds NaN and infinity by their exponents, in which all bits are 1.
  template <class Bits>
  void check(const Bits* x, Bits exponent, Bits sign) const {
    const std::size_t n = infos[0].extents.elements();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < n; ++i) wrong += (x[i] & exponent) == exponent;
    if (wrong == 0) return;
    std::size_t first = 0, nan = 0;
    while ((x[first] & exponent) != exponent) ++first;
    for (std::size_t i = 0; i < n; ++i) nan += static_cast<Bits>(x[i] & static_cast<Bits>(~sign)) > exponent;
    const bool first_is_nan = static_cast<Bits>(x[first] & static_cast<Bits>(~sign)) > exponent;
    throw error(
        error_code::invalid_argument, check_numerics_op::name,
        {message, ": ",
         first_is_nan        ? "NaN"
         : (x[first] & sign) ? "-infinity"
                             : "infinity",
         " at ", index_text(infos[0].extents, first), "; NaN: ", nan, " of ", n, " elements, infinite: ", wrong - nan});
  }
};

class assert_kernel final : public reporting_kernel {
 public:
  using reporting_kernel::reporting_kernel;
  void run(const kernel_context& f) override {
    const auto* const holds = reinterpret_cast<const bool*>(f.buffers[operands_[0]]);
    for (std::size_t i = 0; i < infos[0].extents.elements(); ++i)
      if (!holds[i])
        throw error(error_code::invalid_argument, assert_op::name,
                    {message, ": false", infos[0].extents.rank ? " at " : "",
                     infos[0].extents.rank ? index_text(infos[0].extents, i) : std::string(),
                     operands_.size() > 1 ? "; values " : "", values_from(f, 1)});
  }
};

class print_kernel final : public reporting_kernel {
 public:
  using reporting_kernel::reporting_kernel;
  void run(const kernel_context& f) override {
    const std::string line = str_cat({message, " ", values_from(f, 0), "\n"});
    std::fwrite(line.data(), 1, line.size(), stderr);  // in one call, so that tasks do not mix their lines
    if (result_bytes > 0) pass_first(f);
  }
};

}  // namespace detail

inline kernel* check_numerics_op::prepare(const prepare_context& p) { return new detail::check_numerics_kernel(p); }
inline kernel* assert_op::prepare(const prepare_context& p) { return new detail::assert_kernel(p); }
inline kernel* print_op::prepare(const prepare_context& p) { return new detail::print_kernel(p); }
inline void check_numerics_op::gradient(gradient_context& g) {
  g.set_gradient(
      0, detail::record_call(operation_of<check_numerics_op>, {g.upstream()}, g.input(0).info(), {}, g.node.detail));
}

template <Expression X>
auto check_numerics(const X& x, const std::string& message) {
  using mistake = first_mistake<values_are_not_in_a_graph<X>, gradient_of_non_floating<value_t<X>>>;
  static_assert(correct<mistake>, "check_numerics: takes a floating-point value of a graph");
  if constexpr (correct<mistake>) {
    const auto v = let(x);
    const value_info info = v.erased().info();
    const sequence<detail::operand_source> operands{detail::source_of(v)};  // nvcc omits the braces of an argument
    return detail::node_of<X>(detail::record_with_message(operation_of<check_numerics_op>, operands, &info, message));
  } else {
    return detail::same_after_mistake(x);
  }
}

template <Expression Condition, Expression... Values>
effect assert_that(const Condition& condition, const std::string& message, const Values&... values) {
  using mistake = first_mistake<element_types_differ<value_t<Condition>, bool>, values_are_not_in_a_graph<Condition>>;
  static_assert(correct<mistake>,
                "assert_that: takes a condition of bool in a graph: assert_that(x > 0, \"message\", x)");
  if constexpr (correct<mistake>)
    return [&](const auto& c, const auto&... v) {
      return effect(detail::record_with_message(operation_of<assert_op>,
                                                {detail::source_of(c), detail::source_of(v)...}, nullptr, message));
    }(let(condition), materialize(values)...);
  else
    return effect(symbol());
}

template <Expression X, Expression... More>
effect print_values(const std::string& message, const X& x, const More&... more) {
  using mistake = values_are_not_in_a_graph<X, More...>;
  static_assert(correct<mistake>, "print_values: takes values of a graph; std::cout << x prints a tensor");
  if constexpr (correct<mistake>)
    return [&](const auto&... v) {
      return effect(detail::record_with_message(operation_of<print_op>, {detail::source_of(v)...}, nullptr, message));
    }(materialize(x), materialize(more)...);
  else
    return effect(symbol());
}

template <Expression X>
auto print_through(const X& x, const std::string& message) {
  using mistake = values_are_not_in_a_graph<X>;
  static_assert(correct<mistake>, "print_through: takes a value of a graph; std::cout << x prints a tensor");
  if constexpr (correct<mistake>) {
    const auto v = let(x);
    const value_info info = v.erased().info();
    const sequence<detail::operand_source> operands{detail::source_of(v)};
    return detail::node_of<X>(detail::record_with_message(operation_of<print_op>, operands, &info, message));
  } else {
    return detail::same_after_mistake(x);
  }
}

}  // namespace weft
WEFT_COLD_END
