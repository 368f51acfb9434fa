// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/dispatch.hpp>
#include <weft/ops/symbol.hpp>

/// Operations whose result is their operand's buffer.
WEFT_COLD_BEGIN
namespace weft {

/// Returns the same elements with other extents (tf.reshape). No copy: the result is the operand's buffer.
struct reshape_op {
  static constexpr const char* name = "reshape";
  static constexpr const char* onnx = "reshape()";
  static constexpr bool alias = true;
  static void gradient(gradient_context& g) { g.set_gradient(0, reshape(g.upstream(), g.input(0).extents())); }
};

/// The operand under another name (tf.identity).
struct identity_op : reshape_op {
  static constexpr const char* name = "identity";
  static constexpr const char* onnx = "a";
  static constexpr operation_id id{"weft.identity"};
};

/// The operand, with no gradient (tf.stop_gradient).
struct stop_gradient_op {
  static constexpr const char* name = "stop_gradient";
  static constexpr const char* onnx = "a";
  static constexpr operation_id id{"weft.stop_gradient"};
  static constexpr bool alias = true;
  static void gradient(gradient_context&) {}
};

#if WEFT_DEFINITIONS

WEFT_DECL symbol reshape(symbol x, const shape& extents) {
  if (x.extents() == extents) return x;
  if (x.extents().is_static() && extents.is_static() && x.extents().elements() != extents.elements())
    throw error(error_code::invalid_argument, "reshape",
                {"needs extents of ", x.extents().elements(), " elements, like ", to_string(x.extents()), ", not ",
                 to_string(extents)});
  return record<reshape_op>({x}, {x.type(), extents});
}

WEFT_DECL symbol expand_dims(symbol x, axis_set axes) {
  shape extents;
  const shape& given = x.extents();
  std::size_t next = 0;
  while (extents.rank < max_rank && (next < given.rank || axes.has(extents.rank)))
    extents.push_back(axes.has(extents.rank) ? 1 : given[next++]);
  if (next < given.rank || (axes.bits() >> extents.rank) != 0)
    throw error(error_code::invalid_argument, "expand_dims",
                {"the new axes must be axes of the result, which has at most ", max_rank, " axes, including those of ",
                 to_string(given)});
  return reshape(x, extents);
}

#endif

namespace detail {

inline symbol record_identity(symbol x) { return record_call(operation_of<identity_op>, {x}, x.info()); }

}  // namespace detail
}  // namespace weft

WEFT_COLD_END
