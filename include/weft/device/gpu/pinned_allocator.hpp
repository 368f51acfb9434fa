// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <weft/device/gpu/device.hpp>
#include <weft/error.hpp>
#include <weft/tensor/host_memory.hpp>

namespace weft::gpu {

/// Page-locked host memory, for tensors that are fed to many steps: a GPU reads them directly, without an intermediate
/// copy (tf.data's and PyTorch's pinned memory).
///
///     tensor<float, dims<256, 784>> images(shape{256, 784}, gpu::pinned_allocator{});
///
/// Page-locked memory is slow to allocate and free, and scarce, so use it for a few large, long-lived tensors. They may
/// be changed as soon as the step to which they were fed has returned. Throws unavailable if there is no GPU, and
/// resource_exhausted if memory is exhausted.
struct pinned_allocator {
  static void* allocate(std::size_t bytes) {
    if (!installed_platform || installed_platform->count() == 0)
      throw error(error_code::unavailable, "pinned_allocator",
                  {"page-locked memory needs a GPU: ",
                   installed_platform ? installed_platform->reason() : std::string("include <weft/cuda.hpp>")});
    device& by = installed_platform->at(0);
    std::byte* const memory = by.allocate_host(bytes + alignment);
    if (!memory)
      throw error(error_code::resource_exhausted, "pinned_allocator",
                  {"cannot allocate ", bytes, " bytes of page-locked memory"});
    device* const from = &by;
    __builtin_memcpy(memory, &from, sizeof from);  // stored in front of the returned memory
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
