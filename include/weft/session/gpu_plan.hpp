#pragma once

#include <cstdint>
#include <string>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/gpu/device.hpp>
#include <weft/session/gpu_memory.hpp>
#include <weft/session/layout_choice.hpp>
#include <weft/session/plan.hpp>
#include <weft/tensor/sequence.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// A plan in which GPUs take part. Each has a memory of its own: values that are needed on another side are copied
/// there, by kernels of the GPU's lane. Kernels that follow one another on a GPU are a stage, recorded once and
/// launched as a whole from its second run on. One thread goes through the stages in order, and waits for a GPU where
/// another device needs its results.
///
/// Within a stage copies run beside kernels, in queues of their own: an upload until a kernel reads what it brings, a
/// download from when the value is there. Queues wait for each other where one writes what the other reads or writes,
/// be it the same value or another one in the same place.
///
/// Images lie channels last, unless kernels of a GPU gain more by the other layout than copies into it cost. On the
/// host, in variables and in what is fetched they always do.
class gpu_plan final : public plan {
 public:
  gpu_plan(session_gpus& gpus, const graph& g, const schedule& order, const step_request& request,
           const extent_bindings& extents, sequence<variable_state>& variables, const session_devices& devices)
      : plan(g, order, request, extents, variables, devices), session_gpus_(gpus) {}

  bool run_by_itself(thread_pool& threads) override {
    if (gpus_ == 0) return false;
    stage_feeds(threads);
    try {
      for (stage& next : stages_) run_stage(next, {buffers_.data(), &threads});
      for (const std::uint32_t g : used_gpus_) gpu(g).queue().synchronize();
    } catch (...) {
      // The next run writes what GPUs may still be reading, and no queue has waited for the others.
      for (const std::uint32_t g : used_gpus_)
        for (const gpu_work w : gpu_works) {
          try {
            gpu(g).queue(w).synchronize();
          } catch (const error&) {
          }
        }
      throw;
    }
    return true;
  }

  std::size_t arena_bytes() const override {
    std::size_t bytes = plan::arena_bytes();
    for (const gpu_lane& l : gpu_lanes_) bytes += l.host_memory.total();
    return bytes;
  }

 private:
  /// What a lane has beside what a lane of CPU threads has.
  struct gpu_lane {
    memory_plan host_memory;  // what a GPU copies to the host
    gpu::device_memory arena;
    pinned_block host_arena;
  };

  /// The value of a slot in another space, or in another layout.
  struct replica {
    std::uint32_t of, space;
    image_layout layout;
    std::uint32_t slot;
  };

  /// A fed value's copy to where a GPU can read it, made before the step.
  struct staged_copy {
    std::uint32_t from, to;
    std::size_t bytes;
  };

  /// Instructions [first, last) that follow one another on one device.
  struct stage {
    device_number on;
    std::uint32_t first = 0, last = 0;
    sequence<std::uint32_t> waits;  // GPUs
    per_gpu_work<bool> uses;        // queues
    gpu::owned<gpu::recording> recorded;
    bool has_run = false, unrecordable = false;
  };

  session_gpu& gpu(std::size_t ordinal) const { return session_gpus_.at(ordinal); }

  void place_nodes() override {
    plan::place_nodes();
    for (const device_number& d : on_)
      if (d.gpu && d.ordinal >= gpus_) gpus_ = d.ordinal + 1;
    if (gpus_ == 0) return;
    // One thread does it all: more lanes of a CPU device would not run at the same time.
    lanes_per_device_ = 1;
    lanes_.resize(devices_.cpus + gpus_);
    gpu_lanes_.resize(lanes_.size());
  }
  std::uint32_t first_lane_of(device_number d) const override {
    return d.gpu ? static_cast<std::uint32_t>(devices_.cpus) + d.ordinal : plan::first_lane_of(d);
  }

  // ---- layouts of images ----

