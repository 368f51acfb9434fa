// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/device/gpu/map.hpp>
#include <weft/device/gpu/reduce.hpp>
#include <weft/ops/fused_operations.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/tensor/owned.hpp>

/// GPU kernels of elementwise expressions, reductions and the gradients of both.
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

inline std::string describe_fused(const char* what, const fused& f) {
  return str_cat({what, " ", skeleton::print(f.text), " ", name(f.type)});
}

[[noreturn]] inline void not_compiled(const char* operation, const fused& f) {
  throw error(error_code::unimplemented, operation,
              {"\"", skeleton::print(f.text),
               "\" is not compiled for GPUs: compile the file that writes it with nvcc, or place it on a CPU"});
}

/// A call whose extents are permuted into memory order, in which kernels traverse images.
class in_memory_order {
 public:
  explicit in_memory_order(const prepare_context& p) : p_(p) {
    if (p.layout == image_layout::channels_last) return;
    for (std::size_t k = 0; k < p.node.inputs.size(); ++k) in_[k] = turned(p.inputs[k]);
    for (std::size_t k = 0; k < p.node.outputs.size(); ++k) out_[k] = turned(p.outputs[k]);
    p_.inputs = in_;
    p_.outputs = out_;
  }
  operator const prepare_context&() const { return p_; }

  /// Operands that are not images broadcast to images in both layouts only if they have one value, or one for each
  /// channel.
  static bool is_possible(const prepare_context& p) {
    for (std::size_t k = 0; k < p.node.inputs.size(); ++k)
      if (!turns(p.inputs[k].extents)) return false;
    for (std::size_t k = 0; k < p.node.outputs.size(); ++k)
      if (!turns(p.outputs[k].extents)) return false;
    return true;
  }

 private:
  static bool turns(const shape& s) {
    return s.rank <= 1 || s.rank == 4 || s.elements() == static_cast<std::size_t>(s[s.rank - 1]);
  }
  static value_info turned(const value_info& v) {
    const shape& s = v.extents;
    if (s.rank == 0) return v;
    const std::int64_t channels = s[s.rank - 1];
    return {v.type, s.rank == 4 ? extents_in(image_layout::channels_first, s) : shape(1, channels, 1, 1)};
  }

  prepare_context p_;
  value_info in_[weft::device::max_operands + 2], out_[weft::device::max_operands];
};

inline layout_offer map_with_channels_first(const prepare_context& p, device&) {
  return {p.outputs[0].extents.rank == 4 && in_memory_order::is_possible(p), 0};
}
inline layout_offer gradient_with_channels_first(const prepare_context& p, device&) {
  const auto& f = *static_cast<const fused*>(p.node.detail);
  const bool of_reduction = attributes_of<weft::detail::elementwise_gradient_op>(p.node).reduced >= 0;
  return {!of_reduction && p.inputs[f.signature.arguments + 1].extents.rank == 4 && in_memory_order::is_possible(p), 0};
}

/// Returns true if groups of `lanes` elements lie within one row, and start at multiples of `lanes` in every operand.
inline bool groups_fit(const iteration& over, std::size_t inputs, unsigned lanes) {
  if (over.space.rank <= 1) return true;
  const std::size_t last = over.space.rank - 1;
  if (over.space[last] % lanes) return false;
  for (std::size_t k = 0; k < inputs; ++k)
    for (std::size_t axis = 0; over.stride(k, last) != 0 && axis < last; ++axis)
      if (over.stride(k, axis) % lanes) return false;
  return true;
}

constexpr unsigned max_blocks = 16384;

inline unsigned blocks_for(std::size_t groups, unsigned unroll) {
  const std::size_t blocks = (groups + 256 * unroll - 1) / (256 * unroll);
  return static_cast<unsigned>(blocks < max_blocks ? blocks : max_blocks);
}

/// Returns the number of blocks of 256 threads that a GPU runs concurrently.
inline std::size_t blocks_at_a_time(const device& d) { return 8 * static_cast<std::size_t>(d.info().multiprocessors); }

/// The operands of one map: slots and types of its inputs and outputs, with `no_slot` for operands that are not read or
/// written.
inline constexpr std::uint32_t no_slot = ~std::uint32_t{0};

struct map_operands {
  const std::uint32_t* in;
  const dtype* in_types;
  std::size_t inputs;
  const std::uint32_t* out;
  const dtype* out_types;
  std::size_t outputs;
};

