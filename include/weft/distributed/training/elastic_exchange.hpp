// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/collective/all_reduce.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/distributed/membership/training_view.hpp>
#include <weft/distributed/membership/views/view_meeting.hpp>
#include <weft/distributed/training/all_reduce_exchange.hpp>
#include <weft/distributed/training/replica_parts.hpp>
#include <weft/distributed/training/shared_variables.hpp>
#include <weft/distributed/training/strategy.hpp>
#include <weft/distributed/training/variable_broadcast.hpp>
#include <weft/tensor/owned.hpp>
#include <weft/transport/separate.hpp>

namespace weft::detail {

/// An all-reduce with a loss policy: the workers that are alive agree on who trains (view_meeting) and repeat an update
/// that a loss has interrupted. Each worker keeps a copy of its own gradients for this, because an exchange overwrites
/// them. Workers that have made fewer updates adopt the values of a worker that has made more.
class elastic_exchange final : public all_reduce_exchange<all_reduce> {
 public:
  elastic_exchange(task_server& here, shared_variables& variables, std::size_t bucket_bytes, loss_policy policy,
                   const graph_identity& identity, deadline until)
      : all_reduce_exchange(here, variables),
        identity_(identity),
        said_bucket_bytes_(bucket_bytes),
        workers_(here.cluster().num_tasks(here.job())),
        admits_late_(policy.then != loss_action::stop) {
    here_.set_participation(participation::none);
    if (policy.then == loss_action::take_over)
      parts_.emplace(workers_);  // gradients are sent after the step
    else
      bucket_bytes_ = bucket_bytes;
    check_loss_policy(policy, "collective");
    meeting_.emplace(here_, training_program{identity.hash, identity.seed, bucket_bytes, printable(identity.settings)},
                     policy);
    here_.with_reason([&] { settle(until, false); });
    here_.set_participation(participation::needed);
    if (buckets_.are_small()) start_thread();
  }
  ~elastic_exchange() override { thread_.reset(); }

  bool takes_over() const override { return parts_.has_value(); }
  bool is_chief() const override { return meeting_->current().chief() == here_.index(); }
  training_view view() const override { return meeting_->current(); }
  /// Counts updates whose batches were all empty, too.
  std::int64_t next_step() const override { return updates_; }
  bool leaves_alone() const override { return leaves_alone_; }

  /// Makes an update with the workers that are alive, even if workers are lost meanwhile.
  void update(deadline until, std::uint32_t examples, bool repeated, const replica_work* work) override {
    if (!repeated) began_at_ = updates_;
    if (parts_ && !repeated) {
      begin_again();
      parts_->keep(here_.index(), updates_, examples, gradients_);
      block_has_own_ = true;
    }
    for (;; repeated = false) {
      if (!is_settling_) {
        if (parts_) compute_parts(work);
        try {
          parts_ ? make_update_of_all_replicas(until) : make_update(until, examples, repeated);
          note_update();
          break;
        } catch (const error& problem) {
          if (!group_ || !is_loss(problem)) throw;
          if (!trains_ && meeting_->has_finished_member()) {
            others_train_ = false;
            return;
          }
        }
      }
      try {
        settle(until, false);
      } catch (const error&) {
        if (trains_ || !meeting_->has_finished_member()) throw;
        is_settling_ = false;
        others_train_ = false;
        return;
      }
      if (updates_ > began_at_) return;  // settle() has adopted its result
    }
    if (std::exchange(has_admitted_, false)) settle(deadline(at_least(least_time, until)), true);
  }

  void abandon_update() override {
    begin_again();
    if (parts_) parts_->drop();
  }

  std::int64_t restore(const std::function<std::optional<cluster_state>()>& load, deadline until) override {
    if (has_joined_late_) return variables_.global_step;
    const std::int64_t step = all_reduce_exchange::restore(load, until);
    if (step < 0) return step;
    updates_ = step;
    settled_.unit = unit_;
    if (parts_) local_.set_step_number(updates_);
    settled_.random_step = local_.step_number();
    return step;
  }

 private:
  static constexpr int max_attempts = 8;
  static constexpr std::chrono::seconds least_time{5};

  void begin_again() {
    begin_anew();
    stage_ = stage::computes;
  }

  // ---- votes: which workers stop, and whether a newcomer waits ----

