// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/map.hpp>
#include <weft/device/gpu/reduce.hpp>
#include <weft/ops/elementwise/formulas_of_symbols.hpp>
#include <weft/ops/fused.hpp>

/// GPU kernels of skeletons: values, gradients, and the sums of both.
#if WEFT_COMPILES_FOR_GPU
namespace weft::gpu {

/// Evaluates a skeleton inside a kernel: a value is an element in a register.
template <class In>
struct register_context {
  template <class T>
  using value = T;
  const In& in;
  const std::uint64_t* constants;
  template <int Index, class T>
  WEFT_HOST_DEVICE T argument() const {
    return in.template get<Index>();
  }
  template <int Index, class T>
  WEFT_HOST_DEVICE T constant() const {
    T value;
    memcpy(&value, constants + Index, sizeof value);
    return value;
  }
};

namespace detail {

template <class S>
inline constexpr int arguments_of = static_cast<int>(weft::detail::signature_of<S>.arguments);
template <class S>
inline constexpr int constants_of = static_cast<int>(weft::detail::signature_of<S>.constants);
template <class S, int Index>
inline constexpr bool is_reached = (weft::detail::signature_of<S>.reached >> Index) & 1;

/// The type of an argument or, for the index after the last argument, of the value.
template <class S, int Index, bool IsArgument = (Index < arguments_of<S>)>
struct input_type : type_of<weft::detail::signature_of<S>.types[Index]> {};
template <class S, int Index>
struct input_type<S, Index, false> {
  using type = typename S::value_type;
};

template <std::uint32_t>
struct mask {};

// Uses overloads: in a requires-expression, nvcc 13 accepts an expression that is not constant.
template <class S, bool KeepsValue>
constexpr bool knows_reads(mask<weft::detail::gradient_reads<S, KeepsValue>()>*) {
  return true;
}
template <class S, bool KeepsValue>
constexpr bool knows_reads(...) {
  return false;
}

/// Returns how many inputs a gradient reads: all of them if a user's formula is not a constant expression.
template <class S, bool KeepsValue>
constexpr int reads_of_gradient(int inputs) {
  if constexpr (knows_reads<S, KeepsValue>(nullptr))
    return __builtin_popcount(weft::detail::gradient_reads<S, KeepsValue>());
  else
    return inputs;
}

using weft::detail::takes_one, weft::detail::takes_two;

}  // namespace detail

/// Evaluates one of several operations of one or two operands, selected by `factor`. The choice is among the operations
/// in `Ops` whose result is an R: those in all first gradients, or all others.
template <class T, class R, bool First, class... Ops>
struct choice_program {
  static constexpr int inputs = 2, outputs = 1, constants = 0;
  static constexpr bool reads_all = false;
  template <int>
  using input = T;
  template <int>
  using output = R;
  template <int>
  static constexpr bool writes = true;

  template <class In, class Out>
  WEFT_HOST_DEVICE static void run(const In& in, const std::uint64_t*, double factor, Out& out) {
    const T a = in.template get<0>(), b = in.template get<1>();
    const int chosen = static_cast<int>(factor);
    int k = 0;
    R y{};
    (apply<Ops>(a, b, k++ == chosen, y), ...);
    out.template set<0>(y);
  }

  template <class Op>
  static constexpr bool has = [] {
    constexpr bool yields = std::is_same_v<weft::detail::primitive_result<Op, T>, R>;
    constexpr bool first = weft::detail::in_first_gradients.has(weft::detail::primitive_of<Op>);
    constexpr bool of_bools = requires { Op::of_bools; };
    return yields && first == First && !of_bools && (detail::takes_one<Op, T> || detail::takes_two<Op, T>);
  }();

 private:
  template <class Op>
  WEFT_HOST_DEVICE static void apply(T a, T b, bool chosen, R& y) {
    if constexpr (!has<Op>)
      return;
    else if constexpr (detail::takes_two<Op, T>)
      y = chosen ? static_cast<R>(Op::apply(a, b)) : y;
    else
      y = chosen ? static_cast<R>(Op::apply(a)) : y;
  }
};

/// The value of a skeleton.
template <class S>
struct value_program {
  static constexpr int inputs = detail::arguments_of<S>, outputs = 1, constants = detail::constants_of<S>;
  static constexpr bool stores = false;  ///< no elements are stored when the value is reduced
  static constexpr bool reads_all = true;
  template <int Index>
  using input = typename detail::input_type<S, Index>::type;
  template <int>
  using output = typename S::value_type;
  template <int>
  static constexpr bool writes = true;

