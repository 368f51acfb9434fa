// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/server_options.hpp>
#include <weft/distributed/membership/departure.hpp>
#include <weft/distributed/membership/join_report.hpp>
#include <weft/distributed/membership/membership.hpp>
#include <weft/distributed/membership/peer_channel.hpp>
#include <weft/distributed/membership/server.hpp>
#include <weft/distributed/parameter/enroll_message.hpp>
#include <weft/distributed/parameter/parameter_spec.hpp>
#include <weft/distributed/parameter/parameter_store.hpp>
#include <weft/distributed/parameter/shards/shard_checkpoint.hpp>
#include <weft/distributed/parameter/shards/shard_keeper.hpp>
#include <weft/distributed/parameter/shards/shard_links.hpp>
#include <weft/distributed/parameter/steps/asynchronous_updates.hpp>
#include <weft/distributed/parameter/steps/gradient_refusals.hpp>
#include <weft/distributed/parameter/steps/synchronous_steps.hpp>
#include <weft/distributed/parameter/steps/update_history.hpp>
#include <weft/distributed/parameter/steps/worker_quorum.hpp>
#include <weft/distributed/parameter/workers/parked_requests.hpp>
#include <weft/distributed/parameter/workers/request_payload.hpp>
#include <weft/distributed/parameter/workers/worker_answers.hpp>
#include <weft/distributed/parameter/workers/worker_roster.hpp>
#include <weft/error.hpp>
#include <weft/train/signals.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/separate.hpp>
#include <weft/transport/shared_memory.hpp>
#include <weft/transport/waiter.hpp>

namespace weft {

namespace detail {

/// Serves all workers of a parameter server on one thread. The first worker to enroll determines the variables.
/// Requests are answered one after another, so every answer is a consistent snapshot without partial updates.
///
/// This class reads requests and dispatches them to its parts, each of which owns a part of the state. Not thread-safe:
/// the thread in run() owns all parts.
class parameter_service {
  using worker = served_worker;

 public:
  explicit parameter_service(task_server& here)
      : here_(here),
        idle_(here.network(), here.waiting()),
        workers_(here),
        quorum_(here, workers_),
        history_(workers_.size()),
        answers_(here, workers_, store_, history_),
        links_(here, workers_.size()),
        steps_(here, workers_, quorum_, store_, history_, answers_, links_),
        updates_(here, workers_, quorum_, store_, history_, answers_),
        checkpoint_(workers_, store_, history_, steps_, answers_),
        shards_(here, workers_, quorum_, store_, history_, steps_, answers_, links_, checkpoint_),
        parked_(workers_, quorum_, store_, steps_, updates_, checkpoint_, answers_) {
    if (here.options().handle_signals) signals_.emplace();
  }

  parameter_service(const parameter_service&) = delete;
  parameter_service& operator=(const parameter_service&) = delete;

  /// Serves until every worker is done, gone, or idle for too long, or until the server is stopped. After a signal,
  /// serves until all workers have left, but not longer than server_options::stop_patience. Throws weft::error
  /// (deadline_exceeded) naming the workers that have not connected by `workers_come`, or that have not finished by
  /// `until`.
  join_report run(deadline workers_come, deadline until) {
    bool all_came = false;
    unsigned turns = 0;
    while (!here_.stopping()) {
      take_new_connections();
      bool moved = false;
      for (worker& each : workers_)
        if (each.connection && !shards_.is_halted()) moved |= serve(each);
      if (links_.has_begun()) moved |= serve_links();
      if (shards_.is_on()) moved |= serve_shards();
      if (moved) {
        idle_.moved();
        if (++turns % 256 != 0) continue;  // constant traffic must not prevent the checks below
      }
      look_around();
      // A server that replaces another one knows the workers only from reports, so they may still connect.
      const bool may_end = !shards_.is_on() || (contract_ ? links_.has_told_all() : workers_come.expired());
      if ((may_end && have_all_finished()) || is_stopped_by_signal() || is_given_up()) break;
      settle_done(workers_come.expired());
      if (!all_came) all_came = have_all_come(workers_come);
      if (until.expired())
        fail_everyone(error(error_code::deadline_exceeded, "join",
                            {"the deadline has passed, but these workers have not called finish(): ",
                             workers_.names([](const worker& each) { return !each.done; })}));
      if (!moved) sleep(until);
    }
    return report();
  }