  std::size_t votes() const { return static_cast<std::size_t>(workers_) + 1; }
  bool choose_votes() override {
    admits_ = trains_ && admits_late_ && meeting_->has_newcomers();
    return all_reduce_exchange::choose_votes() || admits_;
  }
  void write_votes() override {
    buckets_.with_votes([&](auto votes) {
      std::fill(votes.begin(), votes.end(), 0);
      votes[static_cast<std::size_t>(here_.index())] = votes_ ? 1 : 0;
      votes.back() = admits_ ? 1 : 0;
    });
  }
  void read_votes() override {
    buckets_.with_votes([&](auto votes) {
      count_votes([&](int worker) { return votes[static_cast<std::size_t>(worker)] > 0; }, votes.back() > 0);
    });
  }
  /// Training ends if all members stop.
  template <class Stops>
  void count_votes(const Stops& stops, bool admits) {
    has_admitted_ = admits;
    bool all = true;
    for (const view_member& each : meeting_->current().members) all &= stops(each.index);
    if (!all && !all_stop_ && stops(here_.index())) leaves_alone_ = departure_.note_update();
    all_stop_ |= all || leaves_alone_;
  }

  void begin_bucket(std::size_t k) override { buckets_.keep(k); }

  // ---- loss_action::take_over ----

  /// Computes the gradients of lost replicas that this worker has taken over. Errors of the program's function
  /// propagate and do not count as losses.
  void compute_parts(const replica_work* work) {
    check_whole();
    if (stage_ != stage::computes || !trains_) return;
    for (int r = 0; r < parts_->replicas(); ++r) {
      if (meeting_->current().owner_of(r) != here_.index() || parts_->has(r, updates_)) continue;
      block_has_own_ = false;
      parts_->keep(r, updates_, compute_replica(variables_, here_.index(), {r, updates_}, work), gradients_);
    }
  }

  /// Makes an update from the gradients of all replicas. They are summed in the order of the replicas, so the bits do
  /// not depend on which worker computes a replica's gradients. Called again after a loss or deadline_exceeded.
  void make_update_of_all_replicas(deadline until) {
    const training_view& members = meeting_->current();
    const int self = here_.index();
    if (stage_ == stage::computes) {
      choose_votes();
      parts_->announce(members, self, updates_, votes_, admits_, trains_);
      stage_ = stage::announces;
    }
    if (stage_ == stage::announces) {
      group_->sum(parts_->said(), until);
      for (int r = 0; unit_ == 0 && r < parts_->replicas(); ++r) unit_ = parts_->examples(r);
      took_part_ = unit_ == 0 ? 0 : parts_->weights(unit_);
      if (took_part_ > 0 && refuses_nonfinite())
        for (const bool is_double : {false, true})
          if (const auto [whose, element] = parts_->first_nonfinite(is_double); whose >= 0)
            refuse(element * (is_double ? 8 : 4), is_double ? 8 : 4, whose);
      if (sums_in_memory() && !block_has_own_) parts_->copy_to(self, gradients_);
      stage_ = stage::sums;
    }
    for (; took_part_ > 0 && next_bucket_ < buckets_.size(); ++next_bucket_)
      buckets_[next_bucket_].is_double ? average_in_order<double>(until) : average_in_order<float>(until);
    begin_again();
    count_votes([this](int worker) { return parts_->stops(worker); }, parts_->admits());
    others_train_ = took_part_ > 0 || parts_->anybody_trains();
    end_update(took_part_ > 0);
  }

  /// If each member has only its own part, the sum in shared memory has the order of the replicas.
  bool sums_in_memory() const {
    return group_->shares_memory() && static_cast<int>(group_->size()) == parts_->replicas();
  }

  template <class Element>
  void average_in_order(deadline until) {
    const std::span<Element> block = gradients_.template block<Element>();
    if (block.empty()) return;
    bool finite = true;
    if (sums_in_memory()) {
      finite = group_->mean(block, until, reduce_algorithm::automatic, parts_->examples(here_.index()) / unit_).finite;
    } else {
      const auto mine = parts_->template arrays<Element>(meeting_->current(), here_.index(), updates_, unit_);
      group_->sum_in_order(block, std::span<const weighted_array<Element>>(mine), parts_->ranks(meeting_->current()),
                           until);
      finite = divide(block.data(), block.size(), static_cast<Element>(took_part_));
    }
    if (!finite && refuses_nonfinite())
      refuse(first_nonfinite(block.data(), block.size()) * sizeof(Element), sizeof(Element), nobody);
  }