/// Adds a launch of a map. `over` is the iteration space with the strides of the inputs, axes merged. `at_a_time`: the
/// number of concurrent blocks. If a map has no more work than these, each thread takes one group, or one element if
/// groups would leave multiprocessors idle.
inline void add_map(launch_kernel& k, const map_code& code, const iteration& over, const map_operands& o, double factor,
                    const std::uint64_t* constants, std::size_t at_a_time = 0) {
  const std::size_t n = over.space.elements();
  if (n == 0) return;
  const auto blocks = [&](std::size_t groups, unsigned unroll) {
    return blocks_for(groups, groups <= 256 * at_a_time ? 1 : unroll);
  };
  auto& l = k.add();
  l.hold(code.layout->bytes);
  code.layout->fill(l.arguments.data(), over, factor, constants);
  l.code = code.plain;
  l.blocks = blocks(n, code.plain_unroll);
  const std::size_t groups = (n + code.lanes - 1) / code.lanes;
  const bool few = code.plain.argument_bytes != 0 && groups <= 256 * (at_a_time / 8);
  const bool vectors = code.lanes > 1 && !few && groups_fit(over, o.inputs, code.lanes);
  if (vectors) {
    l.aligned_code = code.vector;
    l.aligned_blocks = blocks(groups, code.vector_unroll);
  }
  for (std::size_t i = 0; i < o.inputs; ++i) {
    if (o.in[i] == no_slot) continue;
    const bool runs = over.space.rank > 0 && over.stride(i, over.space.rank - 1) != 0;
    l.point(code.layout->in + 8 * i, o.in[i], vectors && runs ? code.lanes * size_of(o.in_types[i]) : 1);
  }
  for (std::size_t i = 0; i < o.outputs; ++i)
    if (o.out[i] != no_slot) l.point(code.layout->out + 8 * i, o.out[i], code.lanes * size_of(o.out_types[i]));
}

/// Adds a launch of a reduction with its workspace. Returns null if there is nothing to do.
inline launch_kernel::launch* add_reduction(launch_kernel& k, device& d, allocator* memory, const char* what,
                                            const reduce_code& code, const iteration& over, std::uint32_t kept_axes,
                                            std::size_t results, const map_operands& o, std::uint32_t stored,
                                            std::uint32_t combined, double factor, double result_factor,
                                            const std::uint64_t* constants) {
  reduction_shape layout;
  iteration walked = over;
  if (over.space.elements() == 0) {  // the results are the identity
    layout.results = static_cast<std::uint32_t>(results);
    layout.results_log = 8;
    walked.space = {};
  } else {
    // Groups of stored elements would be written element by element, with distant addresses in adjacent threads.
    const bool grouped = !stored && groups_fit(over, o.inputs, code.group);
    const bool wide = groups_fit(over, o.inputs, code.wide);
    layout = plan_reduction(over, kept_axes, grouped ? code.group : 1, wide ? code.wide : 1);
  }
  if (layout.results == 0) return nullptr;
  auto& l = k.add();
  l.hold(code.layout->bytes);
  code.layout->fill(l.arguments.data(), walked, kept_axes, layout, stored, combined, factor, result_factor, constants);
  l.code = code.body;
  l.blocks = layout.blocks();
  l.blocks_y = layout.splits;
  for (std::size_t i = 0; i < o.inputs; ++i)
    if (o.in[i] != no_slot) l.point(code.layout->in + 8 * i, o.in[i]);
  for (std::size_t i = 0; i < o.outputs; ++i)
    if (o.out[i] != no_slot) l.point(code.layout->out + 8 * i, o.out[i]);
  if (layout.splits == 1 || combined == 0) return &l;
  const std::size_t tickets = (layout.blocks() * std::size_t{4} + 255) / 256 * 256;
  device_memory workspace = cleared_memory(
      d, memory ? *memory : d, tickets + 8 * static_cast<std::size_t>(code.outputs) * layout.splits * layout.results,
      str_cat({"workspace of ", what}));
  l.put(code.layout->tickets, workspace.data());
  l.put(code.layout->partial, workspace.data() + tickets);
  k.keep(static_cast<device_memory&&>(workspace));
  return &l;
}

