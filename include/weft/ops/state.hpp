#pragma once

#include <weft/device/cpu/loop_kernel.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/elementwise.hpp>
#include <weft/ops/formulas.hpp>
#include <weft/ops/fused.hpp>
#include <weft/ops/lowering.hpp>

/// Operations that write variables. Input 0 is the variable. In one step every other node that reads the variable sees
/// the value from before the step; the written node's own result is the new value.
namespace weft {
namespace detail {

template <class T>
void add_elements(const void* const* in, void* const* out, std::size_t n, const std::uint64_t*) {
  const T* delta = static_cast<const T*>(in[1]);
  T* variable = static_cast<T*>(out[0]);
  WEFT_VECTORIZE
  for (std::size_t i = 0; i < n; ++i) variable[i] = static_cast<T>(wrapping(variable[i]) + wrapping(delta[i]));
}

// An update has the same bits on every machine, on a worker and on a parameter server. It is bound by memory, and gains
// nothing from vectors that are wider than AVX2's.
template <device::block_function Loop>
WEFT_UNFUSED()
void unfused_plain(const void* const* in, void* const* out, std::size_t n, const std::uint64_t* literals) {
  Loop(in, out, n, literals);
}
#if defined(__x86_64__)
template <device::block_function Loop>
__attribute__((target("avx2"))) WEFT_UNFUSED("O3,") void unfused_avx2(const void* const* in, void* const* out,
                                                                      std::size_t n, const std::uint64_t* literals) {
  Loop(in, out, n, literals);
}
#endif

template <device::block_function Loop>
device::block_function unfused() {
#if defined(__x86_64__)
  if (detected_isa() != isa::baseline) return unfused_avx2<Loop>;
#endif
  return unfused_plain<Loop>;
}

WEFT_COLD_BEGIN

/// Throws invalid_argument unless input k has the extents of the variable that is written.
void check_assigned(const prepare_context&, std::size_t k);
kernel* prepare_add(const prepare_context&, device::block_function);

#if WEFT_DEFINITIONS

WEFT_DECL void check_assigned(const prepare_context& p, std::size_t k) {
  if (!(p.inputs[k].extents == p.inputs[0].extents))
    throw error(error_code::invalid_argument, p.c.op->name,
                {"a value of extents ", to_string(p.inputs[k].extents), " is assigned to a variable of ",
                 to_string(p.inputs[0].extents)});
}

WEFT_DECL kernel* prepare_add(const prepare_context& p, device::block_function block) {
  check_assigned(p, 1);
  const shape& space = p.inputs[0].extents;
  const device::operand own = device::broadcast_operand(p.inputs[0].type, space, space), in[] = {own, own};
  const device::reduce_op how = device::reduce_op::store;
  device::loop body(space, 2, in, 1, &own, &how, nullptr, block, nullptr);
  const std::size_t elements = space.elements();
  return new device::loop_kernel(
      static_cast<device::loop&&>(body), {p.input_slots, p.input_slots, &elements}, p.c.literals,
      {p.c.op->name, name(p.inputs[0].type),
       [](const char* what, const void* type) { return str_cat({what, " ", static_cast<const char*>(type)}); }});
}

#endif

class assign_kernel final : public kernel {
 public:
  explicit assign_kernel(const prepare_context& p)
      : variable_(p.input_slots[0]), value_(p.input_slots[1]), bytes_(p.inputs[0].bytes()) {
    check_assigned(p, 1);
  }
  void run(const kernel_context& f) override { __builtin_memmove(f.buffers[variable_], f.buffers[value_], bytes_); }
  std::string describe() const override { return str_cat({"assign ", bytes_, " bytes"}); }

 private:
  std::uint32_t variable_, value_;
  std::size_t bytes_;
};

WEFT_COLD_END

}  // namespace detail

/// Operands: the variable, its new value.
struct assign_op {
  static constexpr const char* name = "assign";
  static constexpr bool writes = true;
  static constexpr fusion_kind part = fusion_kind::assignment;

  static kernel* prepare(const prepare_context& p) { return new detail::assign_kernel(p); }
  static constexpr operand_use use(const node_def&, std::size_t operand) {
    return operand == 0 ? operand_use::write : operand_use::read;
  }
};

/// Operands: the variable, what is added to it.
template <class T>
struct assign_add_op {
  static constexpr const char* name = "assign_add";
  static constexpr bool writes = true;

  static kernel* prepare(const prepare_context& p) {
    return detail::prepare_add(p, detail::unfused<detail::add_elements<T>>());
  }
  static constexpr operand_use use(const node_def&, std::size_t operand) {
    return operand == 0 ? operand_use::update : operand_use::read;
  }
};

namespace detail {

template <class V, class Expr>
auto record_write(const operation& op, const V& target, const Expr& what) {
  const auto v = materialize(what);
  const operand_source sources[] = {source_of(target), source_of(v)};
  return node_of<V>(record_operation(op, dtype_of<value_t<V>>, dims_t<V>::spec, {}, sources, 2));
}

// A number of the variable's type, but for fractions that are assigned to integers.
template <class T, class D, class Num>
using assigned_number_mistake =
    first_mistake<assigned_extents_differ<dims<>, D>, fraction_meets_integers<Num, variable_node<T, D>>>;

}  // namespace detail

/// Writes the value of an expression into a variable (tf.assign), or a tensor; the result is the new value.
template <class T, class D, class Dev, Expression Expr>
auto assign(const variable_node<T, D, Dev>& target, const Expr& value) {
  static_assert(correct<assignment_mistake<value_t<Expr>, dims_t<Expr>, T, D>>,
                "assign: needs a value of the variable's extents and element type: cast<T>(x)");
  return detail::record_write(operation_of<assign_op>, target, value);
}

/// The same of a number, to a variable that is a scalar. Throws invalid_argument if its type does not hold the number.
template <class T, class D, class Dev, Number Num>
auto assign(const variable_node<T, D, Dev>& target, Num value) {
  using mistake = detail::assigned_number_mistake<T, D, Num>;
  static_assert(correct<mistake>, "assign: a number is assigned to a scalar that holds it; tensors to other variables");
  if constexpr (correct<mistake>)
    return assign(target, tensor<T>(detail::as_element<T>(value)));
  else
    return detail::after_mistake<T, D>(target);
}

/// Adds the value of an expression to a variable (tf.assign_add), or a tensor; the result is the new value.
template <class T, class D, class Dev, Expression Expr>
auto assign_add(const variable_node<T, D, Dev>& target, const Expr& value) {
  static_assert(correct<assignment_mistake<value_t<Expr>, dims_t<Expr>, T, D>>,
                "assign_add: needs a value of the variable's extents and element type: cast<T>(x)");
  gpu::compile_kernels<assign_add_op, T>();
  return detail::record_write(operation_of<assign_add_op<T>>, target, value);
}

/// The same of a number, to a variable that is a scalar. Throws invalid_argument if its type does not hold the number.
template <class T, class D, class Dev, Number Num>
auto assign_add(const variable_node<T, D, Dev>& target, Num value) {
  using mistake = detail::assigned_number_mistake<T, D, Num>;
  static_assert(correct<mistake>,
                "assign_add: a number is added to a scalar that holds it; tensors to other variables");
  if constexpr (correct<mistake>)
    return assign_add(target, tensor<T>(detail::as_element<T>(value)));
  else
    return detail::after_mistake<T, D>(target);
}

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/state.hpp>
#endif