  void choose_layouts() override {
    layouts_.assign(order_.nodes(), image_layout::channels_last);
    if (gpus_ == 0) return;
    offers_.resize(order_.nodes());
    double rate = 1;
    for (const std::uint32_t n : order_.order()) {
      if (!on_[n].gpu || !can_have_layout(n)) continue;
      offers_[n] = offer_of(n);
      rate = gpu(on_[n].ordinal).device.info().bytes_per_second;
    }
    sequence<std::uint32_t> kernel(order_.nodes(), none);
    layout_choice choice(slots_.size());
    double most = 0;  // that a kernel gains
    for (const std::uint32_t n : order_.order()) {
      const std::uint32_t product = fused_into_[n], other = product != none ? product : epilogue_of_[n];
      if (!offers_[n].possible || (other != none && !offers_[other].possible)) continue;
      most = offers_[n].gain > most ? offers_[n].gain : most;
      kernel[n] = product != none ? kernel[product] : choice.add_kernel(offers_[n].gain);
      for_each_image(n, [&](std::uint32_t s) { choice.uses(kernel[n], s); });
    }
    if (most <= 0) return;
    sequence<bool> written(slots_.size(), false);
    for (const std::uint32_t n : order_.order())
      for (std::uint32_t o = 0; kernel[n] != none && o < what(n).outputs.size(); ++o)
        written[first_slot_[n] + o] = true;
    const auto used_elsewhere = [&](std::uint32_t s) {
      constexpr double launch = 3e-6, never = 1e9;
      const value_info& v = slots_[s].info;
      const bool possible = gpu::copy_into_layout[size_of(v.type)] != nullptr;
      choice.used_elsewhere(s, possible ? launch + 2 * static_cast<double>(v.bytes()) / rate : never);
    };
    for (const std::uint32_t n : order_.order()) {
      if (!computes(n)) continue;
      for_each_image(n, [&](std::uint32_t s) {
        if (kernel[n] == none || !written[s]) used_elsewhere(s);
      });
    }
    for (const value& f : request_.fetches) used_elsewhere(read_slot(schedule::fetched, f));
    const sequence<bool> first = choice.channels_first();
    for (std::uint32_t n = 0; n < order_.nodes(); ++n)
      if (kernel[n] != none && first[kernel[n]]) layouts_[n] = image_layout::channels_first;
  }
  image_layout layout_of(std::uint32_t n) const override { return layouts_[n]; }

  /// Calls back with the slots of images that a node reads or writes, where they lie differently in the two layouts.
  template <class F>
  void for_each_image(std::uint32_t n, F&& f) const {
    const gpu::layout_offer& offer = offers_[n];
    for (std::size_t k = 0; k < what(n).inputs.size(); ++k) {
      if (!schedule::reads(what(n), k) || (offer.other_operands >> k) & 1) continue;
      const std::uint32_t s = read_slot(n, what(n).inputs[k]);
      if (has_layout(slots_[s].info.extents)) f(s);
    }
    for (std::uint32_t o = 0; o < what(n).outputs.size() && !offer.other_result; ++o)
      if (const std::uint32_t s = slots_[first_slot_[n] + o].root; has_layout(slots_[s].info.extents)) f(s);
  }

  /// Not where a value's own extents are others than those of the memory that it shares.
  bool can_have_layout(std::uint32_t n) const {
    const gpu::preparation* const how = what(n).op->gpu;
    if (!computes(n) || what(n).op->writes || !how || !how->channels_first) return false;
    for (const value& v : what(n).inputs)
      if (!(info(v).extents == slots_[slots_[slot_number(v)].root].info.extents)) return false;
    return true;
  }
  gpu::layout_offer offer_of(std::uint32_t n) const {
    const operands o = operands_of(n);
    session_gpu& on = gpu(on_[n].ordinal);
    prepare_context p = context_of(n, o);
    p.memory = &on.memory;
    gpu::layout_offer offer = what(n).op->gpu->channels_first(p, on.device);
    for (std::size_t k = 0; k < o.in_slots.size(); ++k)  // what is an image and something else is in one place
      for (std::size_t l = 0; l < k; ++l)
        if (o.in_slots[k] == o.in_slots[l] && ((offer.other_operands >> k) ^ (offer.other_operands >> l)) & 1)
          return {};
    return offer;
  }

