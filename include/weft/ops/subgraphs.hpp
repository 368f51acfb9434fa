// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/device.hpp>
#include <weft/ops/operation.hpp>
#include <weft/tensor/owned.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// A subgraph of a node, prepared for known extents on the node's device.
class prepared_subgraph {
 public:
  virtual ~prepared_subgraph() = default;
  /// Runs the subgraph on the parameters at these addresses and writes its results to the given addresses, which must
  /// not overlap with the parameters. `memory`: bytes() of scratch memory for the duration of the run.
  virtual void run(const kernel_context&, std::byte* memory, std::byte* const* parameters,
                   std::byte* const* results) = 0;
  virtual std::size_t bytes() const = 0;
  /// Returns the bytes that the subgraph holds between runs.
  virtual std::size_t memory_bytes() const = 0;
  virtual void describe(std::string& text, std::size_t spaces) const = 0;
};

/// All subgraphs of a node, whose kernel runs one at a time.
struct prepared_subgraphs {
  sequence<owned<prepared_subgraph>> all;
  sequence<std::string> names;    ///< of the subgraphs, with what they captured
  std::uint32_t memory_slot = 0;  ///< slot of scratch memory: the kernel's own, followed by the running subgraph's
  std::size_t own_bytes = 0;      ///< scratch bytes of the kernel itself
};

/// The kernel of a node with subgraphs.
class kernel_with_subgraphs : public kernel {
 public:
  explicit kernel_with_subgraphs(const prepare_context& p)
      : subgraphs_(static_cast<prepared_subgraphs&&>(*p.subgraphs)),
        inputs_(p.input_slots, p.input_slots + p.node.inputs.size()),
        outputs_(p.output_slots, p.output_slots + p.node.outputs.size()) {}

  std::size_t memory_bytes() const override {
    std::size_t held = 0;
    for (const auto& b : subgraphs_.all) held += b->memory_bytes();
    return held;
  }
  bool recordable() const override { return false; }
  void describe_subgraphs(std::string& text, std::size_t spaces) const override {
    for (std::size_t b = 0; b < subgraphs_.all.size(); ++b) {
      append(text, {std::string(spaces, ' '), subgraphs_.names[b], ":\n"});
      subgraphs_.all[b]->describe(text, spaces + 2);
    }
  }

  /// Copies within the device.
  static void copy(const kernel_context& f, std::byte* to, const std::byte* from, std::size_t bytes) {
    if (f.queue)
      f.queue->copy(to, from, bytes);
    else
      __builtin_memcpy(to, from, bytes);
  }

 protected:
  std::byte* memory(const kernel_context& f) const { return f.buffers[subgraphs_.memory_slot]; }
  void run_subgraph(const kernel_context& f, std::size_t which, std::byte* const* parameters,
                    std::byte* const* results) {
    subgraphs_.all[which]->run(f, memory(f) + subgraphs_.own_bytes, parameters, results);
  }

  /// Reads a value that controls the host's decisions. Waits for the GPU.
  template <class T>
  static T read(const kernel_context& f, const std::byte* from) {
    T x{};
    copy(f, reinterpret_cast<std::byte*>(&x), from, sizeof x);
    if (f.queue) f.queue->synchronize();
    return x;
  }

  prepared_subgraphs subgraphs_;
  sequence<std::uint32_t> inputs_, outputs_;  // slots
};

}  // namespace weft

WEFT_COLD_END