inline kernel* prepare_elementwise(const prepare_context& call, device& d) {
  const in_memory_order ordered(call);
  const prepare_context& p = ordered;
  const auto& f = *static_cast<const fused*>(p.node.detail);
  if (!f.gpu || !f.gpu->map) not_compiled(p.node.op->name, f);
  iteration over;
  over.space = p.outputs[0].extents;
  check_size(p.node.op->name, over.space);
  dtype types[weft::device::max_operands];
  const std::size_t n = p.node.inputs.size();
  for (std::size_t i = 0; i < n; ++i) {
    over.add(weft::device::broadcast_operand(p.inputs[i].type, p.inputs[i].extents, over.space));
    types[i] = p.inputs[i].type;
  }
  over.merge_axes();
  owned<launch_kernel> k(new launch_kernel(describe_fused("map", f)));
  add_map(*k, *f.gpu->map, over, {p.input_slots, types, n, p.output_slots, &p.outputs[0].type, 1}, f.gpu->map->factor,
          p.node.literals.data(), blocks_at_a_time(d));
  return k.release();
}

/// Returns the axes along which an operand has a nonzero stride.
inline std::uint32_t walked_axes(const iteration& over, std::size_t operand) {
  std::uint32_t mask = 0;
  for (std::size_t axis = 0; axis < over.space.rank; ++axis)
    if (over.stride(operand, axis) != 0) mask |= std::uint32_t{1} << axis;
  return mask;
}

inline weft::device::operand whole_space(const shape& space) {
  return weft::device::broadcast_operand(dtype::float32, space, space);
}

// attributes: reduced axes, combine, mean
inline kernel* prepare_reduction(const prepare_context& p, device& d) {
  const auto& r = *static_cast<const fused_reduction*>(p.node.detail);
  if (!r.gpu || !*r.gpu) not_compiled(p.node.op->name, *r.body);
  const std::size_t n = p.node.inputs.size();
  iteration over;
  over.space = weft::detail::broadcast_space(p.inputs, n);
  check_size(p.node.op->name, over.space);
  for (std::size_t i = 0; i < n; ++i)
    over.add(weft::device::broadcast_operand(p.inputs[i].type, p.inputs[i].extents, over.space));
  over.add(whole_space(over.space));
  bool kept[max_rank];
  const auto a = attributes_of<weft::detail::reduction_op>(p.node);
  weft::detail::kept_axes(a.reduced, over.space.rank, kept);
  over.add(weft::device::reduced_operand(p.outputs[0].type, over.space, kept));
  const weft::device::reduce_op how = a.how;
  const bool mean = a.mean;
  const std::size_t elements = over.space.elements(), results = p.outputs[0].extents.elements();
  over.merge_axes();
  const char* const name = weft::detail::reduction_name(how, mean);
  owned<launch_kernel> k(new launch_kernel(describe_fused(name, *r.body)));
  add_reduction(*k, d, p.memory, name, **r.gpu, over, walked_axes(over, n + 1), results,
                {p.input_slots, nullptr, n, p.output_slots, nullptr, 1}, 0, 1, 1,
                mean ? static_cast<double>(results) / static_cast<double>(elements) : 1, p.node.literals.data());
  return k.release();
}