  // ---- from one memory to another ----

  void bring_operands(instruction& i) override {
    if (gpus_ == 0) return;
    const std::uint32_t space = space_of(i.on);
    const image_layout layout = layouts_[i.product != none ? i.product : i.node];
    const auto layout_for = [&](std::uint32_t s) {
      bool image = false;
      const auto look = [&](std::uint32_t other) { image = image || other == s; };
      if (layout == image_layout::channels_first) {
        for_each_image(i.node, look);
        if (i.product != none) for_each_image(i.product, look);
      }
      return image ? layout : image_layout::channels_last;
    };
    i.stands_for = i.reads;
    for (std::uint32_t& s : i.reads) s = bring(s, i.on, layout_for(s), i.node);
    for (const std::uint32_t s : i.writes) {
      slots_[s].space = space;
      slots_[s].layout = layout_for(s);
      // What is written makes the copies of the old value stale.
      for (std::size_t r = replicas_.size(); r-- > 0;)
        if (replicas_[r].of == s) replicas_.erase(r);
    }
  }

  std::uint32_t bring_to_host(std::uint32_t s, std::uint32_t for_node) override {
    return bring(s, {}, image_layout::channels_last, for_node);
  }

  std::uint32_t new_slot(std::uint32_t like, std::uint32_t space) {
    const std::uint32_t made = plan::new_slot(like);
    slots_[made].space = space;
    slots_[made].layout = slots_[like].layout;
    return made;
  }

  /// The slot with the value of slot `s` in the memory of a device and in a layout; copies it there if need be. On the
  /// host images lie channels last.
  std::uint32_t bring(std::uint32_t s, device_number to, image_layout layout, std::uint32_t for_node) {
    const std::uint32_t space = space_of(to);
    if (slots_[s].space == space && slots_[s].layout == layout) return s;
    for (const replica& r : replicas_)
      if (r.of == s && r.space == space && r.layout == layout) return r.slot;
    if (slots_[s].layout != layout) {  // on the GPU on which it is, or to which it goes
      const std::uint32_t there = slots_[s].space == 0 ? bring(s, to, slots_[s].layout, for_node) : s;
      return bring(in_layout(there, layout, for_node), to, layout, for_node);
    }
    std::uint32_t from = s;
    const std::uint32_t made = new_slot(s, space);
    replicas_.push_back({s, space, layout, made});
    if (slots_[s].place == place_kind::constant) {
      slots_[made].place = place_kind::uploaded;
      uploads_.push_back({s, made, slots_[s].info.bytes()});
      return made;
    }
    // A GPU reads page-locked memory of the host, at an address that is the same in every run.
    if (slots_[s].space == 0 && slots_[s].place != place_kind::unused) {
      from = new_slot(s, 0);
      if (slots_[s].place == place_kind::fed) {
        slots_[from].place = place_kind::arena;
        slots_[from].last = none;
        slots_[from].reserved = true;
        staged_.push_back({s, from, slots_[s].info.bytes()});
        // A place that nothing had before: so the upload need not wait for a kernel.
        slots_[made].place = place_kind::arena;
        slots_[made].reserved = true;
      } else {
        list_copy(for_node, {}, s, from);
      }
    }
    slots_[from].copied = true;
    if (to.gpu) {
      list_copy(for_node, to, from, made);
    } else {  // as soon as the value is there; and no kernel that would take its place has to wait
      list_copy(for_node, {true, slots_[from].space - 1}, from, made, after_last_write(from));
      slots_[from].last = none;
    }
    return made;
  }

