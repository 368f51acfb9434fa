// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/softmax.hpp>
#include <weft/ops/gpu/batch_normalization.hpp>
#include <weft/ops/reduce/normalization.hpp>

/// GPU kernels of row normalizations.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class Body>
std::size_t share_rows(Body& body, const weft::detail::normalized_rows& of) {
  body.rows = static_cast<std::uint32_t>(of.rows);
  body.columns = static_cast<std::uint32_t>(of.columns);
  body.lanes_log = softmax_lanes_log(of.columns);
  const std::size_t rows = std::size_t{256} >> body.lanes_log;
  return (of.rows + rows - 1) / rows;
}

template <class T, bool Centred>
kernel* prepare_layer_normalization(const prepare_context& p, device&) {
  using body_type = normalize_rows_body<T, Centred>;
  static const function code = function_of<body_type>("layer_normalization");
  check_size(p.node.op->name, p.inputs[0].extents);
  const weft::detail::normalized_rows of(p, Centred ? 3 : 2);
  owned<launch_kernel> k(new launch_kernel(str_cat({p.node.op->name, " ", of.rows, "x", of.columns})));
  if (of.rows == 0) return k.release();
  body_type body{};
  body.epsilon = static_cast<T>(attributes_of<layer_normalization_op<T, Centred>>(p.node).epsilon);
  const std::size_t blocks = share_rows(body, of);
  auto& l = add_body(*k, body, code, blocks);
  l.point_all(p.input_slots, body, body, &body_type::x, &body_type::scale);
  l.point_all(p.output_slots, body, body, &body_type::y, &body_type::reciprocals);
  if constexpr (Centred) {
    l.point(offset_in(body, body.offset), p.input_slots[2]);
    l.point(offset_in(body, body.means), p.output_slots[2]);
  }
  return k.release();
}

template <class T, bool Centred>
kernel* prepare_layer_normalization_gradient(const prepare_context& p, device& d) {
  using body_type = gradients_of_rows_body<T, Centred>;
  using sums = sums_of_splits<T, terms_of_row_gradients<T, Centred>>;
  static const function code = function_of<body_type>("layer_normalization_gradient");
  static const function add_up = function_of<sums>("sums of gradients");
  const weft::detail::normalized_rows of(p, 2);
  column_splits splits(p.node.op->name, p, d, of.rows, of.columns, sizeof(T));
  owned<launch_kernel> k(new launch_kernel(str_cat({p.node.op->name, " ", of.rows, "x", of.columns})));
  if (of.columns == 0) return k.release();
  const auto point = [&]<class Part>(auto& l, const auto& body, const Part& to) {
    l.point_all(p.input_slots, body, to, &Part::x, nullptr, &Part::upstream, &Part::reciprocals);
    if constexpr (Centred) l.point(offset_in(body, to.means), p.input_slots[4]);
  };
  // Computes the sums first, because the gradient of x may overwrite x or the upstream gradient.
  if (of.rows > 0) {
    sums body{};
    point(splits.add(*k, body, add_up), body, body.terms);
  }
  const merge_splits<T> merge{};
  auto& m = add_merge(*k, splits, merge);
  m.point(offset_in(merge, merge.second), p.output_slots[1]);
  if constexpr (Centred) m.point(offset_in(merge, merge.first), p.output_slots[2]);
  if (of.rows > 0) {
    body_type body{};
    const std::size_t blocks = share_rows(body, of);
    auto& l = add_body(*k, body, code, blocks);
    point(l, body, body);
    l.point(offset_in(body, body.scale), p.input_slots[1]);
    l.point(offset_in(body, body.dx), p.output_slots[0]);
  }
  k->keep(static_cast<device_memory&&>(splits.memory));
  return k.release();
}

}  // namespace detail

template <class T>
struct kernels<layer_normalizations<T>>
    : installed<layer_normalization_op<T, true>, detail::prepare_layer_normalization<T, true>>,
      installed<layer_normalization_op<T, false>, detail::prepare_layer_normalization<T, false>>,
      installed<layer_normalization_gradient_op<T, true>, detail::prepare_layer_normalization_gradient<T, true>>,
      installed<layer_normalization_gradient_op<T, false>, detail::prepare_layer_normalization_gradient<T, false>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
