// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/collective/all_reduce.hpp>
#include <weft/distributed/membership/departure.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/distributed/membership/training_view.hpp>
#include <weft/distributed/membership/views/training_program.hpp>
#include <weft/distributed/membership/views/view_meeting.hpp>
#include <weft/distributed/training/bucket_thread.hpp>
#include <weft/distributed/training/exchange.hpp>
#include <weft/distributed/training/gradient_buckets.hpp>
#include <weft/distributed/training/gradient_buffers.hpp>
#include <weft/distributed/training/mean_updates.hpp>
#include <weft/distributed/training/shared_variables.hpp>
#include <weft/distributed/training/variable_broadcast.hpp>

namespace weft::detail {

/// The exchange of a replicated session in which every worker stores all variables: a group computes the mean of all
/// workers' gradients, and each worker applies the graph's own updates to this mean. A gradient of rows is summed in
/// dense form, together with one number per row that is positive if some worker has a gradient for the row. `Group` is
/// all_reduce or has its rank(), size(), shared_block(), sum() and mean(). If its strategy has bucket_bytes, it also
/// has shares_memory(), and different threads may call its functions one after the other. elastic_exchange handles lost
/// workers.
template <class Group>
class all_reduce_exchange : public exchange, private fetch_watcher {
 public:
  /// Waits for the other workers.
  template <class Strategy>
  all_reduce_exchange(task_server& here, shared_variables& variables, const Strategy& how,
                      const graph_identity& identity, deadline until)
      : all_reduce_exchange(here, variables) {
    here.connect_to(here.job());
    here.with_reason([&] { here.members().wait_for(until, [](const task_id&) { return true; }); });
    all_reduce_options options;
    options.job = here.job();
    make_group(identity, options, until);
    std::size_t bucket_bytes = 0;
    if constexpr (requires { how.bucket_bytes; }) {
      here.with_reason([&] { compare_buckets(how.bucket_bytes, until); });
      if (!group_->shares_memory() && group_->size() > 1) bucket_bytes = how.bucket_bytes;
    }
    buckets_.lay_out(bucket_bytes, 1);
    make_blocks(until);
    if (buckets_.are_small()) start_thread();
  }

  bool takes_over() const override { return false; }
  void set_effects(const sequence<std::uint32_t>& effects) override { apply_.set_effects(effects); }

  void request_stop() override { departure_.request(); }
  bool all_stop() const override { return all_stop_; }
  bool announce_stop(deadline) override { return false; }

  bool is_chief() const override { return group_->rank() == 0; }
  /// All workers of the job.
  training_view view() const override {
    training_view all;
    all.epoch = 1;
    for (int index = 0; index < here_.cluster().num_tasks(here_.job()); ++index) {
      all.members.push_back({index, 0});
      all.owners.push_back(index);
    }
    return all;
  }
  /// The number of the next update, starting at 0.
  std::int64_t next_step() const override { return next_step_; }
  gradient_buffers& gradients() override { return gradients_; }

  fetch_watcher* begin_step(std::uint32_t examples, std::size_t first_part) override {
    check_whole();
    if (!thread_ || unit_ == 0) return nullptr;
    if (thread_->under_way())
      throw error(error_code::failed_precondition, "step",
                  "the gradients of the last step are still being sent; call exchange() before you compute new ones");
    set_weight(examples);
    first_part_ = first_part;
    released_ = 0;
    buckets_.begin_step();
    thread_->begin();
    return this;
  }
  void abandon_step() override {
    if (thread_ && thread_->under_way() && !thread_->cancel()) torn_ = true;
  }

  void take_gradients() override {
    apply_.note_rows();
    variables_.note_additions(gradients_.all());
  }

  /// Computes the means and runs the update, unless no worker has an example.
  void update(deadline until, std::uint32_t examples, bool repeated, const replica_work*) override {
    make_update(until, examples, repeated);
  }
  void abandon_update() override { begin_anew(); }

  /// Does nothing: every worker already has the values of the last step.
  void refresh(deadline) override {}