  /// The slot with the value of slot `s`, which is on a GPU, in a layout that it does not have.
  std::uint32_t in_layout(std::uint32_t s, image_layout layout, std::uint32_t for_node) {
    const std::uint32_t space = slots_[s].space;
    for (const replica& r : replicas_)
      if (r.of == s && r.space == space && r.layout == layout) return r.slot;
    const std::uint32_t made = new_slot(s, space);
    slots_[made].layout = layout;
    replicas_.push_back({s, space, layout, made});
    list_copy(for_node, {true, space - 1}, s, made);
    return made;
  }

  std::size_t after_last_write(std::uint32_t s) const {
    for (std::size_t i = instructions_.size(); i > 0; --i)
      for (const std::uint32_t w : instructions_[i - 1].writes)
        if (w == s) return i;
    return instructions_.size();
  }

  /// Copies what is fed to where GPUs read it. A megabyte takes a thread as long as another one takes to wake up.
  void stage_feeds(thread_pool& threads) {
    for (const staged_copy& c : staged_) {
      const std::size_t size = static_cast<std::size_t>(threads.size()), megabytes = c.bytes >> 20;
      const std::size_t parts = megabytes < 2 ? 1 : megabytes < size ? megabytes : size;
      threads.parallel_for(parts, [&](std::size_t i) {
        const std::size_t from = c.bytes * i / parts, to = c.bytes * (i + 1) / parts;
        __builtin_memcpy(buffers_[c.to] + from, buffers_[c.from] + from, to - from);
      });
    }
  }

  // ---- memory ----

  void reserve_memory() override {
    for (slot& s : slots_)
      if (s.reserved) s.offset = memory_of(s).allocate(s.info.bytes());
  }
  bool is_gpu_lane(std::size_t l) const { return l >= devices_.cpus; }
  memory_plan& memory_of(const slot& s) override {
    return gpus_ > 0 && is_gpu_lane(s.lane) && s.space == 0 ? gpu_lanes_[s.lane].host_memory : lanes_[s.lane].memory;
  }

