#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
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
#include <weft/distributed/membership/view.hpp>
#include <weft/distributed/membership/view_meeting.hpp>
#include <weft/distributed/training/bucket_thread.hpp>
#include <weft/distributed/training/exchange.hpp>
#include <weft/distributed/training/gradient_buffers.hpp>
#include <weft/distributed/training/replica_parts.hpp>
#include <weft/distributed/training/shared_variables.hpp>
#include <weft/distributed/training/strategy.hpp>
#include <weft/transport/separate.hpp>

namespace weft::detail {

/// How a replicated session trains where every worker has all variables: a group forms the mean of all workers'
/// gradients, and each worker runs the graph's own updates on it. A gradient that is rows is summed as a whole, and
/// beside it one number for each row, which says whether somebody has a gradient of it. `Group` is a all_reduce,
/// or has its rank(), size(), shared_block(), sum() and mean(); where its strategy has bucket_bytes, shares_memory()
/// too, and its functions may be called by one thread after the other.
template <class Group>
class all_reduce_exchange final : public exchange, private fetch_watcher {
  static constexpr bool can_recover = std::is_same_v<Group, all_reduce>;

 public:
  /// Meets the other workers.
  template <class Strategy>
  all_reduce_exchange(task_server& here, shared_variables& variables, const Strategy& how,
                      const graph_identity& identity, deadline until)
      : here_(here), variables_(variables), local_(variables.local()), gradients_(variables) {
    effects_ = variables.effects();
    for (std::size_t i = 0; i < variables.size(); ++i)
      if (const device_spec& on = variables.of()[variables[i].node].device; on.has_job() && on.job != here.job())
        throw error(error_code::invalid_argument, variables[i].name,
                    {"is placed on ", to_string(on),
                     ", and every worker keeps all variables here: name no job, or "
                     "train by parameter_server"});
    if constexpr (requires { how.on_loss; })
      if (how.on_loss != loss_policy{}) {
        join(how, identity, until);
        return;
      }
    here.connect_to(here.job());
    here.with_reason([&] { here.members().wait_for(until, [](const task_id&) { return true; }); });
    all_reduce_options options;
    options.job = here.job();
    make_group(identity, options, until);
    examples_.assign(group_->size(), 0);
    if constexpr (requires { how.bucket_bytes; }) {
      here.with_reason([&] { compare_buckets(how.bucket_bytes, until); });
      if (!group_->shares_memory() && group_->size() > 1) bucket_bytes_ = how.bucket_bytes;
    }
    lay_out_gradients();
    make_blocks(until);
    if (in_buckets_) thread_.emplace(buckets_.size(), [this](std::size_t k, deadline by) { average(k, by); });
  }

  bool takes_over() const override { return parts_.has_value(); }
  void set_effects(const sequence<std::uint32_t>& effects) override {
    if (effects == effects_) return;
    effects_ = effects;
    apply_.reset();
  }

  void request_stop() override { departure_.request(); }
  bool all_stop() const override { return all_stop_; }
  bool announce_stop(deadline) override { return false; }

  bool is_chief() const override {
    return meeting_ ? meeting_->current().chief() == here_.index() : group_->rank() == 0;
  }
  /// The workers that train together; without a loss policy those of the job.
  training_view view() const override {
    if (meeting_) return meeting_->current();
    training_view all;
    all.epoch = 1;
    for (int index = 0; index < here_.cluster().num_tasks(here_.job()); ++index) {
      all.members.push_back({index, 0});
      all.owners.push_back(index);
    }
    return all;
  }
  /// The number of the next update, from 0 on: with a loss policy those whose batches were all empty are counted too.
  std::int64_t next_step() const override { return meeting_ ? updates_ : next_step_; }
  bool leaves_alone() const override { return leaves_alone_; }
  gradient_buffers& gradients() override { return gradients_; }

  fetch_watcher* begin_step(std::uint32_t examples, std::size_t first_part) override {
    check_whole();
    if (!thread_ || unit_ == 0) return nullptr;
    if (thread_->under_way())
      throw error(error_code::failed_precondition, "step",
                  "the gradients of the last step are on their way; call exchange() before you compute new ones");
    set_weight(examples);
    first_part_ = first_part;
    released_ = 0;
    for (bucket& each : buckets_) each.missing = each.variables;
    thread_->begin();
    return this;
  }
  void abandon_step() override {
    if (thread_ && thread_->under_way() && !thread_->cancel()) torn_ = true;
  }

  void take_gradients() override {
    gradients_.for_each_by_rows([&](std::size_t i, std::size_t part, std::size_t end) {
      // Behind the gradient itself come the numbers of its rows.
      variables_[i].is_double() ? note_touched<double>(i, part + 1, end) : note_touched<float>(i, part + 1, end);
    });
    variables_.note_additions(gradients_.all());
  }

