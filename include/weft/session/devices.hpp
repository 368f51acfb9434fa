// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <string>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/cpu/thread_pool.hpp>
#include <weft/device/gpu/device.hpp>
#include <weft/session/session.hpp>
#include <weft/tensor/sequence.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// A device that this process can use.
struct listed_device {
  std::string name;              ///< "/device:GPU:0"
  std::string description;       ///< "NVIDIA H100 80GB HBM3, compute capability 9.0"
  std::size_t memory_bytes = 0;  ///< of a GPU; 0 for CPUs
};

/// Lists the CPU and, if the program contains GPU code, the GPUs (tf.config.list_physical_devices).
inline sequence<listed_device> list_devices() {
  sequence<listed_device> devices;
  devices.push_back({"/device:CPU:0", str_cat({available_cores().size(), " cores, ", name(detected_isa())}), 0});
  const int gpus = gpu::installed_platform ? gpu::installed_platform->count() : 0;
  for (int i = 0; i < gpus; ++i) {
    const gpu::device_info info = gpu::installed_platform->at(i).info();
    devices.push_back({str_cat({"/device:GPU:", i}),
                       str_cat({info.name, ", compute capability ", info.compute_major, ".", info.compute_minor}),
                       info.memory_bytes});
  }
  return devices;
}

/// Lists the devices on which a session's nodes can run; with a target, those of all tasks (tf.Session.list_devices).
inline sequence<listed_device> list_devices(session& s) {
  plan::task_support* const tasks = s.resources().tasks;
  if (!tasks) return list_devices();
  sequence<listed_device> devices;
  for (const std::string& name : tasks->devices()) devices.push_back({name, {}, 0});
  return devices;
}

}  // namespace weft

WEFT_COLD_END
