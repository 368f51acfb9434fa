#pragma once

#include <cstddef>

#include <weft/device/gpu/device.hpp>
#include <weft/error.hpp>
#include <weft/tensor/host_memory.hpp>

namespace weft::gpu {

/// Page-locked memory of the host, for tensors that steps are fed with again and again: a GPU reads them where they
/// lie, and no copy is made for it first (tf.data's and PyTorch's pinned memory).
///
///     tensor<float, dims<256, 784>> images(shape{256, 784}, gpu::pinned_allocator{});
///
/// The system takes long to give it and to take it back, and has little of it: it is for a few large tensors that stay.
/// They may be changed as soon as the step that was fed with them has returned. Throws unavailable where there is no
/// GPU, resource_exhausted where there is no room.
struct pinned_allocator {
  static void* allocate(std::size_t bytes) {
    if (!installed_platform || installed_platform->count() == 0)
      throw error(error_code::unavailable, "pinned_allocator",
                  {"there is no GPU to lock memory for: ",
                   installed_platform ? installed_platform->reason() : std::string("include <weft/cuda.hpp>")});
    device& by = installed_platform->at(0);
    std::byte* const memory = by.allocate_host(bytes + alignment);
    if (!memory)
      throw error(error_code::resource_exhausted, "pinned_allocator",
                  {"there are no ", bytes, " bytes of page-locked memory"});
    device* const from = &by;
    __builtin_memcpy(memory, &from, sizeof from);  // in front of what is given out
    return memory + alignment;
  }
  static void deallocate(void* p) noexcept {
    std::byte* const memory = static_cast<std::byte*>(p) - alignment;
    device* from;
    __builtin_memcpy(&from, memory, sizeof from);
    from->deallocate_host(memory);
  }
};

}  // namespace weft::gpu