  template <class In, class Out>
  WEFT_HOST_DEVICE static void run(const In& in, const std::uint64_t* constants, double, Out& out) {
    out.template set<0>(S::eval(register_context<In>{in, constants}));
  }
};

template <class Out>
struct register_sink {
  Out& out;
  template <int Index, class T>
  WEFT_HOST_DEVICE void take(T g) {
    out.template set<Index>(g);
  }
};

/// The gradients with respect to a skeleton's arguments. Inputs: the arguments, the upstream gradient, which is
/// multiplied by `factor`, and with `KeepsValue` the skeleton's value.
template <class S, bool KeepsValue>
struct gradient_program {
  static constexpr int arguments = detail::arguments_of<S>;
  static constexpr int inputs = arguments + 1 + KeepsValue, outputs = arguments, constants = detail::constants_of<S>;
  static constexpr bool stores = true;
  static constexpr bool reads_all = false;  ///< a gradient may not depend on every input
  static constexpr int reads = detail::reads_of_gradient<S, KeepsValue>(inputs);
  template <int Index>
  using input = typename detail::input_type<S, Index>::type;
  template <int O>
  using output = input<O>;
  template <int O>
  static constexpr bool writes = detail::is_reached<S, O>;

  template <class In, class Out>
  WEFT_HOST_DEVICE static void run(const In& in, const std::uint64_t* constants, double factor, Out& out) {
    using context = register_context<In>;
    using T = typename S::value_type;
    auto tape = S::forward(context{in, constants});
    if constexpr (KeepsValue) tape.y = in.template get<arguments + 1>();
    T upstream = in.template get<arguments>();
    if (factor != 1) upstream = static_cast<T>(static_cast<double>(upstream) * factor);
    register_sink<Out> sink{out};
    S::template backward<context>(tape, upstream, sink);
  }
};

namespace detail {

// There is one object for each kernel. Its constructor runs before main and stores the kernel in the skeleton's slot.

template <class S, map_forms Forms = map_forms::both>
struct registered_map {
  map_code code = compile_map<value_program<S>, Forms>("map");
  registered_map() {
    if (Forms == map_forms::both || !kernels_of<S>.map) kernels_of<S>.map = &code;
  }
};

/// Several rarely used operations of one or two operands in one kernel.
template <class T, class R, bool First, class Formulas = weft::detail::primitive_formulas>
struct registered_operations;
template <class T, class R, bool First, class... Ops>
struct registered_operations<T, R, First, weft::detail::formula_list<Ops...>> {
  using program = choice_program<T, R, First, Ops...>;
  map_code codes[sizeof...(Ops)];
  registered_operations() {
    const map_code code = compile_map<program, map_forms::plain>("operation");
    int k = 0;
    (put<Ops>(code, k++), ...);
  }
  template <class Op>
  void put(const map_code& code, int k) {
    if constexpr (program::template has<Op>) {
      codes[k] = code;
      codes[k].factor = k;
      using skeleton::apply, skeleton::argument;
      using one = apply<Op, R, argument<0, T>>;
      using two = apply<Op, R, argument<0, T>, argument<1, T>>;
      const map_code*& slot = kernels_of<std::conditional_t<takes_two<Op, T>, two, one>>.map;
      if (!slot) slot = &codes[k];
    }
  }
};

template <class S, bool KeepsValue>
struct registered_gradient {
  map_code code = compile_map<gradient_program<S, KeepsValue>, map_forms::vector>("gradient");
  reduce_code sums = compile_reduce<gradient_program<S, KeepsValue>, weft::device::reduce_op::sum>("gradient and sums");
  registered_gradient() {
    kernels_of<S, KeepsValue>.gradient = &code;
    kernels_of<S, KeepsValue>.gradient_sums = &sums;
  }
};

template <class S, weft::device::reduce_op How>
struct registered_reduction {
  reduce_code code = compile_reduce<value_program<S>, How>("reduce");
  registered_reduction() { reduction_of<S, How> = &code; }
};

template <class Registration>
inline const Registration registered{};

inline void exists(const void*) {}

/// Instantiates the object.
template <class Registration>
void need() {
  exists(&registered<Registration>);
}

/// Formulas that are recorded as nodes of their own when a gradient is differentiated
/// (ops/elementwise/more_formulas.hpp).
template <class T, class... Op>
void need_formulas(weft::detail::formula_list<Op...>*) {
  using skeleton::apply, skeleton::argument;
  using x = argument<0, T>;
  (need<registered_map<std::conditional_t<takes_two<Op, T>, apply<Op, T, x, argument<1, T>>, apply<Op, T, x>>,
                       map_forms::plain>>(),
   ...);
}

/// A part without a gradient gets its own kernel when the whole is differentiated twice (symbol_context::part).
template <int Index, class T>
void need_parts(skeleton::argument<Index, T>*) {}
template <int Index, class T>
void need_parts(skeleton::constant<Index, T>*) {}
template <class Op, class T, class... S>
void need_parts(skeleton::apply<Op, T, S...>*) {
  if constexpr (skeleton::apply<Op, T, S...>::differentiable) {
    if constexpr (requires { typename Op::calls; }) need_formulas<T>(static_cast<typename Op::calls*>(nullptr));
    (need_parts(static_cast<S*>(nullptr)), ...);
  } else {
    need<registered_map<skeleton::apply<Op, T, S...>, map_forms::plain>>();
  }
}

}  // namespace detail

template <>
struct compiled<device_compiler> {
  template <class S>
  static void map() {
    detail::need<detail::registered_map<S>>();
    if constexpr (S::differentiable) {
      detail::need<detail::registered_gradient<S, true>>();
      detail::need_parts(static_cast<S*>(nullptr));
    }
  }

