// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/cpu/loop.hpp>
#include <weft/ops/dependence.hpp>
#include <weft/ops/fused_loops.hpp>
#include <weft/ops/operation.hpp>
#include <weft/ops/reduce/exclusive_product.hpp>
#include <weft/ops/skeleton_text.hpp>

namespace weft {

namespace gpu {

struct map_code;
struct reduce_code;

/// The GPU code of a skeleton. Empty unless a source file that a GPU compiler (or its emulation) compiles fills it in
/// (ops/gpu/compile.hpp), so that a skeleton is the same in every file of a program.
struct fused_kernels {
  const map_code* map = nullptr;
  const map_code* gradient = nullptr;          ///< for arguments that are not broadcast
  const reduce_code* gradient_sums = nullptr;  ///< for broadcast arguments
};

template <class S, bool KeepsValue = true>
inline constinit WEFT_API fused_kernels kernels_of{};
template <class S, weft::device::reduce_op How>
inline constinit WEFT_API const reduce_code* reduction_of = nullptr;

}  // namespace gpu

/// The compiled loops of one skeleton, for each instruction set.
struct fused {
  skeleton::signature signature{};
  dtype type{};
  /// Combine the value and the gradients of broadcast arguments; null if there is no gradient.
  const device::arithmetic* value_arithmetic = nullptr;
  const device::arithmetic* arithmetic[device::max_operands]{};
  device::block_function map[3]{};
  /// out[i] is the gradient with respect to argument i. Reads the arguments, the upstream gradient after them, and
  /// finally the skeleton's value if it is kept. Null if there is no gradient, or none was compiled.
  device::block_function gradient[3]{};
  /// The inputs that `gradient` reads, one bit for each.
  std::uint32_t (*gradient_reads)() = nullptr;
  /// Record the value (before a reduction) and the gradients with respect to the arguments as symbols.
  symbol (*expand)(const symbol* arguments, const std::uint64_t* literals) = nullptr;
  void (*expand_gradient)(const symbol* arguments, const std::uint64_t* literals, symbol upstream,
                          symbol* gradients) = nullptr;
  /// The primitives that the gradient needs when it is written in symbols, for float and for double if these occur.
  /// Functions, because kernels refer to each other, and nvcc does not take the address of a constant during its
  /// initialization.
  const primitive_table& (*primitives[2])(){};
  const skeleton::token* text = nullptr;
  const gpu::fused_kernels* gpu = nullptr;
};

/// A skeleton whose values are reduced as they are computed: out[0] accumulates all n of them.
struct fused_reduction {
  const fused* body;
  const device::arithmetic* arithmetic;
  device::block_function reduce[3];
  // For a product with a gradient: the product of plain values, and the operation for the product of all other
  // elements.
  const fused_reduction* plain = nullptr;
  const operation* others = nullptr;
  const gpu::reduce_code* const* gpu = nullptr;
};

namespace detail {

/// Evaluates a formula on dependences: a value is the set of inputs from which it was computed.
struct dependence_context {
  template <class T>
  using value = dependence;
  template <int Index, class T>
  WEFT_HOST_DEVICE constexpr dependence argument() const {
    return dependence(std::uint32_t{1} << Index, {});
  }
  template <int Index, class T>
  WEFT_HOST_DEVICE constexpr dependence constant() const {
    return dependence();
  }
};

template <class S>
const fused* part_alone();
symbol record_part(const fused&, const symbol* arguments, const std::uint64_t* literals);

WEFT_QUIET_BEGIN

/// Evaluates a formula outside of kernels: a value is a symbol.
struct symbol_context {
  template <class T>
  using value = symbol;
  const symbol* arguments;
  const std::uint64_t* constants;
  template <int Index, class T>
  WEFT_HOST_DEVICE symbol argument() const {
    return arguments[Index];
  }
  template <int Index, class T>
  WEFT_HOST_DEVICE symbol constant() const {
    return symbol(static_cast<double>(literal_value<T>(constants[Index])));
  }
  template <class S>
  WEFT_HOST_DEVICE symbol part() const {
    return record_part(*part_alone<S>(), arguments, constants);
  }
};

WEFT_QUIET_END

// Clang warns about loops that have no vector form for the baseline instruction set.
#if defined(__clang__)
  #pragma clang diagnostic push
  #pragma clang diagnostic ignored "-Wpass-failed"
#endif

template <std::size_t Arguments>
struct gradient_sink {
  void* out[Arguments + 1];
  std::size_t i;
  template <int Index, class T>
  WEFT_HOST_DEVICE void take(T g) {
    static_cast<T*>(out[Index])[i] = g;
  }
};

/// With `KeepsValue`, reads the skeleton's value instead of computing it again.
template <class S, bool KeepsValue>
void gradient_loop(const void* const* in, void* const* out, std::size_t n, const std::uint64_t* literals) {
  using T = typename S::value_type;
  using context = element_context_of<S>;
  constexpr std::size_t arguments = signature_of<S>.arguments;
  context c(in, literals);
  gradient_sink<arguments> sink;
  for (std::size_t k = 0; k < arguments; ++k) sink.out[k] = out[k];
  const T* upstream = static_cast<const T*>(in[arguments]);
  const T* value = KeepsValue ? static_cast<const T*>(in[arguments + 1]) : nullptr;
  WEFT_VECTORIZE
  for (std::size_t i = 0; i < n; ++i) {
    c.i = sink.i = i;
    auto tape = S::forward(c);
    if constexpr (KeepsValue) tape.y = value[i];
    S::template backward<context>(tape, upstream[i], sink);
  }
}

struct dependence_sink {
  std::uint32_t mask = 0;
  primitive_set by{};
  template <int Index, class T>
  WEFT_HOST_DEVICE constexpr void take(dependence g) {
    mask |= g.mask;
    by = by | g.by;
  }
};

/// Evaluates the gradient of a skeleton on dependences.
template <class S, bool KeepsValue>
constexpr dependence_sink gradient_dependence() {
  constexpr auto arguments = static_cast<unsigned>(signature_of<S>.arguments);
  const dependence_context c;
  dependence_sink sink;
  auto tape = S::forward(c);
  sink.by = tape.y.by;
  if constexpr (KeepsValue) tape.y = dependence(std::uint32_t{1} << (arguments + 1), {});
  S::template backward<dependence_context>(tape, dependence(std::uint32_t{1} << arguments, {}), sink);
  return sink;
}
template <class S, bool KeepsValue>
constexpr std::uint32_t gradient_reads() {
  return gradient_dependence<S, KeepsValue>().mask;
}

/// Defined after the kernels of primitives, whose gradients are also written in primitives (ops/primitives.hpp).
template <class S>
constexpr void name_primitives(fused&);

#if defined(__clang__)
  #pragma clang diagnostic pop
#endif

WEFT_COLD_BEGIN

template <class S>
symbol expand_value(const symbol* arguments, const std::uint64_t* literals) {
  return S::eval(symbol_context{arguments, literals});
}

struct symbol_sink {
  symbol* gradients;
  template <int Index, class T>
  WEFT_HOST_DEVICE void take(symbol g) {
    gradients[Index] = g;
  }
};

template <class S>
void expand_gradient(const symbol* arguments, const std::uint64_t* literals, symbol upstream, symbol* gradients) {
  symbol_sink to{gradients};
  const symbol_context c{arguments, literals};
  S::template backward<symbol_context>(S::forward(c), upstream, to);
}

WEFT_COLD_END

template <class S>
inline constexpr auto tokens_of = [] {
  skeleton::token_list<skeleton::length_of<S>> to{};
  list(static_cast<S*>(nullptr), to.tokens);
  return to;
}();

}  // namespace detail

namespace detail {

/// Runs rarely, so only the baseline is compiled.
template <class S>
const fused* part_alone() {
  static constexpr fused part = [] {
    fused f = {.signature = signature_of<S>,
               .type = dtype_of<typename S::value_type>,
               .text = tokens_of<S>.tokens,
               .gpu = &gpu::kernels_of<S>};
    for (auto& version : f.map) version = map_loop<S>;
    return f;
  }();
  return &part;
}

template <int Index, class T>
constexpr void name_arithmetic(skeleton::argument<Index, T>*, fused& f) {
  if constexpr (is_differentiable<T>) f.arithmetic[Index] = &device::arithmetic_of<T>;
}
template <int Index, class T>
constexpr void name_arithmetic(skeleton::constant<Index, T>*, fused&) {}
template <class Op, class T, class... S>
constexpr void name_arithmetic(skeleton::apply<Op, T, S...>*, fused& f) {
  (name_arithmetic(static_cast<S*>(nullptr), f), ...);
}

}  // namespace detail

/// The loops of a skeleton that is only evaluated.
template <class S>
inline constexpr fused evaluated = [] {
  return fused{.signature = detail::signature_of<S>,
               .type = dtype_of<typename S::value_type>,
               .map = WEFT_LOOP_VERSIONS(detail::map_loop<S>),
               .text = detail::tokens_of<S>.tokens,
               .gpu = &gpu::kernels_of<S>};
}();

/// The loops of a skeleton in a graph, with its gradient if it has one.
template <class S, bool KeepsValue = true>
inline constexpr fused differentiated = [] {
  if constexpr (S::differentiable) {
    fused f = {.signature = detail::signature_of<S>,
               .type = dtype_of<typename S::value_type>,
               .map = WEFT_LOOP_VERSIONS(detail::map_loop<S>),
               .gradient = WEFT_LOOP_VERSIONS(detail::gradient_loop<S, KeepsValue>),
               .gradient_reads = detail::gradient_reads<S, KeepsValue>,
               .expand_gradient = detail::expand_gradient<S>,
               .text = detail::tokens_of<S>.tokens,
               .gpu = &gpu::kernels_of<S, KeepsValue>};
    if constexpr (!KeepsValue) f.expand = detail::expand_value<S>;
    f.value_arithmetic = &device::arithmetic_of<typename S::value_type>;
    detail::name_arithmetic(static_cast<S*>(nullptr), f);
    detail::name_primitives<S>(f);
    return f;
  } else {
    return evaluated<S>;
  }
}();

namespace detail {
template <class S, device::reduce_op How, bool Gradient>
constexpr const fused_reduction* plain_reduction();
template <class S, device::reduce_op How, bool Gradient>
constexpr const operation* product_of_others() {
  if constexpr (How == device::reduce_op::product && Gradient)
    return &operation_of<exclusive_product_op<typename S::value_type>>;
  else
    return nullptr;
}
}  // namespace detail

template <class S, device::reduce_op How, bool Gradient>
inline constexpr fused_reduction reduced = {
    Gradient ? &differentiated<S, false> : &evaluated<S>, &device::arithmetic_of<typename S::value_type>,
    WEFT_LOOP_VERSIONS(detail::reduce_loop<S, How>),      detail::plain_reduction<S, How, Gradient>(),
    detail::product_of_others<S, How, Gradient>(),        &gpu::reduction_of<S, How>};

namespace detail {
template <class S, device::reduce_op How, bool Gradient>
constexpr const fused_reduction* plain_reduction() {
  if constexpr (How == device::reduce_op::product && Gradient)
    return &reduced<skeleton::argument<0, typename S::value_type>, How, true>;
  else
    return nullptr;
}
}  // namespace detail

}  // namespace weft

#include <weft/ops/gpu/compile.hpp>
