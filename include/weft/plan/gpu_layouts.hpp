// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/device.hpp>
#include <weft/plan/layout_choice.hpp>
#include <weft/plan/program.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

/// A session's GPUs, which are opened on first use.
class gpu_devices {
 public:
  virtual gpu::device& device(std::size_t ordinal) = 0;
  virtual gpu::allocator& memory(std::size_t ordinal) = 0;

 protected:
  ~gpu_devices() = default;
};

/// Chooses the image layout of each node on a GPU: channels last, unless channels first saves kernels more time than
/// the copies into that layout take. Images on the host, in variables and in fetched values are always channels last.
class gpu_layouts {
 public:
  gpu_layouts(gpu_devices& gpus, program& p, const value_info* infos)
      : gpus_(gpus), p_(p), infos_(infos), offers_(p.nodes.size()) {}

  void assign() {
    double rate = 1;
    for (std::uint32_t n = 0; n < p_.running; ++n) {
      if (!p_.nodes[n].on.gpu || p_.nodes[n].on.task != p_.self || !can_have_layout(n)) continue;
      offers_[n] = offer_of(n);
      rate = gpus_.device(p_.nodes[n].on.ordinal).info().bytes_per_second;
    }
    sequence<std::uint32_t> kernel(p_.nodes.size(), none);
    layout_choice choice(p_.buffers.size());
    double most = 0;  // largest gain of a kernel
    for (std::uint32_t n = 0; n < p_.running; ++n) {
      const std::uint32_t leader = p_.nodes[n].leader, other = leader != none ? leader : p_.nodes[n].follower;
      if (!offers_[n].possible || (other != none && !offers_[other].possible)) continue;
      most = offers_[n].gain > most ? offers_[n].gain : most;
      kernel[n] = leader != none ? kernel[leader] : choice.add_kernel(offers_[n].gain);
      for_each_image(n, [&](std::uint32_t b) { choice.uses(kernel[n], b); });
    }
    if (most <= 0) return;
    sequence<bool> written(p_.buffers.size(), false);
    for (std::uint32_t n = 0; n < p_.running; ++n)
      for (std::uint32_t o = 0; kernel[n] != none && o < p_.def(n).outputs.size(); ++o)
        written[p_.nodes[n].first_buffer + o] = true;
    const auto used_elsewhere = [&](std::uint32_t b) {
      constexpr double launch = 3e-6, never = 1e9;
      const bool possible = gpu::copy_into_layout[size_of(infos_[b].type)] != nullptr;
      choice.used_elsewhere(b, possible ? launch + 2 * static_cast<double>(infos_[b].bytes()) / rate : never);
    };
    for (std::uint32_t n = 0; n < p_.running; ++n) {
      if (!p_.computes(n)) continue;
      for_each_image(n, [&](std::uint32_t b) {
        if (kernel[n] == none || !written[b]) used_elsewhere(b);
      });
    }
    for (const value& f : p_.request.fetches) used_elsewhere(p_.read_buffer(none, f));
    const sequence<bool> first = choice.channels_first();
    for (std::uint32_t n = 0; n < p_.running; ++n)
      if (kernel[n] != none && first[kernel[n]]) p_.nodes[n].layout = image_layout::channels_first;
  }

  /// Returns true if a buffer contains images of the nodes that an instruction runs.
  bool is_image(const instruction& i, std::uint32_t buffer) const {
    bool found = false;
    const auto look = [&](std::uint32_t b) { found = found || b == buffer; };
    for_each_image(i.node, look);
    if (i.leader != none) for_each_image(i.leader, look);
    return found;
  }

 private:
  /// Calls `f` with the buffers of images that a node reads or writes and that differ between the two layouts.
  template <class F>
  void for_each_image(std::uint32_t n, F&& f) const {
    const gpu::layout_offer& offer = offers_[n];
    const node_def& c = p_.def(n);
    for (std::size_t k = 0; k < c.inputs.size(); ++k) {
      if (!program::reads(c, k) || (offer.other_operands >> k) & 1) continue;
      const std::uint32_t b = p_.read_buffer(n, c.inputs[k]);
      if (has_layout(declared(b))) f(b);
    }
    for (std::uint32_t o = 0; o < c.outputs.size() && !offer.other_result; ++o)
      if (const std::uint32_t b = p_.buffers[p_.nodes[n].first_buffer + o].root; has_layout(declared(b))) f(b);
  }

  /// A step keeps its layouts for all extents, so the decision must not depend on the current ones.
  const shape& declared(std::uint32_t b) const { return p_.buffers[b].declared.extents; }

  /// Returns false if a value's extents differ from those of the buffer that it shares, or if a value that is broadcast
  /// to images has unknown extents and may not always have one element per channel.
  bool can_have_layout(std::uint32_t n) const {
    const gpu::preparation* const how = p_.op(n).gpu;
    if (!p_.computes(n) || p_.op(n).writes || !how || !how->channels_first) return false;
    for (const value& v : p_.def(n).inputs)
      if (!(declared(p_.buffer_of(v)) == declared(p_.root_of(v))) || may_be_more(p_.buffer_of(v))) return false;
    for (std::uint32_t o = 0; o < p_.def(n).outputs.size(); ++o)
      if (may_be_more(p_.nodes[n].first_buffer + o)) return false;
    return true;
  }

  bool may_be_more(std::uint32_t b) const {
    const shape& s = declared(b);
    for (std::size_t i = 0; 4 > s.rank && i + 1 < s.rank; ++i)
      if (s[i] < 0) return true;
    return false;
  }

  gpu::layout_offer offer_of(std::uint32_t n) const {
    const node_def& c = p_.def(n);
    sequence<value_info> in;
    sequence<std::uint32_t> in_slots, out_slots;
    for (const value& v : c.inputs) in.push_back(infos_[p_.buffer_of(v)]), in_slots.push_back(p_.read_buffer(n, v));
    for (std::uint32_t o = 0; o < c.outputs.size(); ++o) out_slots.push_back(p_.nodes[n].first_buffer + o);
    const std::uint32_t on = p_.nodes[n].on.ordinal;
    const prepare_context context{
        c, in.data(), infos_ + p_.nodes[n].first_buffer, in_slots.data(), out_slots.data(), &gpus_.memory(on)};
    gpu::layout_offer offer = c.op->gpu->channels_first(context, gpus_.device(on));
    for (std::size_t k = 0; k < in_slots.size(); ++k)  // a buffer cannot be both an image and another operand
      for (std::size_t l = 0; l < k; ++l)
        if (in_slots[k] == in_slots[l] && ((offer.other_operands >> k) ^ (offer.other_operands >> l)) & 1) return {};
    return offer;
  }

  gpu_devices& gpus_;
  program& p_;
  const value_info* infos_;
  sequence<gpu::layout_offer> offers_;  // for each node
};

}  // namespace weft::plan

WEFT_COLD_END