 private:
  // ---- connections ----

  void take_new_connections() {
    peer_channel next;
    while (here_.take_channel(parameter_channel, next)) {
      for (worker& each : workers_) {
        if (each.rank != next.rank) continue;
        if (each.incarnation == next.incarnation && next.number < each.newest) continue;  // closed by the worker
        each.newest = next.number;
        if (each.incarnation != next.incarnation) quorum_.replace(each, next.incarnation);
        each.connection = std::make_unique<typename worker::connection_type>(std::move(next.stream), max_enroll_bytes);
        each.enrolled = each.given_up = false;
        each.has_asked = true;
        each.gone.clear();
      }
    }
  }

  /// Receives the messages of other parameter servers about the step, and makes the step once it is decided.
  bool serve_links() {
    const bool moved = links_.serve();
    if (moved) steps_.complete();
    if (const std::int64_t next = steps_.next_step(); next != answered_step_) {
      answered_step_ = next;
      parked_.answer_next_step();
    }
    return links_.serve() || moved;  // sends decisions at once
  }

  /// Advances the shards. If a new epoch begins or a step is committed, serves the waiting requests.
  bool serve_shards() {
    const std::uint64_t before = shards_.at().bits;
    const bool moved = shards_.advance();
    if (moved) {
      if (shards_.at().bits != before) {
        answered_step_ = steps_.next_step();
        if (store_.initialised()) parked_.answer_initialised();
      }
      for (worker& each : workers_) {
        if (!each.is_parked()) continue;
        if (each.is_deferred)
          handle(each);
        else if (shards_.at().bits != before && !precedes_training(each.connection->request().kind))
          answers_.roll_back(each);
      }
      links_.serve();
    }
    return moved;
  }

  /// Returns true if requests of this kind are served in any epoch.
  static bool precedes_training(frame_kind kind) {
    return kind == frame_kind::initialise || kind == frame_kind::await_values || kind == frame_kind::restore ||
           kind == frame_kind::await_restore || kind == frame_kind::enroll || kind == frame_kind::share;
  }

  /// Returns true if the request is to be served now, in this epoch. Otherwise the request is deferred or answered.
  bool is_of_this_epoch(worker& from) {
    const frame_header& asked = from.connection->request();
    if (!shards_.is_on() || asked.kind == frame_kind::enroll || asked.kind == frame_kind::share) return true;
    if (!shards_.is_ready()) return defer(from);
    if (precedes_training(asked.kind) || (asked.tag == 0 && asked.kind != frame_kind::push_pull)) return true;
    switch (shards_.age_of(asked.tag)) {
      case shard_keeper::age::current:
        return true;
      case shard_keeper::age::newer:
        return defer(from);
      case shard_keeper::age::older:
        answers_.roll_back(from);
        return false;
      case shard_keeper::age::of_another_run:
        break;
    }
    throw error(error_code::failed_precondition, "parameter_server",
                {here_.name(), " was started again and cannot continue the run of ", workers_.name(from),
                 ": no step of that run is committed in ", here_.options().shards.folder, "; start all tasks again"});
  }

  /// Parks the request until shards are restored or committed; it is handled then.
  bool defer(worker& from) {
    from.is_deferred = true;
    park(from);
    return false;
  }

