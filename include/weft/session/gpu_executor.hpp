// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <string>

#include <weft/plan/gpu_copies.hpp>
#include <weft/plan/placement.hpp>
#include <weft/session/executor.hpp>
#include <weft/session/gpu_memory.hpp>
#include <weft/tensor/owned.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// Consecutive instructions [first, last) on one device.
struct gpu_stage {
  plan::device_number on;
  std::uint32_t first = 0, last = 0;
  sequence<std::uint32_t> waits;  // GPUs to wait for
};

/// The GPU state of a binding: dependencies between queues, and recordings.
struct stages_of_binding final : plan::gpu_binding {
  struct stage {
    per_gpu_work<bool> uses;  // for each queue
    owned<gpu::recording> recorded;
    sequence<std::uint32_t> in_place;  // feeds that the recording reads from the caller's memory
    bool has_run = false, unrecordable = false;
  };
  /// A fed value, which is either copied to the step's page-locked memory or read from the caller's memory.
  struct feed {
    std::size_t bytes;
    std::byte* staging;  // address of the step's copy, restored after a run
    bool in_place;
  };
  sequence<stage> stages;
  sequence<sequence<std::uint32_t>> dependencies;  // for each instruction: those in other queues that it waits for
  sequence<feed> feeds;
  bool stages_all = false;  // copies every feed, because the recording cannot be changed
};

/// Runs a program that uses GPUs. Consecutive kernels on a GPU form a stage, which is recorded in its second run and
/// launched as a whole from then on. One thread runs the stages in order, and waits for a GPU if another device needs
/// its results.
///
/// Within a stage, copies run in parallel with kernels, in separate queues: an upload must complete before a kernel
/// reads its value, and a download starts when its value exists. A queue waits for another if one of the two writes
/// memory that the other reads or writes, whether for the same value or for a different one.
///
/// Fed values are copied to memory that the GPU can read, at the same address in every run. Large values that are
/// already in page-locked memory are read in place, and the recording is updated with their address. The step ends
/// before the caller may change them.
class gpu_executor {
 public:
  gpu_executor(session_gpus& gpus, const sequence<plan::outside_copy>& staged) : gpus_(gpus), staged_(staged) {}

  /// Called once for each program.
  void list_stages(const plan::program& p) {
    uploads_.resize(staged_.size());
    sequence<std::uint32_t> writer(p.buffers.size(), plan::none);
    sequence<sequence<std::uint32_t>> readers(p.buffers.size());  // since the last write
    for (std::uint32_t i = 0; i < p.instructions.size(); ++i) {
      const plan::instruction& in = p.instructions[i];
      if (stages_.empty() || !(stages_.back().on == in.on)) {
        gpu_stage next;
        next.on = in.on;
        next.first = i;
        stages_.push_back(static_cast<gpu_stage&&>(next));
      }
      gpu_stage& here = stages_.back();
      here.last = i + 1;
      if (in.on.gpu) add_once(used_gpus_, in.on.ordinal);
      const auto follow = [&](std::uint32_t j) {
        const plan::device_number other = j == plan::none ? plan::device_number{} : p.instructions[j].on;
        if (other.gpu && !(other == in.on)) add_once(here.waits, other.ordinal);
      };
      for (const std::uint32_t b : in.reads) follow(writer[b]), readers[b].push_back(i);
      for (const std::uint32_t b : in.writes) {
        follow(writer[b]);
        for (const std::uint32_t r : readers[b]) follow(r);
        writer[b] = i;
        readers[b].clear();
      }
      for (std::size_t f = 0; f < staged_.size(); ++f)
        if (in.kind == plan::instruction_kind::copy && in.reads[0] == staged_[f].to)
          uploads_[f] = {stages_.size() - 1, in.writes[0]};
    }
  }