  /// Takes part in the other workers' updates until all workers have called finish().
  void finish(deadline until, std::optional<std::uint32_t> unfinished, const typename exchange::make_update& update,
              const std::function<void()>& last) override {
    const auto time_for_each = until.remaining();
    const bool travels = thread_ && thread_->under_way();
    const bool all_had_stopped = all_stop_;  // then all workers call finish()
    others_train_ = true;
    if (unfinished || travels) update(time_for_each, unfinished.value_or(1));
    while (others_train_) {
      trains_ = false;
      update(time_for_each, 0);
      trains_ = true;
      if (all_stop_ && !all_had_stopped && others_train_)
        throw error(error_code::unavailable, "finish", "another worker was stopped by a signal");
    }
    here_.set_participation(participation::finished);
    if (last) last();
  }

  // ---- checkpoints ----

  /// Gives the chief's variables to all workers.
  std::int64_t restore(const std::function<std::optional<cluster_state>()>& load, deadline until) override {
    std::optional<cluster_state> at;
    if (is_chief()) at = load();
    if (at) at = variables_.adopt_step(*at);
    double front[] = {0, 0, 0, 0};
    if (at) {
      front[0] = 1;
      front[1] = static_cast<double>(at->global_step);
      front[2] = at->unit;
      front[3] = static_cast<double>(local_.step_number());
    }
    group_->sum(std::span<double>(front), until);
    if (front[0] == 0) return -1;
    broadcast_variables(
        *group_, local_, variables_.of(), 0, until,
        [&](std::uint32_t n, std::byte* to) { local_.read_variable(n, to); },
        [&](std::uint32_t n, const std::vector<std::byte>& bytes) {
          if (!is_chief()) write_variable(local_, n, bytes);
        });
    variables_.read_bases();
    next_step_ = variables_.global_step = static_cast<std::int64_t>(front[1]);
    unit_ = front[2];
    if (!is_chief()) local_.set_step_number(static_cast<std::int64_t>(front[3]));
    variables_.set_counters();
    return variables_.global_step;
  }

  cluster_state collect(deadline) override {
    return {variables_.global_step, next_step_ - 1, static_cast<std::uint32_t>(unit_)};
  }

 protected:
  // A batch weighs at least 2^-32 relative to the largest one.
  static constexpr double weight_of_vote = 0x1p-60, max_weight_of_votes = 0x1p-40;
  static constexpr int nobody = -1;

  /// Creates no group; the derived class does.
  all_reduce_exchange(task_server& here, shared_variables& variables)
      : here_(here),
        variables_(variables),
        local_(variables.local()),
        gradients_(variables),
        buckets_(variables, gradients_),
        apply_(variables, gradients_) {
    for (std::size_t i = 0; i < variables.size(); ++i)
      if (const device_spec& on = variables.of()[variables[i].node].device; on.has_job() && on.job != here.job())
        throw error(
            error_code::invalid_argument, variables[i].name,
            {"is placed on ", to_string(on),
             ", but with this strategy every worker keeps all variables; name no job, or use parameter_server"});
  }

  // ---- votes, sent together with the gradients ----

  /// Decides the votes of this worker for the update that begins. Returns true if there are any.
  virtual bool choose_votes() { return votes_ = departure_.is_requested() && trains_; }
  virtual void write_votes() {
    buckets_.with_votes([&](auto votes) { votes.back() = votes_ ? 1 : 0; });
  }
  virtual void read_votes() {
    buckets_.with_votes([&](auto votes) { all_stop_ |= votes.back() > 0; });
  }
  /// Called before a bucket of this worker's own gradients is overwritten.
  virtual void begin_bucket(std::size_t) {}

  // ---- updates ----

