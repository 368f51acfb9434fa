#pragma once

#include <weft/device/gpu/indexing.hpp>
#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/device/gpu/softmax.hpp>
#include <weft/ops/softmax.hpp>

/// Softmax and cross-entropies, prepared for a GPU.
#if WEFT_COMPILES_FOR_GPU
namespace weft::gpu {
namespace detail {

template <softmax_form Form, class T>
kernel* prepare_softmax(const prepare_context& p, device&) {
  using body_type = softmax_body<Form, T>;
  static const function code = function_of<body_type>("softmax");
  const shape& s = p.inputs[0].extents;
  check_size(p.c.op->name, s);
  body_type body{};
  body.columns = static_cast<std::uint32_t>(s[s.rank - 1]);
  body.rows = body.columns ? static_cast<std::uint32_t>(s.elements()) / body.columns : 0;
  body.lanes_log = softmax_lanes_log(body.columns);
  body.wide_labels = p.c.inputs.size() > 1 && p.inputs[1].type == dtype::int64;
  auto* k = new launch_kernel(std::string(p.c.op->name) + " " + std::to_string(body.rows) + "x" +
                              std::to_string(body.columns));
  if (body.rows == 0) return k;
  const std::uint32_t rows = 256u >> body.lanes_log;
  auto& l = add_body(*k, body, code, (body.rows + rows - 1) / rows);
  constexpr bool loses = Form >= softmax_form::cross_entropy;
  l.point(offset_in(body, body.x), p.input_slots[0]);
  if (loses) l.point(offset_in(body, body.labels), p.input_slots[1]);
  l.point(offset_in(body, body.y), p.output_slots[0]);
  if (loses) l.point(offset_in(body, body.second), p.output_slots[1]);
  return k;
}

template <class T>
bool install_softmax() {
  using enum weft::detail::softmax_kind;
  namespace cpu = weft::detail;
  constexpr preparation sparse{.prepare = prepare_softmax<softmax_form::sparse_cross_entropy, T>};
  return install<cpu::prepare_softmax<softmax, T>>({.prepare = prepare_softmax<softmax_form::softmax, T>}) &&
         install<cpu::prepare_softmax<log_softmax, T>>({.prepare = prepare_softmax<softmax_form::log_softmax, T>}) &&
         install<cpu::prepare_softmax<cross_entropy, T>>(
             {.prepare = prepare_softmax<softmax_form::cross_entropy, T>}) &&
         install<cpu::prepare_softmax<sparse_cross_entropy, T, std::int32_t>>(sparse) &&
         install<cpu::prepare_softmax<sparse_cross_entropy, T, std::int64_t>>(sparse);
}

inline const bool softmax_is_installed = install_softmax<float>() && install_softmax<double>();

}  // namespace detail
}  // namespace weft::gpu
#endif