  template <class S, weft::device::reduce_op How>
  static void reduction() {
    detail::need<detail::registered_reduction<S, How>>();
    if constexpr (S::differentiable) {
      if constexpr (How == weft::device::reduce_op::sum) detail::need<detail::registered_gradient<S, false>>();
      if constexpr (How == weft::device::reduce_op::product)
        detail::need<detail::registered_reduction<skeleton::argument<0, typename S::value_type>, How>>();
      detail::need_parts(static_cast<S*>(nullptr));
    }
  }

  template <template <class> class Op, dtype T>
  static void operation() {
    detail::need<kernels<Op<typename type_of<T>::type>>>();
  }

  /// Compiles the primitives of first gradients (ops/primitives.hpp).
  template <class T>
  static void gradient_primitives() {
    namespace f = formula;
    using skeleton::apply, skeleton::argument;
    detail::need<detail::registered_operations<T, T, true>>();
    detail::need<detail::registered_gradient<apply<f::add, T, argument<0, T>, argument<1, T>>, true>>();
    detail::need<detail::registered_gradient<apply<f::multiply, T, argument<0, T>, argument<1, T>>, true>>();
    detail::need<detail::registered_reduction<argument<0, T>, weft::device::reduce_op::sum>>();
    detail::need<detail::registered_gradient<argument<0, T>, false>>();
  }

  /// Compiles the primitives of second gradients.
  template <class T>
  static void primitives() {
    namespace f = formula;
    using skeleton::apply, skeleton::argument;
    using other = std::conditional_t<std::is_same_v<T, float>, double, float>;
    gradient_primitives<T>();
    detail::need<detail::registered_operations<T, T, false>>();
    detail::need<detail::registered_operations<T, bool, false>>();
    detail::need<detail::registered_map<apply<f::logical_not, bool, argument<0, bool>>, map_forms::plain>>();
    detail::need<detail::registered_map<apply<f::select, T, argument<0, bool>, argument<1, T>, argument<2, T>>,
                                        map_forms::plain>>();
    detail::need<detail::registered_map<apply<f::cast<T>, T, argument<0, bool>>, map_forms::plain>>();
    detail::need<detail::registered_map<apply<f::cast<other>, other, argument<0, T>>, map_forms::plain>>();
  }

  /// Compiles the primitives of half and bfloat16.
  template <class T>
  static void storage_primitives() {
    namespace f = formula;
    using skeleton::apply, skeleton::argument;
    detail::need<detail::registered_map<apply<f::add, T, argument<0, T>, argument<1, T>>, map_forms::plain>>();
    detail::need<detail::registered_map<apply<f::cast<float>, float, argument<0, T>>, map_forms::plain>>();
    detail::need<detail::registered_map<apply<f::cast<double>, double, argument<0, T>>, map_forms::plain>>();
    detail::need<detail::registered_map<apply<f::cast<T>, T, argument<0, float>>, map_forms::plain>>();
    detail::need<detail::registered_map<apply<f::cast<T>, T, argument<0, double>>, map_forms::plain>>();
  }
};

}  // namespace weft::gpu
#endif