  /// Forms the means and makes the update, unless no worker has an example.
  void update(deadline until, std::uint32_t examples, bool repeated, const replica_work* work) override {
    if constexpr (can_recover)
      if (meeting_) return update_whatever_happens(until, examples, repeated, work);
    make_update(until, examples, repeated);
  }
  void abandon_update() override {
    begin_anew();
    if (parts_) parts_->drop();
  }

  /// Every worker has the values of the last step.
  void refresh(deadline) override {}

  /// Takes part in the others' updates until all have come here.
  void finish(deadline until, std::optional<std::uint32_t> unfinished, const typename exchange::make_update& update,
              const std::function<void()>& last) override {
    const auto time_for_each = until.remaining();
    const bool travels = thread_ && thread_->under_way();
    const bool all_had_stopped = all_stop_;  // and all come here
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

  /// The chief's variables become those of all.
  std::int64_t restore(const std::function<std::optional<cluster_state>()>& load, deadline until) override {
    if (has_joined_late_) return variables_.global_step;
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
    const graph& g = variables_.of();
    std::vector<std::byte> bytes;
    for (std::uint32_t n = 0; n < g.size(); ++n) {
      if (!is_operation<variable_op>(g[n].def.op)) continue;
      bytes.assign(local_.variable_info(n).bytes() + 1, {});
      if (is_chief()) {
        local_.read_variable(n, bytes.data());
        bytes.back() = static_cast<std::byte>(local_.state_of(n).initialized);
      }
      broadcast(bytes, until);
      if (is_chief()) continue;
      local_.write_variable(n, bytes.data());
      local_.state_of(n).initialized = bytes.back() != std::byte{0};
    }
    variables_.read_bases();
    next_step_ = updates_ = variables_.global_step = static_cast<std::int64_t>(front[1]);
    unit_ = settled_unit_ = front[2];
    if (!is_chief()) local_.set_step_number(static_cast<std::int64_t>(front[3]));
    variables_.set_counters();
    if (parts_) local_.set_step_number(updates_);
    settled_random_step_ = local_.step_number();
    return variables_.global_step;
  }

  cluster_state collect(deadline) override {
    return {variables_.global_step, next_step_ - 1, static_cast<std::uint32_t>(unit_)};
  }

 private:
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
    if (begun_buckets_ > 0) {
      if (meeting_)
        count_votes();
      else
        all_stop_ = all_stop_ || has_votes();
    }
    next_bucket_ = begun_buckets_ = 0;
    others_train_ = took_part_ > 2 * max_weight_of_votes;
    if (!others_train_) ask_who_trains(until);
    end_update(took_part_ > 2 * max_weight_of_votes);
  }
  /// `has_mean`: somebody had an example.
  void end_update(bool has_mean) {
    if (!has_mean) return variables_.reset_averaged();  // this worker's step has assigned them
    apply();
    ++next_step_;
    ++variables_.global_step;
    variables_.adopt_counters();
    average_updates();
  }
  void begin_anew() {
    next_bucket_ = begun_buckets_ = 0;
    asks_who_trains_ = false;
    stage_ = stage::computes;
  }

  // A batch counts 2^-32 at least, beside the largest.
  static constexpr double weight_of_vote = 0x1p-60, max_weight_of_votes = 0x1p-40;

  /// Gradients that travel together: a part of a block.
  struct bucket {
    bool is_double;
    std::size_t begin, bytes;
    std::size_t variables, missing;  // how many; and of how many a step has not brought the gradient
  };

  /// Workers with other buckets would sum other gradients.
  void compare_buckets(std::size_t bytes, deadline until) {
    std::vector<double> of_each(group_->size());
    of_each[group_->rank()] = static_cast<double>(bytes);
    group_->sum(std::span<double>(of_each), until);
    for (std::size_t r = 0; r < of_each.size(); ++r) {
      if (of_each[r] == static_cast<double>(bytes)) continue;
      throw error(error_code::failed_precondition, "all_reduce",
                  {to_string(task_id{here_.job(), static_cast<int>(r)}), " sends gradients in buckets of ",
                   static_cast<std::uint64_t>(of_each[r]), " bytes, ", here_.name(), " in buckets of ", bytes,
                   "; give all workers the same collective::bucket_bytes"});
    }
  }

  /// What counts 1, for all: the first batch of the first worker that has one. It stays 0 while all are empty.
  void agree_on_unit(std::uint32_t examples, deadline until, bool repeated) {
    if (!repeated) {
      std::fill(examples_.begin(), examples_.end(), 0.0);
      examples_[group_->rank()] = examples;
    }
    group_->sum(std::span<double>(examples_), until);
    for (const double each : examples_)
      if (unit_ == 0) unit_ = each;
  }

