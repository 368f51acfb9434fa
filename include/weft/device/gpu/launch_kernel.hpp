// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <type_traits>

#include <weft/device/gpu/device.hpp>
#include <weft/error.hpp>
#include <weft/tensor/sequence.hpp>

namespace weft::gpu {

/// Returns zeroed memory for a kernel's own use. Throws resource_exhausted.
inline device_memory cleared_memory(device& d, allocator& from, std::size_t bytes, const std::string& owner) {
  device_memory memory(from, bytes, owner);
  d.clear(memory.data(), bytes);
  return memory;
}

/// Returns the offset of a member in a body.
template <class Body, class Member>
std::size_t offset_in(const Body& body, const Member& member) {
  return static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&member) -
                                  reinterpret_cast<const std::byte*>(&body));
}

/// A GPU kernel: a sequence of launches with stored arguments. A run only looks up their pointers in the kernel
/// context.
class launch_kernel final : public kernel {
 public:
  explicit launch_kernel(std::string description) : description_(static_cast<std::string&&>(description)) {}

  /// One launch. A map has a second form for buffers aligned to `alignment`. If it has none, the launch after it
  /// replaces it for unaligned buffers.
  struct launch {
    function code, aligned_code;
    unsigned blocks = 1, aligned_blocks = 1, blocks_y = 1, threads = 256;
    bool spare = false;  ///< runs only in place of the previous launch
    sequence<std::uint64_t> arguments;
    struct pointer {
      std::uint32_t offset, slot, alignment;
    };
    sequence<pointer> pointers;

    std::byte* bytes() { return reinterpret_cast<std::byte*>(arguments.data()); }
    void hold(std::size_t bytes) { arguments.resize((bytes + 7) / 8); }
    void point(std::size_t offset, std::uint32_t slot, std::size_t alignment = 1) {
      pointers.push_back({static_cast<std::uint32_t>(offset), slot, static_cast<std::uint32_t>(alignment)});
    }
    /// Points these members of a part of the body to the buffers of `slots`, in this order; nullptr skips one.
    template <class Body, class Part, class... Members>
    void point_all(const std::uint32_t* slots, const Body& body, const Part& part, Members... members) {
      const auto one = [&](auto member, std::uint32_t slot) {
        if constexpr (!std::is_null_pointer_v<decltype(member)>) point(offset_in(body, part.*member), slot);
      };
      (one(members, *slots++), ...);
    }
    void put(std::size_t offset, const void* address) { __builtin_memcpy(bytes() + offset, &address, sizeof address); }
  };

  launch& add() {
    launches_.resize(launches_.size() + 1);
    return launches_.back();
  }
  void keep(device_memory memory) { memory_.push_back(static_cast<device_memory&&>(memory)); }

  void run(const kernel_context& f) override {
    bool done = true;
    for (auto& l : launches_) {
      if (l.spare && done) continue;
      bool aligned = l.aligned_code.argument_bytes != 0;
      for (const auto& p : l.pointers) {
        const std::byte* const at = f.buffers[p.slot];
        l.put(p.offset, at);
        aligned = aligned && (reinterpret_cast<std::uintptr_t>(at) & (p.alignment - 1)) == 0;
      }
      done = aligned || l.code.argument_bytes != 0;
      if (!done) continue;
      void* arguments[] = {l.arguments.data()};
      f.queue->launch(aligned ? l.aligned_code : l.code,
                      {aligned ? l.aligned_blocks : l.blocks, l.threads, l.blocks_y, 0}, arguments);
    }
    if (!done) throw error(error_code::internal, description_, "a buffer of the step is not aligned to 16 bytes");
  }
  std::string describe() const override { return description_; }

 private:
  std::string description_;
  sequence<launch> launches_;
  sequence<device_memory> memory_;
};

/// Adds one launch of a body. Its arguments are fixed, except for the pointers.
template <class Body>
launch_kernel::launch& add_body(launch_kernel& k, const Body& body, const function& code, std::size_t blocks) {
  auto& l = k.add();
  l.code = code;
  l.blocks = static_cast<unsigned>(blocks);
  l.threads = Body::threads;
  l.hold(sizeof(Body));
  __builtin_memcpy(l.arguments.data(), static_cast<const void*>(&body), sizeof(Body));
  return l;
}

}  // namespace weft::gpu