  void take_memory() override {
    if (gpus_ == 0) return plan::take_memory();
    pinned_memory* any = nullptr;
    for (const instruction& i : instructions_)
      if (i.on.gpu) any = &gpu(i.on.ordinal).host_memory;
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      const std::size_t bytes = lanes_[l].memory.total(), host_bytes = gpu_lanes_[l].host_memory.total();
      if (!is_gpu_lane(l)) {
        if (bytes) gpu_lanes_[l].host_arena = pinned_block(*any, bytes);
        continue;
      }
      if (lanes_[l].instructions.empty()) continue;
      session_gpu& g = gpu(l - devices_.cpus);
      if (bytes) gpu_lanes_[l].arena = gpu::device_memory(g.memory, bytes, "a step's intermediate values");
      if (host_bytes) gpu_lanes_[l].host_arena = pinned_block(g.host_memory, host_bytes);
    }
    for (std::uint32_t s = 0; s < slots_.size(); ++s) {
      if (slots_[s].place != place_kind::arena) continue;
      const gpu_lane& l = gpu_lanes_[slots_[s].lane];
      buffers_[s] = (slots_[s].space == 0 ? l.host_arena.data() : l.arena.data()) + slots_[s].offset;
    }
    for (const staged_copy& c : uploads_) {
      session_gpu& g = gpu(slots_[c.to].space - 1);
      constants_.push_back(gpu::device_memory(g.memory, c.bytes, "a constant of a step"));
      buffers_[c.to] = constants_.back().data();
      g.queue().copy(buffers_[c.to], buffers_[c.from], c.bytes);
      g.queue().synchronize();
    }
  }

  // ---- kernels ----

  class gpu_copy_kernel final : public kernel {
   public:
    gpu_copy_kernel(std::uint32_t from, std::uint32_t to, std::size_t bytes, const char* what)
        : from_(from), to_(to), bytes_(bytes), what_(what) {}
    void run(const frame& f) override { f.queue->copy(f.buffers[to_], f.buffers[from_], bytes_); }
    std::string describe() const override { return concat({what_, ", ", bytes_, " bytes"}); }

   private:
    std::uint32_t from_, to_;
    std::size_t bytes_;
    const char* what_;
  };

  kernel* prepare_elsewhere(std::uint32_t n, const prepare_context& p, const product_fusion* fusion) const override {
    const gpu::preparation* const how = what(n).op->gpu;
    if (!how || !how->prepare)  // what writes a variable has no choice of its own
      throw error(error_code::unimplemented, graph_[n].name,
                  {what(n).op->name, " writes a variable on ", to_string(on_[n]),
                   " and has no kernel for a GPU here: compile the file that writes it down with a CUDA compiler, or "
                   "place the variable on a CPU"});
    session_gpu& gpu = this->gpu(on_[n].ordinal);
    prepare_context counted = p;
    counted.memory = &gpu.memory;
    return fusion ? how->prepare_fused(counted, *fusion, gpu.device) : how->prepare(counted, gpu.device);
  }

  kernel* prepare_copy(const instruction& in) const override {
    const slot &from = slots_[in.reads[0]], &to = slots_[in.writes[0]];
    if (!in.on.gpu) return plan::prepare_copy(in);
    if (from.layout != to.layout) return prepare_reorder(in, gpu(in.on.ordinal));
    const char* what = from.space == to.space ? "snapshot of a variable"
                       : from.space == 0      ? "copy from the host"
                       : to.space == 0        ? "copy to the host"
                                              : "copy from another GPU";
    return new gpu_copy_kernel(in.reads[0], in.writes[0], to.info.bytes(), what);
  }

  kernel* prepare_reorder(const instruction& in, session_gpu& on) const {
    const slot &from = slots_[in.reads[0]], &to = slots_[in.writes[0]];
    const invocation nothing;
    return gpu::copy_into_layout[size_of(to.info.type)](
        {nothing, &from.info, &to.info, in.reads.data(), in.writes.data(), &on.memory, to.layout}, on.device);
  }

  /// One block of workspace for all library calls of the step, before the first of them asks for its part. Where there
  /// is no room for the largest wish, a call may find a way that needs less: it says so itself when it runs.
  void prepare_kernels() override {
    plan::prepare_kernels();
    for (std::uint32_t g = 0; g < gpus_; ++g) {
      std::size_t most = 0;
      for (const instruction& i : instructions_)
        if (i.on == device_number{true, g} && i.code->workspace_bytes() > most) most = i.code->workspace_bytes();
      if (most == 0) continue;
      try {
        gpu(g).queue().workspace(most);
      } catch (const error& e) {
        if (e.code() != error_code::resource_exhausted) throw;
      }
    }
  }

  // ---- stages ----

  void find_waits() override {
    if (gpus_ == 0) return plan::find_waits();
    for (std::uint32_t i = 0; i < instructions_.size(); ++i) {
      const device_number on = instructions_[i].on;
      if (stages_.empty() || !(stages_.back().on == on)) {
        stage next;
        next.on = on;
        next.first = i;
        stages_.push_back(static_cast<stage&&>(next));
      }
      stage& here = stages_.back();
      here.last = i + 1;
      if (on.gpu) add_once(used_gpus_, on.ordinal);
      for (std::uint32_t j = 0; j < i; ++j) {
        const device_number other = instructions_[j].on;
        if (other.gpu && !(other == on) && conflict(instructions_[j], instructions_[i]))
          add_once(here.waits, other.ordinal);
      }
    }
    for (stage& s : stages_)
      if (s.on.gpu) order_queues(s);
  }

  /// Lets each instruction of a stage wait for the last one in each other queue that it must follow, unless its queue
  /// has waited for that already. A wait is for all that the other queue was given before.
  void order_queues(stage& s) {
    per_gpu_work<per_gpu_work<std::uint32_t>> waited;
    for (std::uint32_t i = s.first; i < s.last; ++i) {
      instruction& in = instructions_[i];
      const gpu_work mine = work_of(in);
      s.uses[mine] = true;
      for (const gpu_work other : gpu_works) {
        std::uint32_t& until = waited[mine][other];
        for (std::uint32_t j = i; j > until && j > s.first && other != mine; --j) {
          const instruction& earlier = instructions_[j - 1];
          if (work_of(earlier) != other || !(conflict(earlier, in) || takes_place_of(in, earlier))) continue;
          in.waits.push_back(j - 1);
          until = i;
        }
      }
    }
  }

  gpu_work work_of(const instruction& i) const {
    if (!i.copies) return gpu_work::compute;
    const std::uint32_t from = slots_[i.reads[0]].space, to = slots_[i.writes[0]].space;
    return from == to ? gpu_work::compute : to == 0 ? gpu_work::download : gpu_work::upload;
  }

  /// Whether an instruction writes where an earlier one reads or writes another value.
  bool takes_place_of(const instruction& in, const instruction& earlier) const {
    const auto overlaps = [&](const slot& a, const slot& b) {
      return a.place == place_kind::arena && b.place == place_kind::arena && a.lane == b.lane && a.space == b.space &&
             a.offset < b.offset + b.info.bytes() && b.offset < a.offset + a.info.bytes();
    };
    for (const std::uint32_t w : in.writes) {
      for (const std::uint32_t r : earlier.reads)
        if (overlaps(slots_[w], slots_[r])) return true;
      for (const std::uint32_t r : earlier.writes)
        if (overlaps(slots_[w], slots_[r])) return true;
    }
    return false;
  }
  static void add_once(sequence<std::uint32_t>& to, std::uint32_t x) {
    if (!contains(to, x)) to.push_back(x);
  }

  void run_stage(stage& s, const frame& host) {
    for (const std::uint32_t g : s.waits) {
      if (s.on.gpu)
        gpu(s.on.ordinal).queue().wait_for(gpu(g).queue());
      else
        gpu(g).queue().synchronize();
    }
    if (s.on.gpu)
      run_on_gpu(s);
    else
      for (std::uint32_t i = s.first; i < s.last; ++i) run(instructions_[i], host);
  }

  /// The first run is launched kernel by kernel: libraries make ready then, by calls that cannot be recorded, and a
  /// step that runs once is spared the making of a recording.
  void run_on_gpu(stage& s) {
    session_gpu& g = gpu(s.on.ordinal);
    const bool whole = s.has_run && g.options.record_steps && !one_by_one(g);
    if (whole && !s.recorded && !s.unrecordable) record_stage(s, g);
    if (whole && s.recorded) return g.queue().launch(*s.recorded);
    fill_queues(s, g);
    join_queues(s, g);
    s.has_run = true;
  }

  /// Whether each kernel is waited for: to find the one that fails, or how long each takes.
  bool one_by_one(const session_gpu& g) const { return g.options.synchronous || measured_; }

  /// A call of a library may be one that cannot be recorded. The recording is broken then, nothing is done yet, and the
  /// stage is launched kernel by kernel, now and later.
  void record_stage(stage& s, session_gpu& g) {
    g.queue().begin_recording();
    try {
      fill_queues(s, g);
    } catch (...) {
      if (end_recording(s, g)) throw;  // a sound recording: what went wrong would go wrong without it
      s.unrecordable = true;
      return;
    }
    s.recorded = end_recording(s, g);
    s.unrecordable = !s.recorded;
  }

  /// Null if the recording is broken.
  static gpu::owned<gpu::recording> end_recording(const stage& s, session_gpu& g) {
    gpu::owned<gpu::recording> all;
    try {
      join_queues(s, g);
    } catch (const error&) {  // the end tells
    }
    try {
      all = g.queue().end_recording();
    } catch (const error&) {
    }
    return all;
  }

  /// The queues for copies begin after all earlier work of the GPU; join_queues() ends the one for kernels after them.
  void fill_queues(const stage& s, session_gpu& g) {
    for (const gpu_work w : {gpu_work::upload, gpu_work::download})
      if (s.uses[w]) g.queue(w).wait_for(g.queue());
    for (std::uint32_t i = s.first; i < s.last; ++i) {
      instruction& next = instructions_[i];
      gpu::queue& q = g.queue(work_of(next));
      for (const std::uint32_t w : next.waits) q.wait_for(g.queue(work_of(instructions_[w])));
      run(next, {buffers_.data(), nullptr, &q});
      if (!one_by_one(g)) continue;
      finish(next, q);
      if (measured_) next.ended = nanoseconds();
    }
  }

  static void join_queues(const stage& s, session_gpu& g) {
    for (const gpu_work w : {gpu_work::upload, gpu_work::download})
      if (s.uses[w]) g.queue().wait_for(g.queue(w));
  }

  void finish(const instruction& i, gpu::queue& q) {
    try {
      q.synchronize();
    } catch (const error& e) {
      throw error(e.code(), name_of(i), e.sentence());
    }
  }

  void describe_stages(std::string& text) const override {
    if (gpus_ == 0) return plan::describe_stages(text);
    for (const stage& s : stages_) {
      append(text, {"stage ", (s.on.gpu ? "gpu:" : "cpu:"), s.on.ordinal, "  kernels ", s.first, " to ", s.last - 1,
                    (s.recorded       ? ", launched as a whole"
                     : s.unrecordable ? ", launched one by one: it cannot be recorded"
                                      : ""),
                    "\n"});
      if (s.on.gpu) describe_overlaps(text, s);
    }
    for (std::uint32_t n : order_.order())
      if (computes(n) && !on_[n].gpu) append(text, {graph_[n].name, " ", devices_.place.explain(n), "\n"});
    for (const std::uint32_t g : used_gpus_)
      if (const std::size_t bytes = gpu(g).queue().workspace_bytes())
        append(text, {"gpu:", g, "  ", bytes, " bytes of workspace for libraries' calls\n"});
  }

  bool waits_for(std::uint32_t i, gpu_work queue) const {
    for (const std::uint32_t w : instructions_[i].waits)
      if (work_of(instructions_[w]) == queue) return true;
    return false;
  }

  /// The kernels that may run at the same time as a copy: from its queue's last wait for kernels to their next one for
  /// its queue.
  void describe_overlaps(std::string& text, const stage& s) const {
    for (std::uint32_t i = s.first; i < s.last; ++i) {
      const gpu_work mine = work_of(instructions_[i]);
      if (mine == gpu_work::compute) continue;
      std::uint32_t from = i, to = i + 1;
      while (from > s.first && !(work_of(instructions_[from]) == mine && waits_for(from, gpu_work::compute))) --from;
      while (to < s.last && !(work_of(instructions_[to]) == gpu_work::compute && waits_for(to, mine))) ++to;
      std::uint32_t first = none, last = none;
      for (std::uint32_t k = from; k < to; ++k)
        if (work_of(instructions_[k]) == gpu_work::compute) first = first == none ? k : first, last = k;
      if (first == none) continue;
      append(text, {"  copy ", i, " runs beside ", (first == last ? "kernel " : "kernels "), first});
      if (first != last) append(text, {" to ", last});
      text += "\n";
    }
  }

  session_gpus& session_gpus_;
  std::size_t gpus_ = 0;
  sequence<gpu_lane> gpu_lanes_;
  sequence<gpu::layout_offer> offers_;  // of each node
  sequence<image_layout> layouts_;      // of its images
  sequence<replica> replicas_;
  sequence<staged_copy> staged_, uploads_;
  sequence<gpu::device_memory> constants_;
  sequence<stage> stages_;
  sequence<std::uint32_t> used_gpus_;
};

}  // namespace weft

WEFT_COLD_END
