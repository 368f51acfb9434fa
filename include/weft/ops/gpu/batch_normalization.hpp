// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/device/gpu/normalization.hpp>
#include <weft/ops/gpu/fused.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/reduce/batch_normalization.hpp>

/// GPU kernels of batch normalization.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

/// A matrix whose columns are summed in splits, and the memory for the partial sums.
struct column_splits {
  std::uint32_t rows, columns;
  std::uint32_t blocks;
  row_shares shares;
  device_memory memory;

  column_splits(const char* operation, const prepare_context& p, device& d, std::size_t all_rows,
                std::size_t of_columns, std::size_t element)
      : rows(static_cast<std::uint32_t>(all_rows)),
        columns(static_cast<std::uint32_t>(of_columns)),
        blocks(static_cast<std::uint32_t>((of_columns + 31) / 32)),
        shares(blocks, all_rows, 64) {
    check_size(operation, p.inputs[0].extents);
    if (rows == 0) shares.count = 0;
    if (rows && columns)
      memory = device_memory(p.memory ? *p.memory : d, 2 * element * columns * shares.count,
                             str_cat({"workspace of ", operation}));
  }

  template <class S, class Terms>
  launch_kernel::launch& add(launch_kernel& k, sums_of_splits<S, Terms>& body, const function& code) {
    body.rows = rows;
    body.columns = columns;
    body.split = shares.elements;
    body.sums = reinterpret_cast<S*>(memory.data());
    auto& l = add_body(k, body, code, blocks);
    l.blocks_y = shares.count;
    return l;
  }
};

inline unsigned blocks_of_threads(std::size_t n) { return static_cast<unsigned>((n + 255) / 256); }

template <class T>
kernel* prepare_batch_normalization(const prepare_context& p, device& d) {
  using S = accumulator<T>;
  using moments = sums_of_splits<S, terms_of_moments<T, S>>;
  using merge = merge_moments_of_splits<T, S>;
  using normalize = normalize_batch<T, S>;
  static const function add_up = function_of<moments>("moments"), combine = function_of<merge>("merge moments");
  static const function apply = function_of<normalize>("batch_normalization");
  weft::detail::check_channels(p, 1, 3);
  const auto a = attributes_of<batch_normalization_op<T>>(p.node);
  const auto pieces = weft::detail::pieces_of(p.inputs[0].extents);
  column_splits splits("batch_normalization", p, d, pieces.rows, pieces.channels, sizeof(S));
  owned<launch_kernel> k(new launch_kernel(str_cat({"batch_normalization ", pieces.rows, "x", pieces.channels})));
  if (splits.columns == 0) return k.release();
  if (splits.rows > 0) {
    moments body{};
    body.terms.columns = splits.columns;
    splits.add(*k, body, add_up).point(offset_in(body, body.terms.x), p.input_slots[0]);
  }
  {
    merge body{};
    body.sums = reinterpret_cast<const S*>(splits.memory.data());
    body.epsilon = a.epsilon;
    body.rows = splits.rows;
    body.columns = splits.columns;
    body.split = splits.shares.elements;
    body.splits = splits.shares.count;
    auto& l = add_body(*k, body, combine, blocks_of_threads(splits.columns));
    l.point_all(p.input_slots, body, body, &merge::x, &merge::scale, &merge::offset);
    l.point_all(p.output_slots + 1, body, body, &merge::mean, &merge::variance, &merge::reciprocal, &merge::shift);
  }
  if (splits.rows > 0) {
    normalize body{};
    body.elements = splits.rows * splits.columns;
    body.columns = divisor(splits.columns);
    body.relu = a.relu;
    auto& l = add_body(*k, body, apply, blocks_for(body.elements, 1));
    l.point_all(p.input_slots, body, body, &normalize::x, &normalize::scale);
    if (p.node.inputs.size() == 4) l.point(offset_in(body, body.residual), p.input_slots[3]);
    l.point_all(p.output_slots, body, body, &normalize::y, &normalize::mean, nullptr, &normalize::reciprocal,
                &normalize::shift);
  }
  k->keep(static_cast<device_memory&&>(splits.memory));
  return k.release();
}