  /// Sends and receives one worker's bytes and handles a complete request. Returns true if anything happened.
  bool serve(worker& from) {
    auto& with = *from.connection;
    try {
      std::size_t moved = 0;
      if (with.is_answering()) {
        moved += with.send();
        if (!with.has_answered()) return moved > 0;
        with.await_request(max_request(from));
      }
      moved += with.receive();
      if (with.needs_place()) {
        place_payload(with, store_, workers_.size(), from.enrolled,
                      workers_.is_chief(from) && !store_.initialised() && shards_.is_ready());
        moved += with.receive();
      }
      if (with.take_request()) {
        from.has_asked = true;
        handle(from);
        if (with.is_answering()) moved += with.send();
      }
      if (moved > 0) with.note_traffic();
      return moved > 0;
    } catch (const error& problem) {
      const bool closed = problem.code() == error_code::unavailable;
      quorum_.drop(from,
                   from.done ? std::string()
                   : closed  ? "has closed its connection without finish()"
                             : str_cat({"broke the protocol: ", problem.what()}),
                   closed);
      return true;
    } catch (const std::bad_alloc&) {  // without memory for the payload, the rest of the stream is lost
      quorum_.drop(from, str_cat({"was dropped: ", no_memory(from)}));
      return true;
    }
  }

  std::uint64_t max_request(const worker& from) const {
    return max_request_bytes(store_, workers_.size(), from.enrolled);
  }

  /// The error text for a request whose payload cannot be allocated.
  static std::string no_memory(const worker& from) {
    return str_cat({"cannot allocate ", from.connection->arriving().payload_length, " bytes for a request"});
  }

  // ---- requests ----

  void handle(worker& from) {
    try {
      from.is_deferred = false;
      if (!is_of_this_epoch(from)) return;
      switch (from.connection->request().kind) {
        case frame_kind::enroll:
          return enroll(from);
        case frame_kind::initialise:
          return initialise(from);
        case frame_kind::await_values:
          return store_.initialised() ? answers_.acknowledge(from) : park(from);
        case frame_kind::pull:
          return store_.initialised() && is_made(from) ? answers_.send_values(from) : park(from);
        case frame_kind::push_pull:
          return push_pull(from);
        case frame_kind::push:
          return push(from);
        case frame_kind::await_step:
          if (!steps_.answer_awaiting(from)) park(from);
          return;
        case frame_kind::done:
          return done(from);
        case frame_kind::share:
          return share(from);
        case frame_kind::state:
          return !store_.initialised() || is_made(from) ? checkpoint_.save(from) : park(from);
        case frame_kind::restore:
          return restore(from);
        case frame_kind::await_restore:
          return checkpoint_.is_settled() ? answers_.acknowledge(from) : park(from);
        case frame_kind::await_others:
          return await_others(from);
        default:
          throw error(error_code::invalid_argument, "parameter_server",
                      "a parameter server does not accept this kind of request");
      }
    } catch (const error& problem) {
      answers_.fail(from, problem);
    } catch (const std::bad_alloc&) {
      answers_.fail(from, error(error_code::resource_exhausted, "parameter_server", no_memory(from)));
    }
  }

  void park(worker& from) {
    if (!from.is_parked()) from.connection->park(max_request(from));
  }

  /// Returns true if all steps before the one in the request have been made.
  bool is_made(const worker& from) const { return from.connection->request().step <= steps_.next_step(); }

  void enroll(worker& from) {
    const enroll_message message = enroll_message::read(from.connection->message());
    if (!contract_) {
      store_ = parameter_store(message.variables, here_.index(), here_.options().max_parameter_bytes);
      contract_ = message;
      quorum_.set_terms(message.terms);
      if (message.terms.has_decisions()) links_.begin();
      steps_.begin(message);
      try {
        shards_.begin(message);
      } catch (const error& problem) {
        quorum_.interrupt(problem);
        unusable_shards_ = problem;
      }
    } else if (const std::string difference = contract_->difference(message); !difference.empty()) {
      quorum_.refuse(from, shards_.is_on() && shards_.has_trained(),
                     str_cat({"was rejected, because it does not train the same model: ", difference}));
      throw error(error_code::failed_precondition, "parameter_server",
                  {workers_.name(from), " does not train the same model: ", difference,
                   "; run the same program with the same flags"});
    }
    if (unusable_shards_) throw *unusable_shards_;
    from.enrolled = from.took_part = true;
    from.done = from.was_done = false;
    from.refused.clear();
    from.rejected.clear();
    from.connection->share({});
    from.connection->free_message();
    shards_.count_lost(from, from.connection->request().step);
    shards_.note_return(from);
    const bool finite = here_.options().not_finite == nonfinite_gradients::refuse;
    answers_.acknowledge(from, (finite ? only_finite : 0u) | (checkpoint_.is_settled() ? duplicate : 0u));
  }

