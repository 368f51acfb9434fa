// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <string>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/gpu/device.hpp>
#include <weft/plan/gpu_copies.hpp>
#include <weft/plan/gpu_layouts.hpp>
#include <weft/plan/gpu_support.hpp>
#include <weft/session/gpu_executor.hpp>
#include <weft/session/gpu_memory.hpp>
#include <weft/tensor/owned.hpp>
#include <weft/tensor/sequence.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// The GPU passes and memory of a step, and its executor.
class session_gpu_step final : public plan::gpu_step {
 public:
  explicit session_gpu_step(session_gpus& gpus) : gpus_(gpus), executor_(gpus, staged_) {}

  void assign_layouts(plan::program& p, const value_info* infos) override {
    layouts_ = owned(new plan::gpu_layouts(gpus_, p, infos));
    layouts_->assign();
  }

  void insert_copies(plan::program& p) override {
    plan::gpu_copies(p, *layouts_, staged_, uploads_).insert();
    layouts_ = {};
  }

  void list_stages(const plan::program& p) override { executor_.list_stages(p); }

  std::byte* allocate(const plan::program& p, std::size_t arena, std::size_t bytes) override {
    if (device_blocks_.empty()) device_blocks_.resize(p.arenas.size()), host_blocks_.resize(p.arenas.size());
    if (p.arenas[arena].kind == plan::arena_info::kind_type::gpu) {
      device_blocks_[arena] = {};
      device_blocks_[arena] =
          gpu::device_memory(gpus_.at(p.arenas[arena].gpu).memory, bytes, "a step's intermediate values");
      return device_blocks_[arena].data();
    }
    // Host memory of a GPU's lane belongs to that GPU; other host memory can belong to any.
    const std::size_t lane = arena % p.lanes.size();
    const bool own = p.arenas[lane].kind == plan::arena_info::kind_type::gpu;
    const std::size_t by = own ? p.arenas[lane].gpu : executor_.used_gpus()[0];
    host_blocks_[arena] = {};
    host_blocks_[arena] = pinned_block(gpus_.at(by).host_memory, bytes);
    return host_blocks_[arena].data();
  }

  kernel* prepare(const plan::program& p, std::uint32_t n, const prepare_context& c,
                  const product_fusion* fusion) override {
    const gpu::preparation* const how = p.op(n).gpu;
    if (!how || !how->prepare)  // an update's device is that of its variable
      throw error(error_code::unimplemented, p.name(n),
                  {p.op(n).name, " writes a variable on ", to_string(p.nodes[n].on),
                   " and has no kernel for a GPU here: compile the file that records it with a CUDA compiler, or "
                   "place the variable on a CPU"});
    session_gpu& on = gpus_.at(p.nodes[n].on.ordinal);
    prepare_context counted = c;
    counted.memory = &on.memory;
    return fusion ? how->prepare_fused(counted, *fusion, on.device) : how->prepare(counted, on.device);
  }

  kernel* prepare_copy(const plan::program& p, const plan::instruction& in, const value_info* infos) override {
    const plan::step_buffer &from = p.buffers[in.reads[0]], &to = p.buffers[in.writes[0]];
    const value_info& info = infos[in.writes[0]];
    session_gpu& on = gpus_.at(in.on.ordinal);
    if (from.layout != to.layout) {
      const node_def nothing;
      return gpu::copy_into_layout[size_of(info.type)](
          {nothing, &infos[in.reads[0]], &info, in.reads.data(), in.writes.data(), &on.memory, to.layout}, on.device);
    }
    const char* what = from.space == to.space ? "snapshot of a variable"
                       : from.space == 0      ? "copy from the host"
                       : to.space == 0        ? "copy to the host"
                                              : "copy from another GPU";
    return new copy_kernel(in.reads[0], in.writes[0], info.bytes(), what);
  }