  // ---- views ----

  static bool is_loss(const error& problem) {
    return problem.code() == error_code::unavailable || problem.code() == error_code::aborted;
  }

  /// Does not count an update without contributions: all workers have called finish().
  void note_update() { note_updates(updates_ + (others_train_ ? 1 : 0)); }
  void note_updates(std::int64_t updates) {
    updates_ = updates;
    if (parts_) local_.set_step_number(updates_);  // random numbers then depend only on the replica and the step
    settled_ = {unit_, local_.step_number(), others_train_};
  }

  static deadline::duration at_least(deadline::duration least, deadline until) {
    return std::max(least, until.remaining());
  }

  /// Agrees with the other workers on a view to train in, and updates this worker's values. This can advance the worker
  /// by one update. Called again after deadline_exceeded.
  void settle(deadline until, bool admits) {
    is_settling_ = true;
    try {
      settle_by(until, admits);
    } catch (const error& problem) {
      is_settling_ = problem.code() == error_code::deadline_exceeded;
      throw;
    }
    is_settling_ = false;
  }
  void settle_by(deadline until, bool admits) {
    const bool begins = updates_ < 0;  // this worker has no values yet
    for (int attempt = 0;; ++attempt, admits = false) {
      const training_view next = meeting_->meet(updates_, admits, !trains_, until);
      if (next.epoch == 1 && updates_ < 0) note_updates(0);  // all workers start from the same values
      const deadline by(at_least(least_time, until));
      try {
        take_view(next, by);
        break;
      } catch (const error& problem) {
        // Other members may have moved on to the next view, or may not have received this one.
        if (!is_loss(problem) && problem.code() != error_code::deadline_exceeded) throw;
        if (attempt == max_attempts || here_.stopping() || (begins && until.expired())) throw;
      }
    }
    here_.clear_failure();
    const bool has_changed = view().epoch > 1;
    here_.members().waits().end(has_changed ? updates_ : -1, describe(view()), has_changed && is_chief());
  }

  std::string describe(const training_view& v) const {
    std::string text = to_string(v);
    bool any = false;
    for (int index = 0; index < workers_; ++index) {
      if (v.find(index)) continue;
      append(text, {any ? ", " : "; missing: ", index});
      any = true;
    }
    return text;
  }

  void take_view(const training_view& next, deadline until) {
    if (buckets_.is_laid_out() && !parts_) keep_the_rest();
    group_.reset();
    gradients_.drop_blocks();
    all_reduce_options options;
    options.job = here_.job();
    options.channel = str_cat({"all_reduce/", next.epoch});
    group_members members{{}, view_meeting::channel_of(next.epoch)};
    for (const view_member& each : next.members) members.all.push_back({each.index, each.incarnation});
    group_.emplace(here_, identity_, options, until, members);
    std::size_t source = 0;
    while (next.members[source].index != next.source) ++source;
    if (next.epoch == 1) compare_buckets(said_bucket_bytes_, until);
    agree_on_layout(until);
    make_blocks(until);
    apply_.replan();
    if (next.brings_values) bring_values(next, source, until);
    rewind();
  }

  /// Agrees on the layout of the gradients, which stays the same in all views: a member that has a layout sends it.
  void agree_on_layout(deadline until) {
    std::vector<double> of_each(group_->size());
    of_each[group_->rank()] = buckets_.is_laid_out() ? static_cast<double>(bucket_bytes_) + 1 : 0;
    group_->sum(std::span<double>(of_each), until);
    if (buckets_.is_laid_out()) return;
    const double known = *std::max_element(of_each.begin(), of_each.end());
    if (known > 0)
      bucket_bytes_ = static_cast<std::size_t>(known) - 1;
    else if (group_->shares_memory() || group_->size() == 1)
      bucket_bytes_ = 0;
    buckets_.lay_out(bucket_bytes_, votes());
  }

  void keep_the_rest() {
    for (; begun_buckets_ < buckets_.size(); ++begun_buckets_) buckets_.keep(begun_buckets_);
  }
  /// Restarts the current update.
  void rewind() {
    buckets_.bring_back();
    begin_again();
    block_has_own_ = false;
    unit_ = settled_.unit;
  }