  void make_update(deadline until, std::uint32_t examples, bool repeated) {
    check_whole();
    if (thread_ && thread_->under_way()) {
      thread_->finish(until);
    } else if (!asks_who_trains_) {
      if (unit_ == 0) agree_on_unit(examples, until, repeated);
      if (unit_ == 0) took_part_ = 0;
      if (unit_ != 0 && begun_buckets_ == 0) set_weight(examples);
      for (; unit_ != 0 && next_bucket_ < buckets_.size(); ++next_bucket_) average(next_bucket_, until);
    }
    if (begun_buckets_ > 0) read_votes();
    next_bucket_ = begun_buckets_ = 0;
    others_train_ = took_part_ > 2 * max_weight_of_votes;
    if (!others_train_) ask_who_trains(until);
    end_update(took_part_ > 2 * max_weight_of_votes);
  }
  /// `has_mean`: some worker had an example.
  void end_update(bool has_mean) {
    if (!has_mean) return variables_.reset_averaged();  // undoes the assignments of this worker's step
    apply_.run();
    ++next_step_;
    ++variables_.global_step;
    variables_.adopt_counters();
    apply_.run_averages();
  }
  void begin_anew() {
    next_bucket_ = begun_buckets_ = 0;
    asks_who_trains_ = false;
  }

  /// Throws failed_precondition if the workers' bucket sizes differ: they would sum different gradients.
  void compare_buckets(std::size_t bytes, deadline until) {
    std::vector<double> of_each(group_->size());
    of_each[group_->rank()] = static_cast<double>(bytes);
    group_->sum(std::span<double>(of_each), until);
    for (std::size_t r = 0; r < of_each.size(); ++r) {
      if (of_each[r] == static_cast<double>(bytes)) continue;
      throw error(error_code::failed_precondition, "all_reduce",
                  {to_string(task_id{here_.job(), static_cast<int>(r)}), " sends gradients in buckets of ",
                   static_cast<std::uint64_t>(of_each[r]), " bytes, but ", here_.name(), " in buckets of ", bytes,
                   "; give all workers the same collective::bucket_bytes"});
    }
  }

  /// Sets the unit of weight for all workers: the first batch of the first worker with a nonempty one. It stays 0 while
  /// all batches are empty.
  void agree_on_unit(std::uint32_t examples, deadline until, bool repeated) {
    if (!repeated || examples_.size() != group_->size()) {
      examples_.assign(group_->size(), 0.0);
      examples_[group_->rank()] = examples;
    }
    group_->sum(std::span<double>(examples_), until);
    for (const double each : examples_)
      if (unit_ == 0) unit_ = each;
  }

  /// Called if no worker had an example in the last update: either all batches were empty, or all workers have called
  /// finish().
  void ask_who_trains(deadline until) {
    if (!asks_who_trains_) training_workers_ = trains_ ? 1 : 0;
    asks_who_trains_ = true;
    group_->sum(std::span<double>(&training_workers_, 1), until);
    asks_who_trains_ = false;
    others_train_ = training_workers_ != 0;
  }

  /// Sets the weight of this worker's gradients. A vote to stop travels with the gradients and requires a weight: that
  /// of an empty batch is then so small that it does not change the bits of any sum.
  void set_weight(std::uint32_t examples) {
    const bool votes = choose_votes();
    weight_ = examples > 0 || !votes ? examples / unit_ : weight_of_vote;
  }

  /// Called when a gradient is complete while the step still runs.
  void ready(std::size_t fetch) override {
    if (fetch < first_part_) return;
    const gradient_buffers::part& part = gradients_.parts()[fetch - first_part_];
    if (!part.whole) return;
    const std::size_t complete = buckets_.note(part.variable);
    if (complete > std::exchange(released_, complete)) thread_->release(complete);
  }

  void check_whole() const {
    if (!group_)
      throw error(error_code::failed_precondition, "exchange",
                  "the workers did not agree on how to continue training; make a new session");
    if (torn_)
      throw error(error_code::failed_precondition, "exchange",
                  "a step failed after some of its gradients were sent; make a new session");
  }

