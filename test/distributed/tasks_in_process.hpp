// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>
#include <weft/distributed/remote/mailbox.hpp>
#include <weft/distributed/remote/task_part.hpp>
#include <weft/weft.hpp>

/// Several tasks in one process: a session of one graph for each, and one that asks for the steps, each with a thread
/// and variables of its own.
namespace test {

class tasks_in_process {
 public:
  /// `options`: of each session. Unpinned nodes run in task `home`.
  tasks_in_process(const weft::graph& g, std::size_t count, weft::session_options options = {.threads = 1},
                   std::uint32_t home = 0)
      : table_(table(count, static_cast<std::uint32_t>(options.devices)), home) {
    for (std::size_t t = 0; t <= count; ++t) boxes_.push_back(std::make_shared<weft::detail::mailbox>());
    for (std::uint32_t t = 0; t <= count; ++t) all_.push_back(std::make_unique<task>(*this, g, t, options));
  }

  /// The session of a task; that of the client comes after all tasks.
  weft::session& of(std::size_t task) { return all_[task]->s; }
  weft::session& client() { return all_.back()->s; }
  std::size_t count() const { return all_.size() - 1; }
  const weft::detail::task_table& tasks() const { return table_; }

  /// Where a variable is: the session of that task.
  weft::session& holder(std::uint32_t variable) { return of(client().state_of(variable).where.task); }

  class step {
   public:
    step(tasks_in_process& in, const weft::plan::step_request& request) : in_(in) {
      for (auto& each : in.all_) steps_.emplace_back(each->s, request);
    }
    weft::prepared_step& part(std::size_t task) { return steps_[task]; }

    template <class Place>
    void run(const weft::plan::fed_value* fed, Place place) {
      const std::size_t tasks = in_.count(), feeds = steps_[0].request().feeds.size();
      for (const auto& box : in_.boxes_) box->clear();
      std::vector<weft::plan::fed_value> extents;
      for (std::size_t i = 0; i < feeds; ++i) extents.push_back({nullptr, fed[i].extents});
      extents.push_back({});
      const std::int64_t number = in_.client().step_number();
      std::vector<std::thread> threads;
      for (std::size_t t = 0; t < tasks; ++t)
        threads.emplace_back([&, t] {
          guarded([&] {
            in_.of(t).set_step_number(number);
            steps_[t].run(extents.data(), [](std::size_t, const weft::shape&) -> void* { return nullptr; });
          });
        });
      guarded([&] { steps_[tasks].run(fed, place); });
      for (std::thread& t : threads) t.join();
      if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    }

   private:
    template <class F>
    void guarded(F f) {
      try {
        f();
      } catch (const std::exception& e) {
        const std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
        for (const auto& box : in_.boxes_) box->fail(weft::error(weft::error_code::aborted, "step", e.what()));
      }
    }

    tasks_in_process& in_;
    std::vector<weft::prepared_step> steps_;
    std::mutex mutex_;
    std::exception_ptr failure_;
  };

  /// Values that have travelled.
  std::uint64_t sent() const { return sent_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  class links final : public weft::detail::task_links {
   public:
    explicit links(tasks_in_process& in) : in_(in) {}
    void send(const weft::detail::transfer_key& key, const std::byte* value, std::size_t bytes) override {
      ++in_.sent_, in_.bytes_ += bytes;
      using box = weft::detail::mailbox;
      box::put(box::open(in_.boxes_[key.to], key.number, bytes, in_.parked_), {value, bytes});
    }
    void receive(const weft::detail::transfer_key& key, std::byte* to, std::size_t bytes) override {
      in_.boxes_[key.to]->take(key.number, to, bytes, std::chrono::seconds(60), in_.table_.text(key.from), [] {});
    }

   private:
    tasks_in_process& in_;
  };

  struct support final : weft::plan::task_support {
    support(tasks_in_process& in, std::uint32_t number) : in_(in), number_(number), links_(in) {}
    std::uint32_t self() const override { return number_; }
    const weft::device_spec& name_of(std::uint32_t task) const override { return in_.table_.name_of(task); }
    weft::plan::device_number place(const weft::plan::placement& by, std::uint32_t n,
                                    const char*& rule) const override {
      return in_.table_.place(by, n, rule);
    }
    bool moved(const weft::device_spec& asked, weft::plan::device_number d) const override {
      return in_.table_.moved(asked, d);
    }
    weft::sequence<std::string> devices() const override { return in_.table_.devices(); }
    weft::plan::task_step* new_step() override { return new weft::detail::task_part(in_.table_, links_); }
    void read_variable(std::uint32_t node, weft::plan::device_number where, void* to) override {
      in_.of(where.task).read_variable(node, to);
    }
    void write_variable(std::uint32_t node, weft::plan::device_number where, const void* from) override {
      in_.of(where.task).write_variable(node, from);
    }

   private:
    tasks_in_process& in_;
    std::uint32_t number_;
    links links_;
  };

  struct task {
    task(tasks_in_process& of, const weft::graph& g, std::uint32_t n, weft::session_options o)
        : in(of), number(n), s(g, spanning(o)) {}
    weft::session_options spanning(weft::session_options o) {
      o.target = {[](void* t, const weft::graph&) -> weft::plan::task_support* {
                    return new support(static_cast<task*>(t)->in, static_cast<task*>(t)->number);
                  },
                  this};
      return o;
    }
    tasks_in_process& in;
    std::uint32_t number;
    weft::session s;
  };

  static weft::sequence<weft::detail::task_devices> table(std::size_t count, std::uint32_t cpus) {
    weft::sequence<weft::detail::task_devices> all;
    auto* const platform = weft::gpu::installed_platform;
    const auto gpus = platform ? static_cast<std::uint32_t>(platform->count()) : 0u;
    for (std::size_t t = 0; t < count; ++t) {
      const std::string name = "/job:worker/task:" + std::to_string(t);
      all.push_back({weft::parse_device(name.data(), name.size()), cpus, gpus});
    }
    return all;
  }

  weft::detail::task_table table_;
  weft::detail::parked_bytes parked_;
  std::vector<std::shared_ptr<weft::detail::mailbox>> boxes_;
  std::vector<std::unique_ptr<task>> all_;
  std::atomic<std::uint64_t> sent_{0}, bytes_{0};
};

}  // namespace test