  /// Maps the memory that the worker offers. If this fails, everything still travels through the connection.
  void share(worker& from) {
    if (!here_.may_share_memory(from.rank))
      throw error(error_code::unimplemented, "parameter_server",
                  "this server does not share memory (server_options::shared_memory)");
    from.connection->share(shared_segment::open(read_offer(from.connection->message()), store_.shared_layout().bytes));
    answers_.acknowledge(from);
  }

  /// Frees the memory of received values, unless gradients need as much.
  void free_payload(typename worker::connection_type& of) {
    if (store_.gradient_payload(false).min < store_.bytes()) of.free_payload();
  }

  void initialise(worker& from) {
    auto& with = *from.connection;
    const std::uint32_t where = with.request().flags & in_segment;
    if (!workers_.is_chief(from))
      throw error(error_code::invalid_argument, "initialise",
                  {workers_.name(from), " is not the chief; only the chief can initialize the variables"});
    if (store_.initialised()) {  // a restarted chief: training continues
      free_payload(with);
      return answers_.acknowledge(from, where | duplicate);
    }
    if (where) {
      store_.copy_from(with.values_in_segment(store_));
    } else if (with.keeps_payload()) {  // received before the shards were ready
      const const_bytes values = with.payload();
      std::copy(values.begin(), values.end(), store_.values().begin());
      free_payload(with);
    }
    store_.set_initialised();
    shards_.note_initialised();
    answers_.acknowledge(from, where);
    parked_.answer_initialised();
  }

  void restore(worker& from) {
    const bool was_settled = checkpoint_.is_settled();
    const bool brings_values = from.connection->request().payload_length > 0;
    const std::uint32_t flags = checkpoint_.restore(from, [&](const worker& other) {
      return (shards_.is_on() ? shards_.has_trained() : store_.global_step() > 0) || other.contributes();
    });
    if (!was_settled && brings_values) shards_.note_restored();
    answers_.acknowledge(from, flags);
    if (!was_settled && store_.initialised()) parked_.answer_initialised();
  }

  void push_pull(worker& from) {
    if (!store_.initialised()) throw uninitialised_refusal();
    const frame_header& asked = from.connection->request();
    if (asked.step < 0)
      throw error(error_code::invalid_argument, "parameter_server",
                  {"an update's step must be at least 0; it is ", asked.step});
    const bool is_known = history_.contains(from.index, asked.step);
    if (!is_known) from.connection->read_rows(store_);
    if (quorum_.is_synchronous()) {
      if (is_known) return answers_.send_values(from, duplicate | steps_.stop_flag());
      return steps_.contribute(from, max_request(from));
    }
    if (is_known)
      updates_.answer_duplicate(from, max_request(from));
    else
      updates_.apply(from, max_request(from));
    if (!is_known && asked.weight > 0) shards_.note_step();
    updates_.answer_waiting();
  }

  void push(worker& from) {
    if (!store_.initialised()) throw uninitialised_refusal();
    from.connection->read_rows(store_);
    steps_.take_push(from);
  }

  void done(worker& from) {
    if (from.connection->request().flags & stopping) {
      // If the loss policy waits, the worker counts as lost once it has left, as if it were killed.
      if (!quorum_.keeps_places()) from.refused = stopped_by_signal;
      return answers_.acknowledge(from, quorum_.why_broken() ? stopping : 0u);
    }
    if (!quorum_.is_synchronous()) {  // a synchronous worker's last step is complete
      if (const auto broken = quorum_.why_broken()) throw *broken;
      from.done = from.stays = true;  // other servers may have answered already, so the worker may exit
    }
    if (!is_secured(from, false)) return static_cast<void>(defer(from));
    from.done = true;
    from.stays = false;
    answers_.acknowledge(from);
    stop_waiting_for_one();
  }
  /// Returns true if the worker's last update survives the loss of any server.
  bool is_secured(worker& from, bool asks_again) {
    return !shards_.secures_updates() || shards_.has_secured(from, asks_again);
  }