  void average(std::size_t k, deadline until) {
    buckets_[k].is_double ? average<double>(k, until) : average<float>(k, until);
  }
  template <class Element>
  void average(std::size_t k, deadline until) {
    const std::span<Element> part = buckets_.template elements<Element>(k);
    if (part.empty()) return;
    if (k >= begun_buckets_) {
      begin_bucket(k);
      if (weight_ == weight_of_vote) std::fill(part.begin(), part.end(), Element{0});
      if (k + 1 == buckets_.size()) write_votes();
    }
    begun_buckets_ = std::max(begun_buckets_, k + 1);
    const mean_report made = group_->mean(part, until, reduce_algorithm::automatic, weight_);
    took_part_ = made.weights;
    if (!made.finite && made.weights > max_weight_of_votes && refuses_nonfinite())
      refuse(buckets_[k].begin + made.element * sizeof(Element), sizeof(Element),
             made.rank ? view().members[*made.rank].index : nobody);
  }

  bool refuses_nonfinite() const {
    return !variables_.judges_gradients() && here_.options().not_finite != nonfinite_gradients::apply;
  }
  /// Throws the error for a mean that is not finite. All workers have the same mean, so either all of them throw or
  /// none. `at`: offset in bytes in the block. `whose`: the worker that sent the value, or nobody.
  void refuse(std::size_t at, std::size_t element_bytes, int whose) const {
    const std::size_t i = gradients_.variable_at(element_bytes == sizeof(double), at);
    if (i == variables_.size()) return;
    if (whose == nobody)
      throw error(error_code::invalid_argument, "exchange",
                  {"the mean of the workers' gradients of '", variables_[i].name, "' is not finite in step ",
                   next_step_, ", although each gradient is finite; lower the learning rate"});
    throw nonfinite_gradient("exchange", to_string(task_id{here_.job(), whose}), variables_[i].name,
                             (at - gradients_.offset_of(i)) / element_bytes, next_step_);
  }

  /// Creates the group of all tasks of the job. If another worker has a loss policy, it waits in its first meeting
  /// instead; reports the difference to it.
  void make_group(const graph_identity& identity, const all_reduce_options& options, deadline until) {
    if constexpr (std::is_same_v<Group, all_reduce>) {
      try {
        group_.emplace(here_, identity, options, until, group_members{{}, view_meeting::prefix});
      } catch (const error&) {
        if (view_meeting other(here_, training_program{}, {}); other.has_newcomers()) try {
            other.meet(-1, false, false, std::chrono::milliseconds(500));
          } catch (const error& why) {
            if (why.code() == error_code::failed_precondition) {
              here_.set_failure(why);
              throw;
            }
          }
        throw;
      }
    } else {
      group_.emplace(here_, identity, options, until);
    }
  }
  void make_blocks(deadline until) {
    gradients_.make_blocks([&](std::size_t bytes) { return group_->shared_block(bytes, until); });
  }
  void start_thread() {
    thread_.emplace(buckets_.size(), [this](std::size_t k, deadline by) { average(k, by); });
  }

  task_server& here_;
  shared_variables& variables_;
  session& local_;
  gradient_buffers gradients_;
  gradient_buckets buckets_;
  mean_updates apply_;
  std::optional<Group> group_;
  std::int64_t next_step_ = 0;

  std::size_t begun_buckets_ = 0;  // of the current update
  std::size_t next_bucket_ = 0;    // where to resume an update that has timed out
  std::vector<double> examples_;   // of each worker's batch, until unit_ is known
  double unit_ = 0;                // the batch that has weight 1
  double weight_ = 1;              // of this worker's gradients
  double took_part_ = 0;           // sum of the weights of all workers in the last update
  departure departure_;
  bool votes_ = false;            // this worker votes to stop in the current update
  bool all_stop_ = false;         // some worker has voted to stop
  bool trains_ = true;            // this worker has not called finish()
  bool others_train_ = true;      // some worker had not called finish(), as of the last update
  bool asks_who_trains_ = false;  // a call of ask_who_trains() has timed out and is to be repeated
  double training_workers_ = 0;   // operand of the sum in ask_who_trains()

  std::size_t first_part_ = 0, released_ = 0;  // of the current step
  bool torn_ = false;
  std::optional<bucket_thread> thread_;  // destroyed before the members that it uses
};

}  // namespace weft::detail