  void bind(const plan::program& p, plan::binding& b, const value_info* infos) override {
    upload_constants(p, infos);
    for (std::size_t c = 0; c < uploads_.size(); ++c) b.addresses[uploads_[c].to] = constants_[c].data();
    reserve_workspace(p, b);
    b.on_gpus = executor_.bind(p, b, infos);
  }

  void rebind(plan::binding& b) override {
    for (auto& s : static_cast<stages_of_binding&>(*b.on_gpus).stages) s.recorded = {};
  }

  void run(const plan::program& p, plan::binding& b, thread_pool& threads, step_times* times) override {
    executor_.run(p, b, threads, times);
  }
  void describe(const plan::program& p, const plan::binding& b, std::string& text) const override {
    executor_.describe(p, b, text);
  }

 private:
  class copy_kernel final : public kernel {
   public:
    copy_kernel(std::uint32_t from, std::uint32_t to, std::size_t bytes, const char* what)
        : from_(from), to_(to), bytes_(bytes), what_(what) {}
    void run(const kernel_context& f) override { f.queue->copy(f.buffers[to_], f.buffers[from_], bytes_); }
    std::string describe() const override { return str_cat({what_, ", ", bytes_, " bytes"}); }

   private:
    std::uint32_t from_, to_;
    std::size_t bytes_;
    const char* what_;
  };

  /// Uploads constants once, because they are the same in every binding.
  void upload_constants(const plan::program& p, const value_info* infos) {
    for (std::size_t c = constants_.size(); c < uploads_.size(); ++c) {
      const std::size_t bytes = infos[uploads_[c].from].bytes();
      session_gpu& g = gpus_.at(p.buffers[uploads_[c].to].space - 1);
      constants_.push_back(gpu::device_memory(g.memory, bytes, "a constant of a step"));
      const std::uint32_t from = uploads_[c].from;
      for (std::uint32_t n = 0; n < p.running; ++n)
        if (p.nodes[n].first_buffer == from)
          g.queue().copy(constants_.back().data(), p.node_of(n).init.data.data(), bytes);
      g.queue().synchronize();
    }
  }

  /// Allocates one workspace for all library calls of the step before the first call needs it. If the largest request
  /// does not fit, a call may still find an algorithm that needs less, and otherwise reports the error when it runs.
  void reserve_workspace(const plan::program& p, const plan::binding& b) {
    for (const std::uint32_t g : executor_.used_gpus()) {
      std::size_t most = 0;
      for (std::uint32_t i = 0; i < p.instructions.size(); ++i)
        if (p.instructions[i].on == plan::device_number{true, g} && b.kernels[i]->workspace_bytes() > most)
          most = b.kernels[i]->workspace_bytes();
      if (most == 0) continue;
      try {
        gpus_.at(g).queue().workspace(most);
      } catch (const error& e) {
        if (e.code() != error_code::resource_exhausted) throw;
      }
    }
  }

  session_gpus& gpus_;
  sequence<plan::outside_copy> staged_, uploads_;
  owned<plan::gpu_layouts> layouts_;  // while the program is being compiled
  sequence<gpu::device_memory> device_blocks_, constants_;
  sequence<pinned_block> host_blocks_;
  gpu_executor executor_;
};

/// A session's GPU support: variables on GPUs, and steps that use GPUs.
class gpu_session final : public plan::gpu_support {
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
  plan::gpu_step* new_step() override { return new session_gpu_step(gpus_); }

 private:
  session_gpus gpus_;
  sequence<gpu::device_memory> variables_;
};

inline std::string reason_of_platform() {
  return gpu::installed_platform ? gpu::installed_platform->reason()
                                 : std::string("no platform is installed: include <weft/cuda.hpp>");
}

inline const bool sessions_know_gpus = [] {
  plan::new_gpu_support = [](const gpu_options& how) -> plan::gpu_support* { return new gpu_session(how); };
  plan::no_gpu_reason = reason_of_platform;
  return true;
}();

}  // namespace weft::detail

WEFT_COLD_END
