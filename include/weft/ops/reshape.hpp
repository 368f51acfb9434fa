#pragma once

#include <weft/device/cpu/dispatch.hpp>
#include <weft/ops/symbol.hpp>

WEFT_COLD_BEGIN
namespace weft {
namespace detail {

symbol record_alias(const operation&, symbol, const shape&);
symbol record_reshape(symbol, const shape&);
void reshape_gradient(gradient_context&);

inline void no_gradient(gradient_context&) {}

}  // namespace detail

/// The same elements under other extents (tf.reshape). Costs nothing: the result is the operand's buffer.
inline constexpr operation reshape_operation = {.name = "reshape", .gradient = detail::reshape_gradient, .alias = true};

/// The operand itself under another name (tf.identity).
inline constexpr operation identity_operation = {
    .name = "identity", .gradient = detail::reshape_gradient, .alias = true};

/// The operand, through which no gradient passes (tf.stop_gradient).
inline constexpr operation stop_gradient_operation = {
    .name = "stop_gradient", .gradient = detail::no_gradient, .alias = true};

namespace detail {

#if WEFT_BODIES

WEFT_DECL symbol record_alias(const operation& op, symbol x, const shape& extents) {
  node_def c;
  c.op = &op;
  c.inputs = {x.id()};
  c.outputs = {{x.type(), extents}};
  return x.builder()->record(static_cast<node_def&&>(c));
}

WEFT_DECL symbol record_reshape(symbol x, const shape& extents) {
  return x.extents() == extents ? x : record_alias(reshape_operation, x, extents);
}

WEFT_DECL void reshape_gradient(gradient_context& g) {
  g.set_gradient(0, record_reshape(g.upstream(), g.input(0).extents()));
}

#endif

inline symbol record_identity(symbol x) { return record_alias(identity_operation, x, x.extents()); }

}  // namespace detail
}  // namespace weft

WEFT_COLD_END