  /// Nobody had an example in the last update: either all batches were empty, or all workers have come to finish().
  void ask_who_trains(deadline until) {
    if (!asks_who_trains_) training_workers_ = trains_ ? 1 : 0;
    asks_who_trains_ = true;
    group_->sum(std::span<double>(&training_workers_, 1), until);
    asks_who_trains_ = false;
    others_train_ = training_workers_ != 0;
  }

  /// How much this worker's gradients count. To stop it adds a vote to the gradients, which needs a weight: that of an
  /// empty batch is then so small that no sum has other bits for it.
  void set_weight(std::uint32_t examples) {
    votes_ = departure_.is_requested() && trains_;
    admits_ = sees_newcomers();
    weight_ = examples > 0 || !(votes_ || admits_) ? examples / unit_ : weight_of_vote;
  }

  bool sees_newcomers() const { return meeting_ && trains_ && admits_late_ && meeting_->has_newcomers(); }

  /// Before a bucket is averaged for the first time.
  template <class Element>
  void begin_bucket(std::span<Element> part, bool is_last) {
    if (weight_ == weight_of_vote) std::fill(part.begin(), part.end(), Element{0});
    if (!is_last) return;
    if (!meeting_) {
      part.back() = votes_ ? 1 : 0;
      return;
    }
    const std::span<Element> votes = part.last(room_for_votes());
    std::fill(votes.begin(), votes.end(), Element{0});
    votes[static_cast<std::size_t>(here_.index())] = votes_ ? 1 : 0;
    votes.back() = admits_ ? 1 : 0;
  }
  /// Elements: with a loss policy one of each worker, which says whether it stops, and one for those that wait to take
  /// part.
  std::size_t room_for_votes() const { return meeting_ ? voters_ + 1 : 1; }

  bool has_votes() const {
    const auto in_last = [this]<class Element>(Element) {
      return gradients_
                 .template block<Element>()[(buckets_.back().begin + buckets_.back().bytes) / sizeof(Element) - 1] > 0;
    };
    return buckets_.back().is_double ? in_last(double{}) : in_last(float{});
  }

  void lay_out_gradients() {
    std::size_t bytes[2] = {0, 0};
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < variables_.first_frozen(); ++i) {
      order.push_back(i);
      bytes[variables_[i].is_double()] += variables_[i].bytes();
    }
    in_buckets_ = bucket_bytes_ != 0 && std::max(bytes[0], bytes[1]) > bucket_bytes_;
    if (in_buckets_) sort_by_time(order);
    touched_.resize(variables_.trained());
    for (const bool is_double : {false, true})
      for (const std::size_t i : order)
        if (variables_[i].is_double() == is_double) place_gradient(i);
    bucket& last = buckets_.back();  // its last element is what workers vote by
    gradients_.take_room(last.is_double, meeting_ ? room_for_votes() * (last.is_double ? 8 : 4) : 1);
    last.bytes = gradients_.room_taken(last.is_double) - last.begin;
    for (std::size_t i = 0; i < variables_.first_averaged(); ++i) {
      gradients_.fetch_whole(i);
      for (std::size_t k = 1; k < variables_[i].lists.size(); k += 2) gradients_.fetch_list(i, k);
    }
  }

