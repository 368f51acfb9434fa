// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/indexing.hpp>
#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/device/gpu/softmax.hpp>
#include <weft/ops/reduce/softmax.hpp>

/// GPU kernels of softmax and cross-entropies.
#if WEFT_COMPILES_FOR_GPU
namespace weft::gpu {
namespace detail {

template <softmax_kind Kind, class T>
kernel* prepare_softmax(const prepare_context& p, device&) {
  using body_type = softmax_body<Kind, T>;
  static const function code = function_of<body_type>("softmax");
  const shape& s = p.inputs[0].extents;
  check_size(p.node.op->name, s);
  body_type body{};
  const axis_rows r(s, s.rank - 1);
  body.columns = static_cast<std::uint32_t>(r.extent);
  body.rows = static_cast<std::uint32_t>(r.outer);
  body.lanes_log = softmax_lanes_log(body.columns);
  body.wide_labels = p.node.inputs.size() > 1 && p.inputs[1].type == dtype::int64;
  auto* k = new launch_kernel(std::string(p.node.op->name) + " " + std::to_string(body.rows) + "x" +
                              std::to_string(body.columns));
  if (body.rows == 0) return k;
  const std::uint32_t rows = 256u >> body.lanes_log;
  auto& l = add_body(*k, body, code, (body.rows + rows - 1) / rows);
  constexpr bool loses = Kind >= softmax_kind::cross_entropy;
  l.point(offset_in(body, body.x), p.input_slots[0]);
  if (loses) l.point(offset_in(body, body.labels), p.input_slots[1]);
  l.point(offset_in(body, body.y), p.output_slots[0]);
  if (loses) l.point(offset_in(body, body.second), p.output_slots[1]);
  return k;
}

}  // namespace detail

template <class T>
struct kernels<softmax_op<T>> : installed<softmax_op<T>, detail::prepare_softmax<softmax_kind::softmax, T>>,
                                installed<log_softmax_op<T>, detail::prepare_softmax<softmax_kind::log_softmax, T>> {};
// Includes the operations in second gradients.
template <class T>
struct kernels<cross_entropy_op<T>>
    : kernels<softmax_op<T>>,
      installed<cross_entropy_op<T>, detail::prepare_softmax<softmax_kind::cross_entropy, T>> {};
template <class T>
struct kernels<sparse_cross_entropies<T>> : kernels<softmax_op<T>>,
                                            installed<sparse_cross_entropy_op<T, std::int32_t>,
                                                      detail::prepare_softmax<softmax_kind::sparse_cross_entropy, T>>,
                                            installed<sparse_cross_entropy_op<T, std::int64_t>,
                                                      detail::prepare_softmax<softmax_kind::sparse_cross_entropy, T>> {
};

}  // namespace weft::gpu
#endif