  owned<plan::gpu_binding> bind(const plan::program& p, const plan::binding& b, const value_info* infos) const {
    auto* made = new stages_of_binding;
    made->stages.resize(stages_.size());
    made->dependencies.resize(p.instructions.size());
    for (const plan::outside_copy& c : staged_) made->feeds.push_back({infos[c.from].bytes(), nullptr, false});
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      if (!stages_[s].on.gpu) continue;
      order_queues(p, b, infos, stages_[s], made->stages[s], made->dependencies);
      for (std::uint32_t i = stages_[s].first; i < stages_[s].last; ++i)
        if (!b.kernels[i]->recordable()) made->stages[s].unrecordable = true;
    }
    return owned<plan::gpu_binding>(made);
  }

  void run(const plan::program& p, plan::binding& b, thread_pool& threads, step_times* times) {
    auto& state = static_cast<stages_of_binding&>(*b.on_gpus);
    const placed_feeds placed(*this, b, state);
    stage_feeds(b, state, threads);
    try {
      for (std::size_t s = 0; s < stages_.size(); ++s) run_stage(p, b, s, state, {b.addresses.data(), &threads}, times);
      for (const std::uint32_t g : used_gpus_) gpus_.at(g).queue().synchronize();
    } catch (...) {
      // The next run writes memory that GPUs may still be reading, and the queues have not waited for each other.
      for (const std::uint32_t g : used_gpus_)
        for (const gpu_work w : gpu_works) {
          try {
            gpus_.at(g).queue(w).synchronize();
          } catch (const error&) {
          }
        }
      throw;
    }
  }

  const sequence<std::uint32_t>& used_gpus() const { return used_gpus_; }
  void describe(const plan::program& p, const plan::binding& b, std::string& text) const;

 private:
  static void add_once(sequence<std::uint32_t>& to, std::uint32_t x) {
    if (!plan::contains(to, x)) to.push_back(x);
  }

  static gpu_work work_of(const plan::program& p, const plan::instruction& i) {
    if (i.kind != plan::instruction_kind::copy) return gpu_work::compute;
    const std::uint32_t from = p.buffers[i.reads[0]].space, to = p.buffers[i.writes[0]].space;
    return from == to ? gpu_work::compute : to == 0 ? gpu_work::download : gpu_work::upload;
  }

  /// Adds dependencies: each instruction of a stage waits for the last instruction in each other queue that it must
  /// follow, unless its queue has already waited for it. A wait covers all earlier work in the other queue.
  void order_queues(const plan::program& p, const plan::binding& b, const value_info* infos, const gpu_stage& s,
                    stages_of_binding::stage& state, sequence<sequence<std::uint32_t>>& dependencies) const {
    per_gpu_work<per_gpu_work<std::uint32_t>> waited;  // [mine][other]: instructions of `other` waited for
    per_gpu_work<sequence<std::uint32_t>> given;
    for (std::uint32_t i = s.first; i < s.last; ++i) {
      const plan::instruction& in = p.instructions[i];
      const gpu_work mine = work_of(p, in);
      state.uses[mine] = true;
      for (const gpu_work other : gpu_works) {
        if (other == mine) continue;
        std::uint32_t& until = waited[mine][other];
        for (auto k = static_cast<std::uint32_t>(given[other].size()); k > until; --k) {
          const std::uint32_t j = given[other][k - 1];
          if (!conflict(p.instructions[j], in) && !takes_place_of(p, b, infos, in, p.instructions[j])) continue;
          dependencies[i].push_back(j);
          until = k;
        }
      }
      given[mine].push_back(i);
    }
  }

  static bool overlap(const sequence<std::uint32_t>& a, const sequence<std::uint32_t>& b) {
    for (const std::uint32_t x : a)
      if (plan::contains(b, x)) return true;
    return false;
  }
  static bool conflict(const plan::instruction& first, const plan::instruction& second) {
    return overlap(first.writes, second.reads) || overlap(first.writes, second.writes) ||
           overlap(first.reads, second.writes);
  }
  /// Returns true if an instruction writes memory that an earlier one reads or writes for a different value.
  static bool takes_place_of(const plan::program& p, const plan::binding& b, const value_info* infos,
                             const plan::instruction& in, const plan::instruction& earlier) {
    const auto overlaps = [&](std::uint32_t x, std::uint32_t y) {
      if (p.buffers[x].kind != plan::buffer_kind::arena || p.buffers[y].kind != plan::buffer_kind::arena ||
          p.buffers[x].arena != p.buffers[y].arena)
        return false;
      const std::byte *const at = b.addresses[x], *const other = b.addresses[y];
      return at < other + infos[y].bytes() && other < at + infos[x].bytes();
    };
    for (const std::uint32_t w : in.writes) {
      for (const std::uint32_t r : earlier.reads)
        if (overlaps(w, r)) return true;
      for (const std::uint32_t r : earlier.writes)
        if (overlaps(w, r)) return true;
    }
    return false;
  }

  /// Below this size, a copy takes no longer than the CUDA call that identifies the memory.
  static constexpr std::size_t in_place_bytes = std::size_t{1} << 16;

  /// During a run, lets copies read fed values from the caller's memory if possible.
  class placed_feeds {
   public:
    placed_feeds(const gpu_executor& of, plan::binding& b, stages_of_binding& state) : of_(of), b_(b), state_(state) {
      for (std::size_t f = 0; f < state.feeds.size(); ++f) {
        stages_of_binding::feed& feed = state.feeds[f];
        std::byte* const fed = b.addresses[of.staged_[f].from];
        feed.staging = at(f);
        feed.in_place = !state.stages_all && feed.bytes >= in_place_bytes &&
                        of.gpus_.at(of.stages_[of.uploads_[f].stage].on.ordinal).device.is_page_locked(fed, feed.bytes);
        if (feed.in_place) at(f) = fed;
      }
    }
    placed_feeds(const placed_feeds&) = delete;
    placed_feeds& operator=(const placed_feeds&) = delete;
    ~placed_feeds() {
      for (std::size_t f = 0; f < state_.feeds.size(); ++f) at(f) = state_.feeds[f].staging;
    }

   private:
    std::byte*& at(std::size_t f) { return b_.addresses[of_.staged_[f].to]; }

    const gpu_executor& of_;
    plan::binding& b_;
    stages_of_binding& state_;
  };

  /// Updates the addresses of in-place feeds in the recording of a stage. Always sets them, because memory at an
  /// unchanged address may have been freed and allocated again. Returns false if the recording cannot be changed.
  bool redirect(const plan::binding& b, std::size_t s, stages_of_binding& state) const {
    stages_of_binding::stage& of = state.stages[s];
    for (std::size_t f = 0; f < state.feeds.size(); ++f) {
      if (uploads_[f].stage != s) continue;
      const bool is_in_place = state.feeds[f].in_place;
      if ((is_in_place || plan::contains(of.in_place, static_cast<std::uint32_t>(f))) &&
          !of.recorded->copy_from(b.addresses[uploads_[f].to], b.addresses[staged_[f].to], state.feeds[f].bytes))
        return false;
    }
    list_in_place(s, state);
    return true;
  }
  void list_in_place(std::size_t s, stages_of_binding& state) const {
    state.stages[s].in_place.clear();
    for (std::size_t f = 0; f < state.feeds.size(); ++f)
      if (uploads_[f].stage == s && state.feeds[f].in_place)
        state.stages[s].in_place.push_back(static_cast<std::uint32_t>(f));
  }

  /// Copies feeds to memory that GPUs can read. Uses one thread per megabyte: waking a thread takes as long as copying
  /// a megabyte.
  void stage_feeds(const plan::binding& b, const stages_of_binding& state, thread_pool& threads) const {
    for (std::size_t f = 0; f < staged_.size(); ++f) {
      if (state.feeds[f].in_place) continue;
      const std::size_t bytes = state.feeds[f].bytes;
      const std::size_t size = static_cast<std::size_t>(threads.size()), megabytes = bytes >> 20;
      const std::size_t parts = megabytes < 2 ? 1 : megabytes < size ? megabytes : size;
      threads.parallel_for(parts, [&](std::size_t i) {
        const std::size_t from = bytes * i / parts, to = bytes * (i + 1) / parts;
        __builtin_memcpy(b.addresses[staged_[f].to] + from, b.addresses[staged_[f].from] + from, to - from);
      });
    }
  }

  void run_stage(const plan::program& p, const plan::binding& b, std::size_t number, stages_of_binding& all,
                 const kernel_context& host, step_times* times) {
    const gpu_stage& s = stages_[number];
    stages_of_binding::stage& state = all.stages[number];
    for (const std::uint32_t g : s.waits) {
      if (s.on.gpu)
        gpus_.at(s.on.ordinal).queue().wait_for(gpus_.at(g).queue());
      else
        gpus_.at(g).queue().synchronize();
    }
    if (!s.on.gpu) {
      for (std::uint32_t i = s.first; i < s.last; ++i) run_instruction(p, b, i, host, times);
      return;
    }
    // The first run launches each kernel separately: libraries initialize with calls that cannot be recorded, and a
    // step that runs once needs no recording.
    session_gpu& g = gpus_.at(s.on.ordinal);
    const bool one_by_one = g.options.synchronous || times;  // waits for each kernel
    const auto fill = [&] { fill_queues(p, b, s, state, all.dependencies, g, one_by_one, times); };
    const bool whole = state.has_run && g.options.record_steps && !one_by_one;
    if (whole && state.recorded && !redirect(b, number, all)) state.recorded = {}, all.stages_all = true;
    if (whole && !state.recorded && !state.unrecordable) {
      record(state, g, fill);
      list_in_place(number, all);
    }
    if (whole && state.recorded) return g.queue().launch(*state.recorded);
    fill();
    join_queues(state, g);
    state.has_run = true;
  }

  /// A library call may be impossible to record. It invalidates the recording before any work runs, and the stage then
  /// launches each kernel separately, now and in later runs.
  template <class Fill>
  static void record(stages_of_binding::stage& state, session_gpu& g, const Fill& fill) {
    g.queue().begin_recording();
    try {
      fill();
    } catch (...) {
      if (end_recording(state, g)) throw;  // the recording is valid, so the error has another cause
      state.unrecordable = true;
      return;
    }
    state.recorded = end_recording(state, g);
    state.unrecordable = !state.recorded;
  }

  /// Returns null if the recording is invalid.
  static owned<gpu::recording> end_recording(const stages_of_binding::stage& state, session_gpu& g) {
    owned<gpu::recording> all;
    try {
      join_queues(state, g);
    } catch (const error&) {  // end_recording() reports it
    }
    try {
      all = g.queue().end_recording();
    } catch (const error&) {
    }
    return all;
  }

  /// The copy queues start after all earlier work of the GPU. join_queues() makes the kernel queue wait for them.
  void fill_queues(const plan::program& p, const plan::binding& b, const gpu_stage& s,
                   const stages_of_binding::stage& state, const sequence<sequence<std::uint32_t>>& dependencies,
                   session_gpu& g, bool one_by_one, step_times* times) {
    for (const gpu_work w : {gpu_work::upload, gpu_work::download})
      if (state.uses[w]) g.queue(w).wait_for(g.queue());
    for (std::uint32_t i = s.first; i < s.last; ++i) {
      gpu::queue& q = g.queue(work_of(p, p.instructions[i]));
      for (const std::uint32_t w : dependencies[i]) q.wait_for(g.queue(work_of(p, p.instructions[w])));
      run_instruction(p, b, i, {b.addresses.data(), nullptr, &q}, times, one_by_one ? &q : nullptr);
    }
  }

  static void join_queues(const stages_of_binding::stage& state, session_gpu& g) {
    for (const gpu_work w : {gpu_work::upload, gpu_work::download})
      if (state.uses[w]) g.queue().wait_for(g.queue(w));
  }

  static void run_instruction(const plan::program& p, const plan::binding& b, std::uint32_t i, kernel_context f,
                              step_times* times, gpu::queue* wait_for = nullptr) {
    if (times) times->of[i].began = nanoseconds();
    f.workspace = b.workspaces[i];
    try {
      b.kernels[i]->run(f);
      if (wait_for) wait_for->synchronize();
    } catch (const error& e) {
      throw error(e.code(), p.name(p.instructions[i]), e.sentence());
    }
    if (times) times->of[i].ended = nanoseconds();
  }

  void describe_overlaps(const plan::program& p, const gpu_stage& s,
                         const sequence<sequence<std::uint32_t>>& dependencies, std::string& text) const;

  /// The stage that uploads a staged value, and the destination.
  struct upload {
    std::size_t stage = 0;
    std::uint32_t to = 0;  // a buffer
  };

  session_gpus& gpus_;
  const sequence<plan::outside_copy>& staged_;
  sequence<upload> uploads_;
  sequence<gpu_stage> stages_;
  sequence<std::uint32_t> used_gpus_;
};

