#pragma once

#include <weft/device/cpu/dispatch.hpp>
#include <weft/ops/symbol.hpp>

WEFT_COLD_BEGIN
namespace weft {
namespace detail {

symbol record_reshape(symbol, const shape&);

}  // namespace detail

/// The same elements under other extents (tf.reshape). Costs nothing: the result is the operand's buffer.
struct reshape_op {
  static constexpr const char* name = "reshape";
  static constexpr bool alias = true;
  static void gradient(gradient_context& g) {
    g.set_gradient(0, detail::record_reshape(g.upstream(), g.input(0).extents()));
  }
};
inline constexpr operation reshape_operation = declare<reshape_op>();

/// The operand itself under another name (tf.identity).
struct identity_op : reshape_op {
  static constexpr const char* name = "identity";
};
inline constexpr operation identity_operation = declare<identity_op>();

/// The operand, through which no gradient passes (tf.stop_gradient).
struct stop_gradient_op {
  static constexpr const char* name = "stop_gradient";
  static constexpr bool alias = true;
  static void gradient(gradient_context&) {}
};
inline constexpr operation stop_gradient_operation = declare<stop_gradient_op>();

namespace detail {

#if WEFT_BODIES

WEFT_DECL symbol record_reshape(symbol x, const shape& extents) {
  return x.extents() == extents ? x : record_call(reshape_operation, {x}, {x.type(), extents});
}

#endif

inline symbol record_identity(symbol x) { return record_call(identity_operation, {x}, x.info()); }

}  // namespace detail
}  // namespace weft

WEFT_COLD_END