  void await_others(worker& from) {
    if (!is_secured(from, true)) return static_cast<void>(defer(from));
    from.done = from.stays = true;
    stop_waiting_for_one();
    park(from);
    parked_.end_wait_for_others(from);
  }

  void stop_waiting_for_one() {
    steps_.complete();
    updates_.answer_waiting();
  }

  // ---- checks without traffic ----

  /// Finds workers and servers that are gone and requests that have expired, and answers the requests that wait for
  /// them.
  void look_around() {
    const auto now = detail::now();
    std::optional<error> broken = quorum_.why_broken();
    if (links_.has_begun()) {
      if (!broken && !have_all_finished() && !workers_.are_all_done())
        broken = links_.lost_server();  // after the wait of the loss policy
      if (!broken) broken = links_.ended();
      if (broken) {
        quorum_.interrupt(*broken);
        links_.end(*broken);
      }
      serve_links();
    }
    if (!quorum_.is_synchronous() && !quorum_.bounds_staleness()) broken.reset();  // each request reports it
    stop_waiting_for_one();
    if (!have_all_finished()) quorum_.report_waits(shards_.at().bits, shards_.now());
    for (worker& each : workers_) {
      if (!quorum_.supervise(each, now)) continue;
      if (each.is_deferred && each.is_parked() && !broken) {
        if (const auto& expires = each.connection->expires(); expires && expires->expired())
          answers_.fail(each, error(error_code::deadline_exceeded, "parameter_server", shards_.whom_it_waits_for()));
        continue;
      }
      parked_.expire(each, broken);
    }
  }

  bool have_all_finished() {
    return workers_.have_all_finished([&](const worker& each) { return quorum_.is_awaited(each); });
  }

  /// Returns true if a signal ends the service: all workers have left, the time is up, or a last shard has been written
  /// for the process that takes the place of this one.
  bool is_stopped_by_signal() {
    if (!signals_ || signals_->received() == 0) return false;
    if (!stop_at_) {
      stop_at_.emplace(here_.options().stop_patience);
      leave_at_.emplace(
          std::min<std::chrono::milliseconds>(here_.options().stop_patience / 2, std::chrono::seconds(10)));
      leave_after_.emplace(signal_skew);
      steps_at_signal_.clear();
      for (const worker& each : workers_) steps_at_signal_.push_back(history_.next_step(each.index));
    }
    signal_ = signals_->received();
    // Workers that received the signal too stop after their next update, and the chief saves a checkpoint.
    if (shards_.secures_updates() && contract_ && !steps_.is_stopping() &&
        ((leave_after_->expired() && have_all_gone_on()) || leave_at_->expired())) {
      shards_.leave();
      is_leaving_ = shards_.may_leave();
      if (is_leaving_) return true;
    }
    return stop_at_->expired() || workers_.have_all_gone();
  }

  /// Returns true if the workers continue after the signal to this server: each has made two updates since.
  bool have_all_gone_on() const {
    bool any = false;
    for (const worker& each : workers_) {
      if (!each.connection || each.done) continue;
      if (history_.next_step(each.index) < steps_at_signal_[each.index] + 2) return false;
      any = true;
    }
    return any;
  }

  /// Returns true if another task has declared this server dead because it was silent for too long. That task never
  /// works with this process again. If it waits for a replacement, the replacement needs the address of this server.
  bool is_given_up() {
    if (!links_.awaits_servers() && (contract_ || here_.options().shards.folder.empty())) return false;
    const membership& members = here_.members();
    for (std::size_t rank = 0; rank < members.size(); ++rank) {
      if (members.verdict_of(rank) != membership::verdict::given_up || members.state(rank) != task_state::lost)
        continue;
      given_up_ = error(error_code::aborted, here_.name(),
                        {to_string(members.task(rank)), " ", members.reason(rank),
                         "; start this parameter server again, because the others wait for its replacement"});
      return true;
    }
    return false;
  }