inline void gpu_executor::describe(const plan::program& p, const plan::binding& b, std::string& text) const {
  const auto& state = static_cast<const stages_of_binding&>(*b.on_gpus);
  for (std::size_t k = 0; k < stages_.size(); ++k) {
    const gpu_stage& s = stages_[k];
    append(text, {"stage ", (s.on.gpu ? "gpu:" : "cpu:"), s.on.ordinal, "  kernels ", s.first, " to ", s.last - 1,
                  (state.stages[k].recorded       ? ", launched as a whole"
                   : state.stages[k].unrecordable ? ", launched one by one: it cannot be recorded"
                                                  : ""),
                  "\n"});
    if (s.on.gpu) describe_overlaps(p, s, state.dependencies, text);
  }
  std::size_t in_place = 0;
  for (const auto& f : state.feeds) in_place += f.in_place;
  if (in_place) append(text, {"fed values read in place: ", in_place, " of ", state.feeds.size(), "\n"});
  for (const std::uint32_t g : used_gpus_)
    if (const std::size_t bytes = gpus_.at(g).queue().workspace_bytes())
      append(text, {"gpu:", g, "  ", bytes, " bytes of workspace for library calls\n"});
}

/// Describes the kernels that can overlap each copy: from the last wait of the copy's queue for kernels to the next
/// kernel that waits for the copy's queue.
inline void gpu_executor::describe_overlaps(const plan::program& p, const gpu_stage& s,
                                            const sequence<sequence<std::uint32_t>>& dependencies,
                                            std::string& text) const {
  const auto work = [&](std::uint32_t i) { return work_of(p, p.instructions[i]); };
  const auto waits_for = [&](std::uint32_t i, gpu_work queue) {
    for (const std::uint32_t w : dependencies[i])
      if (work(w) == queue) return true;
    return false;
  };
  for (std::uint32_t i = s.first; i < s.last; ++i) {
    const gpu_work mine = work(i);
    if (mine == gpu_work::compute) continue;
    std::uint32_t from = i, to = i + 1;
    while (from > s.first && !(work(from) == mine && waits_for(from, gpu_work::compute))) --from;
    while (to < s.last && !(work(to) == gpu_work::compute && waits_for(to, mine))) ++to;
    std::uint32_t first = plan::none, last = plan::none;
    for (std::uint32_t k = from; k < to; ++k)
      if (work(k) == gpu_work::compute) first = first == plan::none ? k : first, last = k;
    if (first == plan::none) continue;
    append(text, {"  copy ", i, " overlaps ", (first == last ? "kernel " : "kernels "), first});
    if (first != last) append(text, {" to ", last});
    text += "\n";
  }
}

}  // namespace weft::detail

WEFT_COLD_END