  /// Sends the values of the member with the most updates to members that have fewer or none, which adopt them as a
  /// whole.
  void bring_values(const training_view& next, std::size_t source, deadline until) {
    const bool gives = here_.index() == next.source, takes = updates_ < next.updates, is_new = updates_ < 0;
    double front[] = {static_cast<double>(next_step_), settled_.unit, static_cast<double>(settled_.random_step),
                      settled_.others_train ? 1.0 : 0.0, static_cast<double>(variables_.global_step)};
    group_->broadcast(std::span<double>(front), source, until);
    const graph& g = variables_.of();
    std::vector<std::vector<std::byte>> all(g.size());
    broadcast_variables(
        *group_, local_, g, source, until, [&](std::uint32_t n, std::byte* to) { read_settled(n, to); },
        [&](std::uint32_t n, const std::vector<std::byte>& bytes) {
          if (!gives && takes) all[n] = bytes;
        });
    if (gives || !takes) return;
    for (std::uint32_t n = 0; n < g.size(); ++n)
      if (!all[n].empty() && (is_new || kind_of(g[n].def) != variable_kind::local || is_written_with_updates(n)))
        write_variable(local_, n, all[n]);
    variables_.read_bases();
    next_step_ = static_cast<std::int64_t>(front[0]);
    variables_.global_step = static_cast<std::int64_t>(front[4]);
    settled_ = {front[1], static_cast<std::int64_t>(front[2]), front[3] != 0};
    unit_ = settled_.unit;
    others_train_ = settled_.others_train;
    if (is_new) local_.set_step_number(settled_.random_step);
    has_joined_late_ |= is_new;
    variables_.set_counters();
    updates_ = next.updates;
    if (parts_) local_.set_step_number(updates_);
  }
  bool is_written_with_updates(std::uint32_t variable) const {
    const auto& all = variables_.effects();
    return std::any_of(all.begin(), all.end(),
                       [&](std::uint32_t n) { return variables_.of()[n].def.inputs[0].node == variable; });
  }
  /// Reads a variable as of the last complete update. A step computed since then has assigned averaged variables.
  void read_settled(std::uint32_t n, std::byte* to) {
    for (std::size_t i = variables_.first_averaged(); i < variables_.first_frozen(); ++i)
      if (variables_[i].node == n) {
        std::copy_n(variables_.base_of(i).data(), variables_[i].bytes(), to);
        return;
      }
    local_.read_variable(n, to);
  }

  graph_identity identity_;
  std::size_t said_bucket_bytes_, bucket_bytes_ = 0;  // equal on all workers; 0: one bucket per type
  int workers_;                                       // of the job
  bool admits_late_;                                  // lost workers may rejoin between two steps
  std::optional<view_meeting> meeting_;
  std::int64_t updates_ = -1;  // completed updates, including those with empty batches; -1: no values yet
  std::int64_t began_at_ = 0;  // updates_ before the current update
  struct {
    double unit = 0;
    std::int64_t random_step = 0;
    bool others_train = true;
  } settled_;  // as of the last complete update
  bool has_joined_late_ = false, leaves_alone_ = false;
  bool is_settling_ = false;                    // a call of settle() has timed out
  bool admits_ = false, has_admitted_ = false;  // this worker has seen a newcomer; some worker has

  // With loss_action::take_over:
  enum class stage : unsigned char { computes, announces, sums };  // of the current update
  std::optional<replica_parts> parts_;
  stage stage_ = stage::computes;
  bool block_has_own_ = false;  // the buffers contain this worker's own gradients
};

template <class Strategy>
owned<exchange> make_all_reduce_exchange(task_server& here, shared_variables& variables, const Strategy& how,
                                         const graph_identity& identity, deadline until) {
  if constexpr (requires { how.on_loss; })
    if (how.on_loss != loss_policy{})
      return owned<exchange>(new elastic_exchange(here, variables, how.bucket_bytes, how.on_loss, identity, until));
  return owned<exchange>(new all_reduce_exchange<typename Strategy::group>(here, variables, how, identity, until));
}

WEFT_DISTRIBUTED_INSTANTIATE(owned<exchange> make_all_reduce_exchange(task_server&, shared_variables&,
                                                                      const collective&, const graph_identity&,
                                                                      deadline));

}  // namespace weft::detail