  /// The order in which reverse mode has recorded gradients, which is about that in which they are computed. Gradients
  /// that are found out after the step come last.
  void sort_by_time(std::vector<std::size_t>& order) const {
    const auto time = [&](std::size_t i) { return comes_late(i) ? graph_node::no_node : variables_[i].gradient.node; };
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return time(a) < time(b); });
  }
  bool comes_late(std::size_t i) const { return i >= variables_.first_averaged() || variables_[i].has_rows(); }

  void place_gradient(std::size_t i) {
    const shared_variable& v = variables_[i];
    const std::size_t begin = gradients_.room_taken(v.is_double());
    gradients_.take_room(i);
    if (v.has_rows()) touched_[i].offset = gradients_.take_room(v.is_double(), v.rows * size_of(v.type));
    if (buckets_.empty() || buckets_.back().is_double != v.is_double() ||
        (in_buckets_ && buckets_.back().bytes >= bucket_bytes_))
      buckets_.push_back({v.is_double(), begin, 0, 0, 0});
    bucket& of = buckets_.back();
    of.bytes = gradients_.room_taken(v.is_double()) - of.begin;
    ++of.variables;
    bucket_of_.resize(variables_.size());
    bucket_of_[i] = buckets_.size() - 1;
  }

  /// A gradient has come while the step goes on.
  void ready(std::size_t fetch) override {
    if (fetch < first_part_) return;
    const gradient_buffers::part& part = gradients_.parts()[fetch - first_part_];
    if (!part.whole || comes_late(part.variable)) return;
    --buckets_[bucket_of_[part.variable]].missing;
    const std::size_t before = released_;
    while (released_ < buckets_.size() && buckets_[released_].missing == 0) ++released_;
    if (released_ > before) thread_->release(released_);
  }

  void check_whole() const {
    if (!group_)
      throw error(error_code::failed_precondition, "exchange",
                  "the workers have not agreed on how training goes on; make a new session");
    if (torn_)
      throw error(error_code::failed_precondition, "exchange",
                  "a step has failed when some of its gradients had left; make a new session");
  }

  void average(std::size_t k, deadline until) {
    buckets_[k].is_double ? average<double>(k, until) : average<float>(k, until);
  }
  template <class Element>
  void average(std::size_t k, deadline until) {
    const bucket& b = buckets_[k];
    const std::span<Element> part =
        gradients_.template block<Element>().subspan(b.begin / sizeof(Element), b.bytes / sizeof(Element));
    if (part.empty()) return;
    if (k >= begun_buckets_) {
      if (meeting_) keep(b);
      begin_bucket(part, k + 1 == buckets_.size());
    }
    begun_buckets_ = std::max(begun_buckets_, k + 1);
    const mean_report made = group_->mean(part, until, reduce_algorithm::automatic, weight_);
    took_part_ = made.weights;
    if (!made.finite && made.weights > max_weight_of_votes && refuses_nonfinite())
      refuse(b.begin + made.element * sizeof(Element), sizeof(Element),
             made.rank ? view().members[*made.rank].index : nobody);
  }

  bool refuses_nonfinite() const {
    return !variables_.judges_gradients() && here_.options().not_finite != nonfinite_gradients::apply;
  }
  /// All workers have the same mean, and all throw or none does. `at`: the byte of the block. `whose`: the worker that
  /// has brought it, or nobody.
  void refuse(std::size_t at, std::size_t element_bytes, int whose) const {
    const std::size_t i = gradients_.variable_at(element_bytes == sizeof(double), at);
    if (i == variables_.size()) return;
    if (whose == nobody)
      throw error(error_code::invalid_argument, "exchange",
                  {"the mean of the workers' gradients of '", variables_[i].name, "' is not finite in step ",
                   next_step_, ", though each of them is; lower the learning rate"});
    throw nonfinite_gradient("exchange", to_string(task_id{here_.job(), whose}), variables_[i].name,
                             (at - gradients_.offset_of(i)) / element_bytes, next_step_);
  }

  // ---- losses ----

  /// All tasks of the job. A worker that has a loss policy meets the others first: it would wait here in vain.
  void make_group(const graph_identity& identity, const all_reduce_options& options, deadline until) {
    if constexpr (can_recover) {
      using meeting = view_meeting;
      try {
        group_.emplace(here_, identity, options, until, group_members{{}, meeting::prefix});
      } catch (const error&) {
        if (meeting other(here_, training_program{}, {}); other.has_newcomers()) try {
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

  template <class Strategy>
  void join(const Strategy& how, const graph_identity& identity, deadline until) {
    identity_ = identity;
    here_.set_participation(participation::none);
    said_bucket_bytes_ = how.bucket_bytes;
    admits_late_ = how.on_loss.then != loss_action::stop;
    updates_ = -1;
    const int workers = here_.cluster().num_tasks(here_.job());
    voters_ = static_cast<std::size_t>(workers);
    if (how.on_loss.then == loss_action::take_over)
      parts_.emplace(workers);  // gradients leave when the step has ended
    else
      bucket_bytes_ = how.bucket_bytes;
    check_loss_policy(how.on_loss, "collective");
    meeting_.emplace(here_,
                     training_program{identity.hash, identity.seed, how.bucket_bytes, printable(identity.settings)},
                     how.on_loss);
    here_.with_reason([&] { settle(until, false); });
    here_.set_participation(participation::needed);
    if (in_buckets_) thread_.emplace(buckets_.size(), [this](std::size_t k, deadline by) { average(k, by); });
  }

  /// Makes an update with the workers that are there, whoever is lost meanwhile.
  void update_whatever_happens(deadline until, std::uint32_t examples, bool repeated, const replica_work* work) {
    if (!repeated) began_at_ = updates_;
    if (parts_ && !repeated) {
      begin_anew();
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
      if (updates_ > began_at_) return;  // it is complete
    }
    if (std::exchange(has_admitted_, false)) settle(deadline(at_least(least_time, until)), true);
  }

  /// Computes the parts of lost workers that are now this one's. An error of the program's function passes through,
  /// and does not count as a loss.
  void compute_parts(const replica_work* work) {
    check_whole();
    if (stage_ != stage::computes || !trains_) return;
    for (int r = 0; r < parts_->replicas(); ++r) {
      if (meeting_->current().owner_of(r) != here_.index() || parts_->has(r, updates_)) continue;
      block_has_own_ = false;
      parts_->keep(r, updates_, compute_replica(variables_, here_.index(), {r, updates_}, work), gradients_);
    }
  }

  /// The same bits come of it whoever computes a replica's gradients: they are summed in the order of the replicas.
  /// After a loss or deadline_exceeded it is called again.
  void make_update_of_all_replicas(deadline until) {
    const training_view& members = meeting_->current();
    const int self = here_.index();
    if (stage_ == stage::computes) {
      votes_ = departure_.is_requested() && trains_;
      admits_ = sees_newcomers();
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
    begin_anew();
    count_votes([this](int worker) { return parts_->stops(worker); }, parts_->admits());
    others_train_ = took_part_ > 0 || parts_->anybody_trains();
    end_update(took_part_ > 0);
  }

  /// Where each member has its own part alone, shared memory sums them in the same order.
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

  static bool is_loss(const error& problem) {
    return problem.code() == error_code::unavailable || problem.code() == error_code::aborted;
  }

  /// An update to which nobody has brought anything, for all have come to finish(), has no number.
  void note_update() { note_updates(updates_ + (others_train_ ? 1 : 0)); }
  void note_updates(std::int64_t updates) {
    updates_ = updates;
    settled_unit_ = unit_;
    settled_others_train_ = others_train_;
    if (parts_) local_.set_step_number(updates_);  // so random numbers follow from the replica and the step
    settled_random_step_ = local_.step_number();
  }

  static deadline::duration at_least(deadline::duration least, deadline until) {
    return std::max(least, until.remaining());
  }

  /// Trains from here on in a view on which all of its workers agree. Brings this worker's values up to date: it may
  /// then be one update further. After deadline_exceeded it is called again.
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
      if (next.epoch == 1 && updates_ < 0) note_updates(0);  // all have the same first values
      const deadline by(at_least(least_time, until));
      try {
        take_view(next, by);
        break;
      } catch (const error& problem) {
        // Others may have left for the next view, or not have heard of this one.
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
    for (int index = 0; index < here_.cluster().num_tasks(here_.job()); ++index) {
      if (v.find(index)) continue;
      append(text, {any ? ", " : "; missing: ", index});
      any = true;
    }
    return text;
  }

  void take_view(const training_view& next, deadline until) {
    if constexpr (can_recover) {
      if (is_laid_out_ && !parts_) keep_the_rest();
      group_.reset();
      gradients_.drop_blocks();
      all_reduce_options options;
      options.job = here_.job();
      options.channel = str_cat({"all_reduce/", next.epoch});
      group_members members{{}, view_meeting::channel_of(next.epoch)};
      for (const view_member& each : next.members) members.all.push_back({each.index, each.incarnation});
      group_.emplace(here_, identity_, options, until, members);
      examples_.assign(group_->size(), 0);
      std::size_t source = 0;
      while (next.members[source].index != next.source) ++source;
      if (next.epoch == 1) compare_buckets(said_bucket_bytes_, until);
      agree_on_layout(until);
      make_blocks(until);
      apply_.reset();
      fed_.clear();
      if (next.brings_values) bring_values(next, source, until);
      rewind();
    }
  }

  /// Gradients stay where they are when the view changes: a member that has laid them out tells the others how.
  void agree_on_layout(deadline until) {
    std::vector<double> of_each(group_->size());
    of_each[group_->rank()] = is_laid_out_ ? static_cast<double>(bucket_bytes_) + 1 : 0;
    group_->sum(std::span<double>(of_each), until);
    if (is_laid_out_) return;
    const double known = *std::max_element(of_each.begin(), of_each.end());
    if (known > 0)
      bucket_bytes_ = static_cast<std::size_t>(known) - 1;
    else if (group_->shares_memory() || group_->size() == 1)
      bucket_bytes_ = 0;
    lay_out_gradients();
    is_laid_out_ = true;
  }

  /// What this worker brings to an update, for an exchange that has to be repeated: its own gradients, which the
  /// exchange overwrites.
  void keep(const bucket& b) {
    std::vector<std::byte>& to = kept_[b.is_double];
    const mutable_bytes block = gradients_.block(b.is_double);
    if (to.size() < block.size()) to.resize(block.size());
    std::copy_n(block.data() + b.begin, b.bytes, to.data() + b.begin);
  }
  void keep_the_rest() {
    for (std::size_t k = begun_buckets_; k < buckets_.size(); ++k)
      if (!gradients_.block(buckets_[k].is_double).empty()) keep(buckets_[k]);
    begun_buckets_ = buckets_.size();
  }
  /// The update that is under way begins anew.
  void rewind() {
    for (const bool is_double : {false, true})
      std::copy_n(kept_[is_double].data(), std::min(kept_[is_double].size(), gradients_.block(is_double).size()),
                  gradients_.block(is_double).data());
    begin_anew();
    block_has_own_ = false;
    unit_ = settled_unit_;
  }

  /// The values of the member that has made the most updates become those of members that have made fewer, or none.
  /// Each takes them over as a whole.
  void bring_values(const training_view& next, std::size_t source, deadline until) {
    const bool gives = here_.index() == next.source, takes = updates_ < next.updates, is_new = updates_ < 0;
    double front[] = {static_cast<double>(next_step_), settled_unit_, static_cast<double>(settled_random_step_),
                      settled_others_train_ ? 1.0 : 0.0, static_cast<double>(variables_.global_step)};
    group_->broadcast(std::span<double>(front), source, until);
    const graph& g = variables_.of();
    std::vector<std::vector<std::byte>> all(g.size());
    for (std::uint32_t n = 0; n < g.size(); ++n) {
      if (!is_operation<variable_op>(g[n].def.op)) continue;
      std::vector<std::byte>& bytes = all[n];
      bytes.resize(local_.variable_info(n).bytes() + 1);
      if (gives) {
        read_settled(n, bytes.data());
        bytes.back() = static_cast<std::byte>(local_.state_of(n).initialized);
      }
      group_->broadcast(std::span<std::byte>(bytes), source, until);
    }
    if (gives || !takes) return;
    for (std::uint32_t n = 0; n < g.size(); ++n) {
      if (all[n].empty() || (!is_new && kind_of(g[n].def) == variable_kind::local && !is_written_with_updates(n)))
        continue;
      local_.write_variable(n, all[n].data());
      local_.state_of(n).initialized = all[n].back() != std::byte{0};
    }
    variables_.read_bases();
    next_step_ = static_cast<std::int64_t>(front[0]);
    variables_.global_step = static_cast<std::int64_t>(front[4]);
    unit_ = front[1];
    others_train_ = settled_others_train_ = front[3] != 0;
    if (is_new) local_.set_step_number(static_cast<std::int64_t>(front[2]));
    has_joined_late_ |= is_new;
    variables_.set_counters();
    updates_ = next.updates;
    settled_unit_ = unit_;
    settled_random_step_ = static_cast<std::int64_t>(front[2]);
    if (parts_) local_.set_step_number(updates_);
  }
  bool is_written_with_updates(std::uint32_t variable) const {
    const auto& all = variables_.effects();
    return std::any_of(all.begin(), all.end(),
                       [&](std::uint32_t n) { return variables_.of()[n].def.inputs[0].node == variable; });
  }
  /// As of the last complete update: a step that was computed since has assigned averaged variables.
  void read_settled(std::uint32_t n, std::byte* to) {
    for (std::size_t i = variables_.first_averaged(); i < variables_.first_frozen(); ++i)
      if (variables_[i].node == n) {
        std::copy_n(variables_.base_of(i).data(), variables_[i].bytes(), to);
        return;
      }
    local_.read_variable(n, to);
  }

  /// Counts the votes of the update that ends: training ends if all members stop.
  void count_votes() {
    const auto count = [&]<class Element>(Element) {
      const std::size_t end = (buckets_.back().begin + buckets_.back().bytes) / sizeof(Element);
      const std::span<Element> votes =
          gradients_.template block<Element>().subspan(end - room_for_votes(), room_for_votes());
      count_votes([&](int worker) { return votes[static_cast<std::size_t>(worker)] > 0; }, votes.back() > 0);
    };
    buckets_.back().is_double ? count(double{}) : count(float{});
  }
  template <class Stops>
  void count_votes(const Stops& stops, bool admits) {
    has_admitted_ = admits;
    bool all = true;
    for (const view_member& each : meeting_->current().members) all &= stops(each.index);
    if (!all && !all_stop_ && stops(here_.index())) leaves_alone_ = departure_.note_update();
    all_stop_ |= all || leaves_alone_;
  }

  /// Runs the graph's own updates on the gradients that were agreed on.
  void apply() {
    variables_.set_counters();  // as they were before the step: schedules go by them
    if (!apply_) plan_updates();
    for (std::size_t i = 0; i < variables_.trained(); ++i)
      if (variables_[i].has_rows()) variables_[i].is_double() ? find_touched<double>(i) : find_touched<float>(i);
    apply_->run(fed_.data(), [](std::size_t, const shape&) -> void* { return nullptr; });
    for (std::size_t i = variables_.first_averaged(); i < variables_.first_frozen(); ++i)
      variables_.add_to_averaged(i, gradients_[i]);
  }

  void plan_updates() {
    plan::step_request updates;
    fed_.clear();
    for (std::size_t i = 0; i < variables_.first_averaged(); ++i) {
      const shared_variable& v = variables_[i];
      // Variables that are only ever added to each other have one gradient.
      if (std::find(updates.feeds.begin(), updates.feeds.end(), v.gradient) == updates.feeds.end()) {
        updates.feeds.push_back(v.gradient);
        fed_.push_back({gradients_[i].data(), local_.variable_info(v.node).extents});
      }
      if (i >= variables_.trained()) continue;
      updates.targets.push_back(v.update_of_mean());
      if (!v.has_rows()) continue;
      touched_[i].rows.resize(v.rows);
      updates.feeds.push_back(v.touched_rows);
      fed_.push_back({touched_[i].rows.data(), shape(static_cast<std::int64_t>(v.rows))});
    }
    averages_.reset();
    plan::step_request averages;
    for (const std::uint32_t n : effects_)
      (variables_.averages_update(n) ? averages : updates).targets.push_back(variables_.made_for(n));
    apply_.emplace(local_, std::move(updates));
    if (!averages.targets.empty()) plan_averages(std::move(averages));
  }

  /// Moving averages are fed with what the updates have made.
  void plan_averages(plan::step_request averages) {
    const graph& g = variables_.of();
    made_.clear();
    const auto feed = [&](value v, std::uint32_t variable) {
      if (std::find(averages.feeds.begin(), averages.feeds.end(), v) != averages.feeds.end()) return;
      averages.feeds.push_back(v);
      made_.push_back({variable, {}});
      if (variable != graph_node::no_node) made_.back().value = storage(local_.variable_info(variable).bytes());
    };
    sequence<value> pending;
    for (const std::uint32_t n : averages.targets) {
      for (const value& in : g[n].def.inputs) pending.push_back(in);
      for (const std::uint32_t before : g[n].control) feed({before, 0}, graph_node::no_node);
    }
    while (!pending.empty()) {
      const value v = pending.back();
      pending.pop_back();
      const node_def& def = g[v.node].def;
      if (def.op->writes)
        feed(v, def.inputs[0].node);
      else
        pending.append(def.inputs.data(), def.inputs.size());
    }
    averages_.emplace(local_, std::move(averages));
  }
  void average_updates() {
    if (!averages_) return;
    variables_.set_counters();
    std::vector<plan::fed_value> fed;
    for (made_value& each : made_) {
      const bool is_effect = each.variable == graph_node::no_node;  // which has no elements
      if (!is_effect) local_.read_variable(each.variable, each.value.data());
      fed.push_back({each.value.data(), is_effect ? shape(0) : local_.variable_info(each.variable).extents});
    }
    averages_->run(fed.data(), [](std::size_t, const shape&) -> void* { return nullptr; });
  }

  // ---- rows ----

  /// Which rows of a gradient some worker has brought.
  struct touched_rows {
    std::size_t offset = 0;          // where the block says it of each row
    std::vector<std::int64_t> rows;  // the number of each that it has, or -1
  };

  template <class Element>
  Element* touched_of(std::size_t i) {
    return reinterpret_cast<Element*>(gradients_.block(sizeof(Element) == 8).data() + touched_[i].offset);
  }
  template <class Element>
  void note_touched(std::size_t i, std::size_t part, std::size_t end) {
    Element* const touched = touched_of<Element>(i);
    for (std::size_t r = 0; r < variables_[i].rows; ++r) touched[r] = 0;
    for (; part < end; ++part) {
      const gradient_buffers::part& list = gradients_.parts()[part];
      const auto* const numbers = reinterpret_cast<const std::int64_t*>(list.came.data());
      for (std::size_t k = 0; k < list.count; ++k)
        if (numbers[k] >= 0) touched[numbers[k]] = 1;
    }
  }
  template <class Element>
  void find_touched(std::size_t i) {
    const Element* const touched = touched_of<Element>(i);
    touched_[i].rows.resize(variables_[i].rows);
    for (std::size_t r = 0; r < variables_[i].rows; ++r)
      touched_[i].rows[r] = touched[r] > 0 ? static_cast<std::int64_t>(r) : -1;
  }

  /// The chief's bytes become those of all: a sum of numbers of 48 bits each, to which the others add nothing.
  void broadcast(std::span<std::byte> bytes, deadline until) {
    constexpr std::size_t in_one = 6;
    words_.assign((bytes.size() + in_one - 1) / in_one, 0);
    const auto each = [&](auto use) {
      for (std::size_t k = 0; k < words_.size(); ++k)
        use(words_[k], bytes.subspan(k * in_one).first(std::min(in_one, bytes.size() - k * in_one)));
    };
    std::uint64_t bits = 0;
    if (is_chief())
      each([&](double& word, std::span<std::byte> of) {
        bits = 0;
        __builtin_memcpy(&bits, of.data(), of.size());
        word = static_cast<double>(bits);
      });
    group_->sum(std::span<double>(words_), until);
    each([&](double word, std::span<std::byte> of) {
      bits = static_cast<std::uint64_t>(word);
      __builtin_memcpy(of.data(), &bits, of.size());
    });
  }

  task_server& here_;
  shared_variables& variables_;
  session& local_;
  gradient_buffers gradients_;
  std::vector<touched_rows> touched_;  // of each variable that is trained
  std::optional<Group> group_;
  struct made_value {
    std::uint32_t variable;
    storage value;
  };
  std::optional<prepared_step> apply_, averages_;
  std::vector<made_value> made_;     // what averages_ is fed with
  sequence<std::uint32_t> effects_;  // that it makes beside the updates
  std::vector<plan::fed_value> fed_;
  std::int64_t next_step_ = 0;
  std::vector<double> words_;  // on their way from the chief

  std::size_t bucket_bytes_ = 0;  // 0: there is one bucket for each element type
  bool in_buckets_ = false;
  std::vector<bucket> buckets_;
  std::vector<std::size_t> bucket_of_;  // of each variable
  std::size_t begun_buckets_ = 0;       // of the update that is under way
  std::size_t next_bucket_ = 0;         // an update that has run out of time is repeated, and goes on here
  std::vector<double> examples_;        // of each worker's batch, until unit_ is known
  double unit_ = 0;                     // the batch that counts 1
  double weight_ = 1;                   // of this worker's gradients
  double took_part_ = 0;                // the weights of all workers in the last update
  departure departure_;
  std::size_t voters_ = 0;        // with a loss policy: the workers of the job
  bool votes_ = false;            // this worker announces a signal in the update that is under way
  bool all_stop_ = false;         // some worker has said so
  bool trains_ = true;            // this worker has not come to finish()
  bool others_train_ = true;      // some worker has not, as of the last update
  bool asks_who_trains_ = false;  // a call that has run out of time goes on there
  double training_workers_ = 0;   // on their way

  // With a loss policy:
  static constexpr int max_attempts = 8, nobody = -1;
  static constexpr std::chrono::seconds least_time{5};
  std::optional<view_meeting> meeting_;
  graph_identity identity_;
  std::size_t said_bucket_bytes_ = 0;  // all workers have said the same
  bool admits_late_ = false;  // training goes on without lost workers: those that come again join between two steps
  std::int64_t updates_ = 0;  // that were completed, whether or not a batch had examples; -1: this worker has no values
  bool is_laid_out_ = false, has_joined_late_ = false;
  std::vector<std::byte> kept_[2];  // the gradients of the update under way, of float and of double variables
  double settled_unit_ = 0;         // unit_ and step_number() as of the last complete update
  std::int64_t settled_random_step_ = 0;
  bool leaves_alone_ = false, settled_others_train_ = true;
  std::int64_t began_at_ = 0;                   // updates_ before the update that is under way
  bool is_settling_ = false;                    // a call has run out of time there
  bool admits_ = false, has_admitted_ = false;  // this worker has seen a newcomer; some worker has

  // With loss_action::take_over:
  enum class stage : unsigned char { computes, announces, sums };  // of the update under way
  std::optional<replica_parts> parts_;
  stage stage_ = stage::computes;
  bool block_has_own_ = false;  // the buffers have this worker's own gradients

  std::size_t first_part_ = 0, released_ = 0;  // of the step that runs
  bool torn_ = false;
  std::optional<bucket_thread> thread_;  // ends before what it uses
};

template <class Strategy>
std::unique_ptr<exchange> make_all_reduce_exchange(task_server& here, shared_variables& variables, const Strategy& how,
                                                   const graph_identity& identity, deadline until) {
  return std::make_unique<all_reduce_exchange<typename Strategy::group>>(here, variables, how, identity, until);
}

WEFT_DISTRIBUTED_INSTANTIATE(std::unique_ptr<exchange> make_all_reduce_exchange(task_server&, shared_variables&,
                                                                                const collective&,
                                                                                const graph_identity&, deadline));

}  // namespace weft::detail
