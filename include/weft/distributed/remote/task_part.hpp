// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <string>

#include <weft/device/kernel.hpp>
#include <weft/distributed/remote/task_links.hpp>
#include <weft/distributed/remote/task_table.hpp>
#include <weft/plan/binding.hpp>
#include <weft/plan/task_cut.hpp>
#include <weft/plan/task_support.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// Returns a hash of everything that the parts of a step on several tasks must have in common. Tasks with different
/// signatures refuse to run the step.
inline std::uint64_t step_signature(const plan::program& p, const task_table& tasks) {
  hasher h;
  h.add(p.g.hash());
  h.add(p.g.seed());
  for (const task_devices& t : tasks.all()) h.add(to_string(t.task)), h.add(t.cpus), h.add(t.gpus);
  const auto add_value = [&](value v) { h.add(v.node), h.add(v.output); };
  h.add(p.request.fetches.size());
  for (const value v : p.request.fetches) add_value(v);
  h.add(p.request.targets.size());
  for (const std::uint32_t t : p.request.targets) h.add(std::uint64_t{t});
  h.add(p.request.feeds.size());
  for (const value v : p.request.feeds) add_value(v);
  for (std::uint32_t n = 0; n < p.running; ++n) {
    const plan::device_number on = p.nodes[n].on;
    h.add(p.nodes[n].number), h.add(on.task), h.add((std::uint64_t{on.ordinal} << 1) | (on.gpu ? 1u : 0u));
  }
  return h.result();
}

class send_kernel final : public kernel {
 public:
  send_kernel(task_links& links, const transfer_key& key, std::uint32_t from, std::size_t bytes, std::string to)
      : links_(links), key_(key), from_(from), bytes_(bytes), to_(static_cast<std::string&&>(to)) {}
  void run(const kernel_context& f) override { links_.send(key_, bytes_ ? f.buffers[from_] : nullptr, bytes_); }
  std::string describe() const override { return str_cat({"send to ", to_, ", ", bytes_, " bytes"}); }

 private:
  task_links& links_;
  transfer_key key_;
  std::uint32_t from_;
  std::size_t bytes_;
  std::string to_;
};

class receive_kernel final : public kernel {
 public:
  receive_kernel(task_links& links, const transfer_key& key, std::uint32_t to, std::size_t bytes, std::string from)
      : links_(links), key_(key), to_(to), bytes_(bytes), from_(static_cast<std::string&&>(from)) {}
  void run(const kernel_context& f) override { links_.receive(key_, bytes_ ? f.buffers[to_] : nullptr, bytes_); }
  std::string describe() const override { return str_cat({"receive from ", from_, ", ", bytes_, " bytes"}); }

 private:
  task_links& links_;
  transfer_key key_;
  std::uint32_t to_;
  std::size_t bytes_;
  std::string from_;
};

/// A kernel that may never end by itself: an operation on a queue, which waits, or a loop, which does not.
class watched_kernel final : public kernel {
 public:
  watched_kernel(task_links& links, kernel* k, bool waits) : links_(links), kernel_(k), waits_(waits) {}
  void run(const kernel_context& f) override {
    struct call {
      kernel& of;
      const kernel_context& f;
    } one{*kernel_.operator->(), f};
    links_.watch(&one, [](void* of) { static_cast<call*>(of)->of.run(static_cast<call*>(of)->f); }, waits_);
  }
  void end_run() noexcept override { kernel_->end_run(); }
  std::size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  std::size_t memory_bytes() const override { return kernel_->memory_bytes(); }
  bool recordable() const override { return kernel_->recordable(); }
  std::string describe() const override { return kernel_->describe(); }
  void describe_subgraphs(std::string& text, std::size_t spaces) const override {
    kernel_->describe_subgraphs(text, spaces);
  }

 private:
  task_links& links_;
  kernel_handle kernel_;
  bool waits_;
};

/// One task's part of a step.
class task_part : public plan::task_step {
 public:
  /// `expected`: the client's signature of the step; 0: not compared.
  task_part(const task_table& tasks, task_links& links, std::uint64_t expected = 0)
      : tasks_(tasks), links_(links), expected_(expected) {}

  void cut(plan::program& p) override {
    signature_ = step_signature(p, tasks_);
    if (expected_ != 0 && expected_ != signature_)
      throw error(error_code::failed_precondition, "step",
                  "this task and the client would place the step's nodes differently; run the same program with the "
                  "same devices on all tasks");
    plan::task_cut cut(p, tasks_.client());
    transfers_ = cut.cut();
    used_ = cut.used();
  }

  kernel* prepare(const plan::program&, const plan::instruction& i, const value_info* infos) override {
    const plan::transfer& t = transfers_[i.transfer];
    const transfer_key key{i.transfer, t.from, t.to};
    const bool sends = i.kind == plan::instruction_kind::send;
    const std::uint32_t b = sends ? (i.reads.empty() ? plan::none : i.reads[0]) : i.writes[0];
    const std::size_t bytes = t.buffer == plan::none ? 0 : infos[b].bytes();
    if (sends) return new send_kernel(links_, key, b, bytes, tasks_.text(t.to));
    return new receive_kernel(links_, key, b, bytes, tasks_.text(t.from));
  }

  kernel* around(kernel* k, bool waits) override { return new watched_kernel(links_, k, waits); }

  void run(const plan::program&, const plan::binding&, std::int64_t, void* part, void (*execute)(void*)) override {
    execute(part);
  }

 protected:
  std::uint64_t signature() const { return signature_; }
  const task_table& tasks() const { return tasks_; }
  /// The tasks that take part in the step.
  const sequence<std::uint32_t>& used() const { return used_; }

 private:
  const task_table& tasks_;
  task_links& links_;
  std::uint64_t expected_, signature_ = 0;
  sequence<plan::transfer> transfers_;
  sequence<std::uint32_t> used_;
};

}  // namespace weft::detail

WEFT_COLD_END
