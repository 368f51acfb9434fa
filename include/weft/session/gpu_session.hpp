#pragma once

#include <cstddef>
#include <string>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/gpu/device.hpp>
#include <weft/session/gpu_memory.hpp>
#include <weft/session/gpu_plan.hpp>
#include <weft/session/gpu_support.hpp>
#include <weft/tensor/sequence.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// A session's side of the GPUs: variables in their memory, and plans in which they take part.
class gpu_session final : public gpu_support {
 public:
  explicit gpu_session(const gpu_options& how) : gpus_(how) {}

  std::size_t count() const override { return gpus_.count(); }
  std::byte* allocate(std::size_t gpu, std::size_t bytes, const std::string& owner) override {
    variables_.push_back(gpu::device_memory(gpus_.at(gpu).memory, bytes, owner));
    return variables_.back().data();
  }
  void copy(std::size_t gpu, void* to, const void* from, std::size_t bytes) override {
    gpu::queue& q = gpus_.at(gpu).queue();
    q.copy(to, from, bytes);
    q.synchronize();
  }
  plan* new_plan(const graph& g, const schedule& order, const step_request& request, const extent_bindings& extents,
                 sequence<variable_state>& variables, const session_devices& devices) override {
    return new gpu_plan(gpus_, g, order, request, extents, variables, devices);
  }

 private:
  session_gpus gpus_;
  sequence<gpu::device_memory> variables_;
};

namespace detail {

inline std::string reason_of_platform() {
  return gpu::installed_platform ? gpu::installed_platform->reason()
                                 : std::string("no platform is installed: include <weft/cuda.hpp>");
}

inline const bool sessions_know_gpus = [] {
  new_gpu_support = [](const gpu_options& how) -> gpu_support* { return new gpu_session(how); };
  no_gpu_reason = reason_of_platform;
  return true;
}();

}  // namespace detail
}  // namespace weft

WEFT_COLD_END