  /// Marks workers as done that had finished before this server was restored, unless they send a request soon.
  void settle_done(bool passed) {
    const auto is_silent = [&](const worker& each) {
      return detail::now() - each.restored_at > here_.heartbeat_timeout(each.rank);
    };
    if (workers_.settle_done(passed, is_silent)) stop_waiting_for_one();
  }

  bool have_all_come(const deadline& until) {
    if (const std::optional<error> why = here_.members().refusal()) fail_everyone(*why);
    const std::string missing = workers_.missing();
    if (missing.empty()) return true;
    if (until.expired())
      fail_everyone(error(error_code::deadline_exceeded, "join",
                          {here_.name(), " still waits for ", missing,
                           "; start them, or check their logs if they ended", here_.members().note()}));
    return false;
  }

  [[noreturn]] void fail_everyone(const error& problem) {
    for (worker& each : workers_)
      if (each.is_parked()) {
        answers_.fail(each, problem);
        serve(each);
      }
    throw problem;
  }

  void sleep(const deadline& until) {
    items_.clear();
    items_.push_back({&here_.service_bell(), true, false});
    deadline next = until;
    for (const worker& each : workers_) {
      if (!each.connection) continue;
      const bool answering = each.connection->is_answering();
      items_.push_back({&each.connection->stream(), !answering, answering});
      const auto& expires = each.connection->expires();
      if (each.is_parked() && expires && expires->at() < next.at()) next = *expires;
    }
    links_.add_to(items_);
    idle_.pause(items_, next);
    here_.service_bell().clear();
  }

  join_report report() {
    join_report result;
    workers_.list(result);
    result.signal = signal_;
    result.lost_updates = shards_.lost_updates();
    for (worker& each : workers_) {
      each.given_up = false;  // no more requests are served
      if (here_.members().state(each.rank) == task_state::left) each.connection.reset();
    }
    if (given_up_) {
      result.interrupted = given_up_;
      return result;
    }
    std::optional<error> gone = contract_ ? quorum_.why_broken() : std::nullopt;
    if (!gone && signal_ != 0 && !is_leaving_ && !have_all_finished())
      gone = error(error_code::cancelled, "join", {name_of_signal(signal_), " has stopped ", here_.name()});
    if (gone) {
      // Without a worker, the mode of training is unknown.
      const char* const training = !contract_                 ? "the wait for workers"
                                   : quorum_.is_synchronous() ? "synchronous training"
                                                              : "asynchronous training";
      const std::string early = str_cat({training, " ended early: ", gone->sentence()});
      result.interrupted = error(error_code::unavailable, here_.name(), early);
      here_.set_failure(error(error_code::unavailable, "join", early));  // for a process that replaces a lost worker
    }
    return result;
  }

  task_server& here_;
  waiter idle_;
  std::optional<stop_signals> signals_;
  int signal_ = 0;                             // the last signal received; 0: none
  std::optional<deadline> stop_at_;            // after a signal: when to stop serving
  std::optional<deadline> leave_at_;           // after a signal: when a replaceable server leaves at the latest
  std::optional<deadline> leave_after_;        // after a signal: when it leaves at the earliest
  std::vector<std::int64_t> steps_at_signal_;  // next step of each worker
  bool is_leaving_ = false;                    // another process can take this one's place
  std::optional<error> given_up_;
  std::optional<enroll_message> contract_;
  std::optional<error> unusable_shards_;  // why this server cannot start training
  parameter_store store_;
  worker_roster workers_;
  worker_quorum quorum_;
  update_history history_;
  worker_answers answers_;
  shard_links links_;
  std::int64_t answered_step_ = 0;  // requests that wait for this step have been answered
  synchronous_steps steps_;
  asynchronous_updates updates_;
  shard_checkpoint checkpoint_;
  shard_keeper shards_;
  parked_requests parked_;
  std::vector<any_transport::wait_item> items_;
};

#if WEFT_DISTRIBUTED_DEFINITIONS
WEFT_DISTRIBUTED_DECL join_report serve_parameters(task_server& here, deadline workers_come, deadline until) {
  return parameter_service(here).run(workers_come, until);
}
#endif

}  // namespace detail
}  // namespace weft