// inputs: arguments, upstream and, unless of a reduction, the value
// attributes: reduced axes or -1, mean, then the argument of each output
//
// Without sums, the gradient is a map or, if groups of elements do not lie within one row, a reduction that sums
// nothing. Otherwise one launch writes all gradients and sums those of broadcast arguments. If arguments are broadcast
// along different axes, there is one launch for each set of axes. The last launch also writes the gradients that are
// not summed, because they may overwrite inputs of the others.
inline kernel* prepare_elementwise_gradient(const prepare_context& call, device& d) {
  const in_memory_order ordered(call);
  const prepare_context& p = ordered;
  const auto& f = *static_cast<const fused*>(p.node.detail);
  if (!f.gpu || !f.gpu->gradient) not_compiled(p.node.op->name, f);
  using op = weft::detail::elementwise_gradient_op;
  const auto a = attributes_of<op>(p.node);
  const bool of_reduction = a.reduced >= 0, mean = a.mean;
  const std::size_t inputs = p.node.inputs.size(), arguments = f.signature.arguments, outputs = p.node.outputs.size();
  const value_info& upstream = p.inputs[arguments];
  const std::uint32_t read = f.gradient_reads();
  iteration over;
  over.space = of_reduction ? weft::detail::broadcast_space(p.inputs, arguments) : p.inputs[arguments + 1].extents;
  const shape space = over.space;
  check_size(p.node.op->name, space);

  std::uint32_t in[weft::device::max_operands + 2], out[weft::device::max_operands];
  dtype in_types[weft::device::max_operands + 2], out_types[weft::device::max_operands];
  for (std::size_t k = 0; k < inputs; ++k) {
    in[k] = (read >> k) & 1 ? p.input_slots[k] : no_slot;
    in_types[k] = p.inputs[k].type;
    if (in[k] == no_slot) {
      over.add({in_types[k], {}});
    } else if (k == arguments && of_reduction) {
      bool kept[max_rank];
      weft::detail::kept_axes(a.reduced, space.rank, kept);
      over.add(weft::device::reduced_operand(upstream.type, space, kept));
    } else {
      over.add(weft::device::broadcast_operand(in_types[k], p.inputs[k].extents, space));
    }
  }
  over.add(whole_space(space));
  for (std::size_t k = 0; k < arguments; ++k) out[k] = no_slot, out_types[k] = p.inputs[k].type;
  std::uint32_t stored = 0, summed = 0;
  for (std::size_t o = 0; o < outputs; ++o) {
    const std::size_t k = op::argument_of(p.node, o);
    over.add(weft::device::broadcast_operand(p.outputs[o].type, p.outputs[o].extents, space));
    out[k] = p.output_slots[o];
    (p.outputs[o].extents.elements() == space.elements() ? stored : summed) |= std::uint32_t{1} << k;
  }
  over.merge_axes();
  const double factor =
      mean ? static_cast<double>(upstream.extents.elements()) / static_cast<double>(space.elements()) : 1;
  const map_operands operands{in, in_types, inputs, out, out_types, arguments};

  constexpr const char* what = "sums of gradients";
  owned<launch_kernel> k(new launch_kernel(describe_fused("gradient of", f)));
  if (!summed) {
    const bool grouped = groups_fit(over, inputs, f.gpu->gradient->lanes);
    if (grouped) add_map(*k, *f.gpu->gradient, over, operands, factor, p.node.literals.data(), blocks_at_a_time(d));
    const std::uint32_t rows = over.space.rank ? ~(std::uint32_t{1} << (over.space.rank - 1)) : 0;
    if (auto* l = add_reduction(*k, d, p.memory, what, *f.gpu->gradient_sums, over, rows, 0, operands, stored, 0,
                                factor, 1, p.node.literals.data()))
      l->spare = grouped;
    return k.release();
  }
  std::uint32_t left = summed;
  while (left) {
    std::uint32_t together = 0, axes = 0;
    std::size_t results = 0;
    for (std::size_t o = 0; o < outputs; ++o) {
      const std::uint32_t bit = std::uint32_t{1} << op::argument_of(p.node, o);
      if (!(left & bit)) continue;
      const std::uint32_t walked = walked_axes(over, inputs + 1 + o);
      if (!together) axes = walked, results = p.outputs[o].extents.elements();
      if (walked == axes) together |= bit;
    }
    left &= ~together;
    add_reduction(*k, d, p.memory, what, *f.gpu->gradient_sums, over, axes, results, operands, left ? 0 : stored,
                  together, factor, 1, p.node.literals.data());
  }
  return k.release();
}

/// Return true if some file of this program compiled the expression for GPUs.
inline bool map_exists(const node_def& c) {
  const auto* kernels = static_cast<const fused*>(c.detail)->gpu;
  return kernels && kernels->map;
}
inline bool gradient_exists(const node_def& c) {
  const auto* kernels = static_cast<const fused*>(c.detail)->gpu;
  return kernels && kernels->gradient;
}
inline bool reduction_exists(const node_def& c) {
  const auto* code = static_cast<const fused_reduction*>(c.detail)->gpu;
  return code && *code;
}

inline const bool fused_is_installed =
    install<weft::detail::elementwise_op>(
        {.exists = map_exists, .prepare = prepare_elementwise, .channels_first = map_with_channels_first}) &&
    install<weft::detail::elementwise_gradient_op>({.exists = gradient_exists,
                                                    .prepare = prepare_elementwise_gradient,
                                                    .channels_first = gradient_with_channels_first}) &&
    install<weft::detail::reduction_op>({reduction_exists, prepare_reduction});

}  // namespace detail
}  // namespace weft::gpu
WEFT_COLD_END
