#pragma once

#include <weft/device/cpu/dispatch.hpp>
#include <weft/ops/symbol.hpp>

/// Operations whose result is their operand's buffer.
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

/// The operand itself under another name (tf.identity).
struct identity_op : reshape_op {
  static constexpr const char* name = "identity";
};

/// The operand, through which no gradient passes (tf.stop_gradient).
struct stop_gradient_op {
  static constexpr const char* name = "stop_gradient";
  static constexpr bool alias = true;
  static void gradient(gradient_context&) {}
};

namespace detail {

#if WEFT_DEFINITIONS

WEFT_DECL symbol record_reshape(symbol x, const shape& extents) {
  return x.extents() == extents ? x : record_call(operation_of<reshape_op>, {x}, {x.type(), extents});
}

#endif

inline symbol record_identity(symbol x) { return record_call(operation_of<identity_op>, {x}, x.info()); }

}  // namespace detail
}  // namespace weft

WEFT_COLD_END
