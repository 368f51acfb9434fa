// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/plan/gpu_layouts.hpp>
#include <weft/plan/program.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

/// A copy outside the instruction list: before each step from a fed value to memory that a GPU can read, or once from a
/// constant to a GPU.
struct outside_copy {
  std::uint32_t from, to;  ///< buffers
};

/// Copies values to where instructions need them: to another memory, by instructions on a GPU, or to another layout.
/// Each value is copied once to each place, and again after it is written.
class gpu_copies {
 public:
  gpu_copies(program& p, const gpu_layouts& layouts, sequence<outside_copy>& staged, sequence<outside_copy>& uploads)
      : p_(p), layouts_(layouts), staged_(staged), uploads_(uploads), writer_(p.buffers.size(), none) {}

  void insert() {
    sequence<instruction> before;
    before.swap(p_.instructions);
    for (instruction& i : before) {
      if (i.kind != instruction_kind::copy) insert_copies(i);
      append(static_cast<instruction&&>(i));
    }
    for (std::size_t f = 0; f < p_.fetch_buffers.size(); ++f)
      p_.fetch_buffers[f] =
          insert_copy(p_.fetch_buffers[f], p_.home, image_layout::channels_last, p_.index_of(p_.request.fetches[f]));
    merge();
  }

 private:
  /// A copy of a buffer in another space or layout.
  struct replica {
    std::uint32_t of, space;
    image_layout layout;
    std::uint32_t buffer;
  };

  void insert_copies(instruction& i) {
    const image_layout layout = i.kind == instruction_kind::compute
                                    ? p_.nodes[i.leader != none ? i.leader : i.node].layout
                                    : image_layout::channels_last;
    const auto layout_for = [&](std::uint32_t b) {
      return layout == image_layout::channels_first && layouts_.is_image(i, b) ? layout : image_layout::channels_last;
    };
    i.read_for = i.reads;
    for (std::uint32_t& b : i.reads) b = insert_copy(b, i.on, layout_for(b), i.node);
    for (const std::uint32_t b : i.writes) {
      p_.buffers[b].space = program::space_of(i.on);
      p_.buffers[b].layout = layout_for(b);
      for (std::size_t r = replicas_.size(); r-- > 0;)  // copies of the old value are stale
        if (replicas_[r].of == b) replicas_.erase(r);
    }
  }

  void append(instruction i) {
    for (const std::uint32_t b : i.writes) writer_[b] = static_cast<std::uint32_t>(list_.size());
    list_.push_back(static_cast<instruction&&>(i));
  }

  instruction copy(std::uint32_t node, device_number on, std::uint32_t from, std::uint32_t to) const {
    instruction i;
    i.node = node;
    i.kind = instruction_kind::copy;
    i.on = on;
    i.reads = {from};
    i.writes = {to};
    return i;
  }

  std::uint32_t add_buffer(std::uint32_t like, std::uint32_t space) {
    const std::uint32_t made = p_.add_buffer(like);
    p_.buffers[made].space = space;
    writer_.push_back(none);
    return made;
  }

  /// Returns the buffer that contains the value of `b` in a device's memory and in a layout. Inserts a copy if
  /// necessary.
  std::uint32_t insert_copy(std::uint32_t b, device_number to, image_layout layout, std::uint32_t for_node) {
    const std::uint32_t space = program::space_of(to);
    if (p_.buffers[b].space == space && p_.buffers[b].layout == layout) return b;
    for (const replica& r : replicas_)
      if (r.of == b && r.space == space && r.layout == layout) return r.buffer;
    if (p_.buffers[b].layout != layout) {  // converts on the GPU that contains or receives the value
      const std::uint32_t there = p_.buffers[b].space == 0 ? insert_copy(b, to, p_.buffers[b].layout, for_node) : b;
      return insert_copy(in_layout(there, layout, for_node), to, layout, for_node);
    }
    std::uint32_t from = b;
    const std::uint32_t made = add_buffer(b, space);
    replicas_.push_back({b, space, layout, made});
    if (p_.buffers[b].kind == buffer_kind::constant) {
      p_.buffers[made].kind = buffer_kind::resident;
      uploads_.push_back({b, made});
      return made;
    }
    // GPUs read page-locked host memory, at an address that is the same in every run.
    if (p_.buffers[b].space == 0 && p_.buffers[b].kind != buffer_kind::unused) {
      from = add_buffer(b, 0);
      if (p_.buffers[b].kind == buffer_kind::fed) {
        p_.buffers[from].kind = buffer_kind::arena;
        p_.buffers[from].reserved = true;
        staged_.push_back({b, from});
        // No other buffer shares this memory, so the upload need not wait for a kernel.
        p_.buffers[made].kind = buffer_kind::arena;
        p_.buffers[made].reserved = true;
      } else {
        append(copy(for_node, {}, b, from));
      }
    }
    p_.buffers[from].pinned = true;
    if (to.gpu)
      append(copy(for_node, to, from, made));
    else  // copies as soon as the value exists, so that no kernel has to wait before it overwrites the value
      early_.push_back({writer_[from], copy(for_node, {true, p_.buffers[from].space - 1}, from, made)});
    return made;
  }

  /// Returns the buffer that contains the value of `b`, which is on a GPU, in another layout.
  std::uint32_t in_layout(std::uint32_t b, image_layout layout, std::uint32_t for_node) {
    const std::uint32_t space = p_.buffers[b].space;
    for (const replica& r : replicas_)
      if (r.of == b && r.space == space && r.layout == layout) return r.buffer;
    const std::uint32_t made = add_buffer(b, space);
    p_.buffers[made].layout = layout;
    replicas_.push_back({b, space, layout, made});
    append(copy(for_node, {true, space - 1}, b, made));
    return made;
  }

  /// Inserts copies to the host after the instructions that write their operands.
  void merge() {
    sequence<std::uint32_t> next(early_.size(), none), first(list_.size() + 1, none);  // lists by the writer
    for (std::size_t e = early_.size(); e-- > 0;) {
      std::uint32_t& head = first[early_[e].after == none ? list_.size() : early_[e].after];
      next[e] = head;
      head = static_cast<std::uint32_t>(e);
    }
    const auto put = [&](std::size_t list) {
      for (std::uint32_t e = first[list]; e != none; e = next[e])
        p_.instructions.push_back(static_cast<instruction&&>(early_[e].copy));
    };
    put(list_.size());  // copies of values that no instruction writes
    for (std::size_t i = 0; i < list_.size(); ++i) {
      p_.instructions.push_back(static_cast<instruction&&>(list_[i]));
      put(i);
    }
  }

  struct early_copy {
    std::uint32_t after;  // index in list_
    instruction copy;
  };

  program& p_;
  const gpu_layouts& layouts_;
  sequence<outside_copy>&staged_, &uploads_;
  sequence<std::uint32_t> writer_;  // for each buffer; index in list_
  sequence<instruction> list_;
  sequence<early_copy> early_;
  sequence<replica> replicas_;
};

}  // namespace weft::plan

WEFT_COLD_END