/// Adds a launch that sums the partial sums of each column.
template <class S>
launch_kernel::launch& add_merge(launch_kernel& k, const column_splits& splits, const merge_splits<S>& of) {
  static const function code = function_of<merge_splits<S>>("merge sums");
  merge_splits<S> body = of;
  body.sums = reinterpret_cast<const S*>(splits.memory.data());
  body.columns = splits.columns;
  body.splits = splits.shares.count;
  return add_body(k, body, code, blocks_of_threads(splits.columns));
}

template <class T, int Mask>
kernel* prepare_masked_gradient(const prepare_context& p, device& d) {
  using S = accumulator<T>;
  using sums = sums_of_splits<S, terms_of_batch_gradients<T, S, Mask>>;
  using write = gradients_of_batch<T, S, Mask>;
  static const function add_up = function_of<sums>("sums of gradients");
  static const function apply = function_of<write>("batch_normalization_gradient");
  weft::detail::check_channels(p, 1, 5);
  const auto pieces = weft::detail::pieces_of(p.inputs[0].extents);
  column_splits splits("batch_normalization_gradient", p, d, pieces.rows, pieces.channels, sizeof(S));
  owned<launch_kernel> k(
      new launch_kernel(str_cat({"batch_normalization_gradient ", pieces.rows, "x", pieces.channels})));
  if (splits.columns == 0) return k.release();
  const auto point = [&]<class Part>(auto& l, const auto& body, const Part& of) {
    l.point_all(p.input_slots, body, of, &Part::x, &Part::scale, &Part::mean, &Part::reciprocal, &Part::shift);
  };
  if (splits.rows > 0) {
    sums body{};
    auto& l = splits.add(*k, body, add_up);
    point(l, body, body.terms);
    l.point(offset_in(body, body.terms.upstream), p.input_slots[5]);
    if constexpr (Mask == 2) {
      l.point(offset_in(body, body.terms.y), p.input_slots[6]);
      l.point(offset_in(body, body.terms.behind), p.output_slots[3]);
    }
  }
  {
    const merge_splits<S> body{};
    auto& l = add_merge(*k, splits, body);
    if (splits.rows > 0)
      l.point(offset_in(body, body.reciprocal), p.input_slots[3]);  // otherwise it is NaN, and all
                                                                    // sums are 0
    l.point(offset_in(body, body.first), p.output_slots[2]);
    l.point(offset_in(body, body.second), p.output_slots[1]);
  }
  if (splits.rows > 0) {
    write body{};
    body.elements = splits.rows * splits.columns;
    body.rows = static_cast<S>(splits.rows);
    body.columns = divisor(splits.columns);
    auto& l = add_body(*k, body, apply, blocks_for(body.elements, 1));
    point(l, body, body.of);
    l.point(offset_in(body, body.of.upstream), Mask == 2 ? p.output_slots[3] : p.input_slots[5]);
    l.point_all(p.output_slots, body, body, &write::dx, &write::of_scale, &write::of_offset);
  }
  k->keep(static_cast<device_memory&&>(splits.memory));
  return k.release();
}

template <class T>
kernel* prepare_batch_normalization_gradient(const prepare_context& p, device& d) {
  const bool relu = attributes_of<batch_normalization_gradient_op<T>>(p.node).relu;
  if (!relu) return prepare_masked_gradient<T, 0>(p, d);
  return p.node.inputs.size() == 7 ? prepare_masked_gradient<T, 2>(p, d) : prepare_masked_gradient<T, 1>(p, d);
}

}  // namespace detail

template <class T>
struct kernels<batch_normalization_op<T>>
    : installed<batch_normalization_op<T>, detail::prepare_batch_normalization<T>>,
      installed<batch_normalization_gradient_op<T>, detail::prepare_batch_normalization_gradient<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
