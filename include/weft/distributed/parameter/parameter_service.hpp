#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <weft/device/cpu/thread_pool.hpp>
#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/cluster/server_options.hpp>
#include <weft/distributed/membership/join_report.hpp>
#include <weft/distributed/membership/membership.hpp>
#include <weft/distributed/parameter/cluster_state.hpp>
#include <weft/distributed/parameter/parameter_spec.hpp>
#include <weft/distributed/parameter/parameter_store.hpp>
#include <weft/distributed/parameter/replay_window.hpp>
#include <weft/error.hpp>
#include <weft/train/signals.hpp>
#include <weft/transport/framing.hpp>
#include <weft/transport/shared_memory.hpp>
#include <weft/transport/transport.hpp>

namespace weft {

namespace detail {

/// The parameter server's side: one thread serves all workers, and learns from the first of them what to hold. It
/// answers the workers' requests in turn, so every answer is a consistent snapshot and no update is seen by halves.
template <typename Server>
class parameter_service {
  using network = typename Server::transport_type;
  using clock = typename Server::clock_type;
  using moment = basic_deadline<clock>;

  using time_point = typename clock::time_point;

  static constexpr const char* left_early = "has left the cluster without finish()";
  static constexpr const char* stopped_by_signal = "was stopped by a signal";

  enum class phase : unsigned char {
    asking,     // the worker's turn: its next request is awaited, or arriving
    parked,     // the request is complete but cannot be answered yet
    answering,  // the answer is leaving
  };

  struct link {
    typename network::stream stream;
    frame_reader in;
    frame_writer out;
    frame_header asked;  // the request that is being served
    phase at = phase::asking;
    bool sends_values = false;       // the answer leaves straight from the store
    std::optional<moment> expires;   // of a parked request
    std::vector<std::byte> message;  // payload of a small request
    std::vector<std::byte> reply;    // payload of a small answer
    aligned_bytes gradients;         // payload of push_pull and restore, which may be shorter
    std::vector<row_list> rows;      // in it
    parameter_store::knowledge has;  // as of the last answer
    shared_segment segment;          // where gradients and values lie instead, once both have mapped it
    bool has_moved = true;           // since this side looked around
    time_point last_moved{};         // then, or before
  };

  struct worker {
    std::size_t rank = 0;
    std::uint64_t incarnation = 0;  // of the process that has come last; 0: none yet
    std::uint64_t newest = 0;       // connection that it has opened
    std::unique_ptr<link> connection;
    bool enrolled = false, took_part = false, done = false;
    bool stays = false;       // it is done, and is served until it says so again
    bool has_asked = false;   // since this side looked around
    time_point last_asked{};  // then, or before
    std::string refused;      // why it may not take part, or does no more
    std::string gone;         // why there is no connection any more, where that is a fault
    time_point gone_at{};
    bool may_return = false;  // its connection has ended and its process has not: it may open another
    bool given_up = false;    // it is there, and has asked for nothing for too long
    replay_window applied;
    std::int64_t restored = -1;  // the newest of its updates that the checkpoint had
  };

 public:
  explicit parameter_service(Server& here)
      : here_(here), members_(here.members()), idle_(here.network(), here.waiting()) {
    if (here.options().handle_signals) signals_.emplace();
    for (std::size_t rank = 0; rank < members_.size(); ++rank)
      if (members_.task(rank).job == here_.options().worker_job) {
        workers_.emplace_back();
        workers_.back().rank = rank;
        workers_.back().last_asked = clock::now();
      }
    const int all = static_cast<int>(workers_.size());
    min_workers_ = here.options().min_workers.value_or(all);
    if (min_workers_ != all && (min_workers_ < 1 || min_workers_ > all))
      throw error(
          error_code::invalid_argument, here.name(),
          {"server_options::min_workers must be from 1 to ", all, ", the number of workers, and is ", min_workers_});
  }

  parameter_service(const parameter_service&) = delete;
  parameter_service& operator=(const parameter_service&) = delete;

  /// Serves until every worker is done or gone, or has asked for nothing for too long, or the server is stopped; after
  /// a signal, until all that are there have left.
  /// Throws weft::error (deadline_exceeded) that names the workers which had not come until `workers_come`, or when
  /// `until` is reached.
  join_report run(moment workers_come, moment until) {
    bool all_came = false;
    unsigned turns = 0;
    while (!here_.stopping()) {
      take_new_links();
      bool moved = false;
      for (worker& each : workers_)
        if (each.connection) moved |= serve(each);
      if (moved) {
        idle_.moved();
        if (++turns % 256 != 0) continue;  // even under constant traffic, look around now and then
      }
      look_around(clock::now());
      if (finished() || is_stopped_by_signal()) break;
      if (!all_came) all_came = have_all_come(workers_come);
      if (until.expired())
        fail_everyone(error(error_code::deadline_exceeded, "join",
                            "the time to serve has passed, and workers have not said done"));
      if (!moved) sleep(until);
    }
    return report();
  }

 private:
  void take_new_links() {
    typename Server::channel next;
    while (here_.take_channel(parameter_channel, next)) {
      for (worker& each : workers_) {
        if (each.rank != next.rank) continue;
        if (each.incarnation == next.incarnation && next.number < each.newest) continue;  // given up by the worker
        each.newest = next.number;
        if (each.incarnation != next.incarnation) begin_anew(each, next.incarnation);
        each.connection = std::make_unique<link>();
        each.connection->stream = std::move(next.stream);
        each.connection->in.expect(max_enroll_bytes);
        each.enrolled = each.given_up = false;
        each.has_asked = true;
        each.gone.clear();
      }
    }
  }

  /// Another process takes the worker's place. Synchronous training does not survive the end of the first, however
  /// fast the second has come.
  void begin_anew(worker& each, std::uint64_t incarnation) {
    if (each.took_part && !each.done && synchronous() && !interrupted_) {
      interrupted_ = someone_gone();
      if (!interrupted_) interrupted_ = why_gone(each);
    }
    each.incarnation = incarnation;
    each.done = each.took_part = each.stays = false;
    each.refused.clear();
  }

  /// Moves one worker's bytes and acts on what is complete; returns whether anything happened.
  bool serve(worker& from) {
    link& to = *from.connection;
    try {
      std::size_t moved = 0;
      if (to.at == phase::answering) {
        moved += to.out.advance(to.stream);
        if (!to.out.idle()) return moved > 0;
        to.at = phase::asking;
        to.sends_values = false;
        expect_next(from);
      }
      moved += to.in.advance(to.stream);
      if (to.in.needs_destination()) {
        if (to.at == phase::parked)
          throw error(error_code::invalid_argument, "parameter_server",
                      "the worker has sent a request before the answer to its last one");
        place_payload(from);
        moved += to.in.advance(to.stream);
      }
      if (to.in.complete()) {
        to.asked = to.in.header();
        from.has_asked = true;
        handle(from);
        if (to.at == phase::answering) moved += to.out.advance(to.stream);
      }
      to.has_moved |= moved > 0;
      return moved > 0;
    } catch (const error& problem) {
      const bool closed = problem.code() == error_code::unavailable;
      drop(from,
           from.done ? std::string()
           : closed  ? "has closed its connection without finish()"
                     : str_cat({"broke the protocol: ", problem.what()}),
           closed);
      return true;
    } catch (const std::bad_alloc&) {  // there is no place for what follows the header: the connection cannot go on
      drop(from, str_cat({"was given up: ", no_memory(from)}));
      return true;
    }
  }

  void expect_next(worker& from) {
    const std::uint64_t longest =
        from.enrolled ? std::max<std::uint64_t>(checkpoint_bytes(), store_.gradient_payload(false).most) : 0;
    from.connection->in.expect(std::max(longest, max_enroll_bytes));
  }

  // The header is here: decide where the payload goes, and refuse a length that the request cannot have.
  void place_payload(worker& from) {
    link& to = *from.connection;
    const frame_header& asked = to.in.header();
    const auto exactly = [&](std::uint64_t bytes) {
      if (asked.payload_length != bytes)
        throw error(error_code::invalid_argument, "parameter_server",
                    {"a request needs ", bytes, " bytes and has ", asked.payload_length});
    };
    if (asked.kind != frame_kind::enroll && !from.enrolled)
      throw error(error_code::invalid_argument, "parameter_server",
                  "the worker must send its list of variables before other requests");
    switch (asked.kind) {
      case frame_kind::enroll:
        to.message.resize(static_cast<std::size_t>(asked.payload_length));
        to.in.payload_to(to.message);
        break;
      case frame_kind::share:
        if (asked.payload_length > max_control_bytes) message_reader::malformed();
        to.message.resize(static_cast<std::size_t>(asked.payload_length));
        to.in.payload_to(to.message);
        break;
      case frame_kind::initialise: {
        exactly(uses_segment(to, asked) ? 0 : store_.bytes());
        // Nobody reads the store before the whole of it has come.
        const bool is_first = is_chief(from) && !store_.initialised();
        is_first ? to.in.payload_to(store_.values().first(static_cast<std::size_t>(asked.payload_length)))
                 : take_payload(to);
        break;
      }
      case frame_kind::restore:
        uses_segment(to, asked);
        if (asked.payload_length != 0) exactly(checkpoint_bytes());
        take_payload(to);
        break;
      case frame_kind::push_pull: {
        const auto bounds = store_.gradient_payload(uses_segment(to, asked));
        if (bounds.least == bounds.most) exactly(bounds.least);
        if (asked.payload_length < bounds.least || asked.payload_length > bounds.most)
          throw error(error_code::invalid_argument, "parameter_server",
                      {"gradients need ", bounds.least, " to ", bounds.most, " bytes and have ", asked.payload_length});
        take_payload(to);
        break;
      }
      default:
        uses_segment(to, asked);
        exactly(0);
        to.in.payload_to(mutable_bytes{});
    }
  }

  static void take_payload(link& to) {
    const auto size = static_cast<std::size_t>(to.in.header().payload_length);
    if (to.gradients.size() < size) {
      to.gradients = {};
      to.gradients = aligned_bytes(size);
    }
    to.in.payload_to(static_cast<mutable_bytes>(to.gradients).first(size));
  }

  void handle(worker& from) {
    try {
      switch (from.connection->asked.kind) {
        case frame_kind::enroll:
          return enroll(from);
        case frame_kind::initialise:
          return initialise(from);
        case frame_kind::await_values:
          return store_.initialised() ? acknowledge(from) : park(from);
        case frame_kind::pull:
          return store_.initialised() ? answer_values(from) : park(from);
        case frame_kind::push_pull:
          return push_pull(from);
        case frame_kind::done:
          return done(from);
        case frame_kind::share:
          return share(from);
        case frame_kind::state:
          return answer_state(from);
        case frame_kind::restore:
          return restore(from);
        case frame_kind::await_restore:
          return settled_ ? acknowledge(from) : park(from);
        case frame_kind::await_others:
          return await_others(from);
        default:
          throw error(error_code::invalid_argument, "parameter_server",
                      "a parameter server does not take this kind of request");
      }
    } catch (const error& problem) {
      answer_failure(from, problem);
    } catch (const std::bad_alloc&) {
      answer_failure(from, error(error_code::resource_exhausted, "parameter_server", no_memory(from)));
    }
  }

  /// The message that there is no memory for the request that is being served.
  static std::string no_memory(const worker& from) {
    return str_cat({"cannot allocate ", from.connection->in.header().payload_length, " bytes for a request"});
  }

  void enroll(worker& from) {
    const enroll_message message = enroll_message::read(from.connection->message);
    if (!contract_) {
      store_ = parameter_store(message.variables, here_.index(), here_.options().max_parameter_bytes);
      contract_ = message;
    } else if (const std::string difference = contract_->difference(message); !difference.empty()) {
      from.refused = str_cat({"was refused, for it does not train the same model: ", difference});
      throw error(
          error_code::failed_precondition, "parameter_server",
          {name(from), " does not train the same model: ", difference, "; run the same program with the same flags"});
    }
    from.enrolled = from.took_part = true;
    from.done = false;
    from.refused.clear();
    from.connection->segment = {};
    from.connection->message = {};
    acknowledge(from, (refuses_nonfinite() ? only_finite : 0u) | (settled_ ? duplicate : 0u));
  }

  /// The smallest number of a step that would be new here: a worker goes on from there, whatever it has asked for
  /// before, on this connection or another.
  std::int64_t next_step(const worker& of) const {
    const std::int64_t newest = std::max({of.applied.newest(of.incarnation), of.restored, last_step_});
    return newest < std::numeric_limits<std::int64_t>::max() ? newest + 1 : newest;
  }

  /// Both map the memory that the worker has made, or everything goes on travelling.
  void share(worker& from) {
    link& to = *from.connection;
    if (!here_.may_share_memory(from.rank))
      throw error(error_code::unimplemented, "parameter_server",
                  "this server does not share memory (server_options::shared_memory)");
    to.segment = shared_segment::open(read_offer(to.message), store_.shared_layout().bytes);
    acknowledge(from);
  }

  static bool uses_segment(const link& to, const frame_header& asked) {
    if ((asked.flags & in_segment) == 0) return false;
    if (!to.segment || asked.kind == frame_kind::restore)
      throw error(error_code::invalid_argument, "parameter_server",
                  "the worker's request names a segment that it has not shared");
    return true;
  }

  placed_gradients gradients_of(const link& from) const {
    if (from.asked.flags & in_segment)
      return {{from.segment.bytes().data(), store_.shared_layout().gradients}, from.rows};
    placed_gradients placed = store_.packed({from.gradients.data(), from.gradients.size()});
    placed.rows = from.rows;
    return placed;
  }
  placed_bytes<std::byte> copy_for(const link& to) const {
    return {to.segment.bytes().data(), store_.shared_layout().values};
  }

  bool is_chief(const worker& each) const { return &each == &workers_.front(); }

  void initialise(worker& from) {
    const std::uint32_t where = from.connection->asked.flags & in_segment;
    if (!is_chief(from))
      throw error(error_code::invalid_argument, "initialise",
                  {name(from), " is not the chief, which alone gives the variables their first values"});
    if (store_.initialised()) {  // a chief that came back: the training goes on
      from.connection->gradients = {};
      return acknowledge(from, where | duplicate);
    }
    if (where) store_.copy_from(copy_for(*from.connection));
    store_.set_initialised();
    acknowledge(from, where);
    answer_who_waits_for_values();
  }

  void answer_who_waits_for_values() {
    for (worker& each : workers_) {
      if (!is_parked(each)) continue;
      const frame_kind asked = each.connection->asked.kind;
      if (asked == frame_kind::pull) answer_values(each);
      if (asked == frame_kind::await_values || (asked == frame_kind::await_restore && settled_)) acknowledge(each);
    }
  }

  // ---- checkpoints ----

  std::size_t checkpoint_bytes() const {
    return store_.state_bytes() + 8 * store_.scalar_slots() + cluster_state_bytes(workers_.size());
  }

  /// Values, slots and step of one moment: what is still leaving when they change is copied then.
  void answer_state(worker& to) {
    if (!store_.initialised())
      throw error(error_code::failed_precondition, "parameter_server",
                  "the variables have no values yet; call initialise first");
    link& with = *to.connection;
    pieces_.clear();
    std::vector<double> scalars;
    store_.find_state(pieces_, scalars);
    message_writer rest;
    for (const double x : scalars) rest.real(x);
    cluster_state s{store_.global_step(), last_step_, unit_weight_};
    for (const worker& each : workers_) {
      s.incarnations.push_back(each.applied.incarnation());
      s.newest.push_back(std::max(each.applied.newest(each.applied.incarnation()), each.restored));
    }
    write_cluster_state(rest, s, workers_.size());
    with.reply = rest.take();
    pieces_.emplace_back(with.reply);
    with.out.start(answer_to(to, frame_kind::values), pieces_, here_.options().checksum);
    with.sends_values = true;
    with.at = phase::answering;
  }

  /// Takes a checkpoint over, or hears that there is none, before anything has been trained. A chief that comes back
  /// changes nothing: the training goes on.
  void restore(worker& from) {
    if (!is_chief(from))
      throw error(error_code::invalid_argument, "restore",
                  {name(from), " is not the chief, which alone restores a checkpoint"});
    if (settled_) return acknowledge(from, duplicate);
    for (const worker& each : workers_)
      if (store_.global_step() > 0 || contributes(each))
        throw error(error_code::failed_precondition, "restore",
                    "a worker trains already, without the checkpoint; make a supervised session with saved_in() in "
                    "every worker, before its first step");
    link& with = *from.connection;
    if (const auto size = static_cast<std::size_t>(with.asked.payload_length); size > 0) {
      const const_bytes payload(with.gradients.data(), size);
      message_reader rest(payload.subspan(store_.state_bytes()));
      std::vector<double> scalars(store_.scalar_slots());
      for (double& x : scalars) x = rest.real();
      const cluster_state s = read_cluster_state(rest, workers_.size());
      rest.end();
      keep_answers_in_flight();
      store_.restore(payload.first(store_.state_bytes()), scalars, s.global_step);
      last_step_ = s.last_step;
      unit_weight_ = s.unit;
      for (std::size_t w = 0; w < workers_.size(); ++w) {
        workers_[w].restored = s.newest[w];
        workers_[w].applied = replay_window::up_to(s.incarnations[w], s.newest[w]);
      }
      with.gradients = {};
    }
    settled_ = true;
    acknowledge(from);
    if (store_.initialised()) answer_who_waits_for_values();
  }

  void await_others(worker& from) {
    from.done = from.stays = true;
    complete_step();  // one fewer to wait for
    park(from);
    end_wait_for_others(from);
  }
  /// Answers a worker that waits for the others, once they have ended: with an error where one went without being done.
  void end_wait_for_others(worker& from) {
    if (const auto broken = why_broken()) {
      from.done = from.stays = false;
      answer_failure(from, *broken);
    } else if (have_others_ended(from)) {
      acknowledge(from);
    }
  }
  bool have_others_ended(const worker& but) const {
    return std::all_of(workers_.begin(), workers_.end(),
                       [&](const worker& each) { return &each == &but || has_ended(each); });
  }
  bool has_ended(const worker& each) const {
    const task_state state = members_.state(each.rank);
    return each.done || each.given_up || !each.refused.empty() || state == task_state::left ||
           state == task_state::lost;
  }

  void push_pull(worker& from) {
    if (!store_.initialised())
      throw error(error_code::failed_precondition, "parameter_server",
                  "the variables have no values yet; call initialise first");
    const frame_header& asked = from.connection->asked;
    if (asked.step < 0)
      throw error(error_code::invalid_argument, "parameter_server",
                  {"an update's step must be at least 0; it is ", asked.step});
    if (from.applied.contains(from.incarnation, asked.step)) return answer_values(from, duplicate);
    link& to = *from.connection;
    store_.read_rows({to.gradients.data(), static_cast<std::size_t>(asked.payload_length)},
                     (asked.flags & in_segment) != 0, to.rows);
    if (synchronous()) return contribute(from);
    if (const auto broken = why_broken()) throw *broken;
    if (asked.weight == 0) {  // an empty batch
      from.applied.insert(from.incarnation, asked.step);
      return answer_values(from);
    }
    if (refuses_nonfinite())
      if (const auto found = store_.find_nonfinite(gradients_of(*from.connection))) throw not_finite(from, *found);
    keep_answers_in_flight();
    copies_.clear();
    if (asked.flags & in_segment) copies_.push_back(copy_for(*from.connection));
    store_.apply(gradients_of(*from.connection), copies_, helpers());
    from.applied.insert(from.incarnation, asked.step);
    answer_values(from, 0, true);
  }

  bool synchronous() const { return contract_ && contract_->mode == consistency::synchronous; }
  bool refuses_nonfinite() const { return here_.options().not_finite == nonfinite_gradients::refuse; }

  error not_finite(const worker& from, const parameter_store::nonfinite& at) const {
    return nonfinite_gradient("parameter_server", name(from), contract_->variables[at.variable].name, at.element,
                              from.connection->asked.step);
  }

  void done(worker& from) {
    if (from.connection->asked.flags & stopping) {
      from.refused = stopped_by_signal;
      return acknowledge(from, why_broken() ? stopping : 0u);
    }
    if (!synchronous())  // in synchronous training this worker's last step was complete
      if (const auto broken = why_broken()) throw *broken;
    from.done = true;
    from.stays = false;
    acknowledge(from);
    complete_step();  // one fewer to wait for
  }

  // ---- synchronous mode: one barrier for all variables of a step ----

  void contribute(worker& from) {
    if (const auto broken = why_broken()) throw *broken;
    const std::int64_t step = from.connection->asked.step;
    // A worker that is ahead of the others has left out a step; they have done nothing wrong.
    for (worker& other : workers_) {
      if (&other == &from || !contributes(other)) continue;
      const std::int64_t its = other.connection->asked.step;
      if (its < step) throw ahead(from, step, other, its);
      if (its > step) answer_failure(other, ahead(other, its, from, step));
    }
    park(from);
    complete_step();
  }

  error ahead(const worker& one, std::int64_t step, const worker& other, std::int64_t its) const {
    return error(error_code::aborted, "push_pull",
                 {name(one), " is at step ", step, ", ", name(other), " at step ", its,
                  "; in synchronous mode all workers take the same steps: repeat the one that failed"});
  }

  bool contributes(const worker& each) const {
    return is_parked(each) && each.connection->asked.kind == frame_kind::push_pull;
  }

  /// Whether training that needs this worker cannot go on.
  bool is_gone(const worker& each, time_point now) const {
    if (each.done) return false;
    const task_state state = members_.state(each.rank, each.incarnation);
    if (state == task_state::lost || (state == task_state::left && !each.connection)) return true;
    if (!each.refused.empty()) return true;
    // A connection may end before its worker: it has the time to open another in which a silent one would be lost.
    return !each.gone.empty() && (!each.may_return || now - each.gone_at > here_.heartbeat_timeout(each.rank));
  }

  error why_gone(const worker& each) const {
    const bool refused = !each.refused.empty() && members_.state(each.rank, each.incarnation) != task_state::lost;
    if (refused) return error(error_code::unavailable, "push_pull", {name(each), " ", each.refused});
    return members_.diagnose(each.rank, each.incarnation, "push_pull", each.gone.empty() ? left_early : each.gone,
                             true);
  }

  /// The first worker that went without being done, with the reason: the others' going usually follows from it.
  std::optional<error> someone_gone() {
    const time_point now = clock::now();
    if (!first_gone_ || !is_gone(*first_gone_, now)) {
      // A service that was late sees several go at once; their order is known to the membership.
      first_gone_ = nullptr;
      const std::optional<std::size_t> first_lost = members_.first_lost();
      for (const worker& each : workers_)
        if (is_gone(each, now) && (!first_gone_ || each.rank == first_lost)) first_gone_ = &each;
    }
    if (!first_gone_) return {};
    return why_gone(*first_gone_);
  }

  /// Why training cannot go on, if it cannot.
  std::optional<error> why_broken() {
    if (interrupted_) return interrupted_;
    return synchronous() ? someone_gone() : too_few();
  }

  /// Why asynchronous training cannot go on: more workers are gone than it can do without.
  std::optional<error> too_few() {
    if (!contract_) return {};
    const time_point now = clock::now();
    const auto gone = std::count_if(workers_.begin(), workers_.end(), [&](const worker& each) {
      return !each.given_up && is_gone(each, now);  // one that was given up may ask again
    });
    const int left = static_cast<int>(workers_.size()) - static_cast<int>(gone);
    if (left >= min_workers_) return {};
    std::optional<error> first = someone_gone();
    if (!first || min_workers_ == static_cast<int>(workers_.size())) return first;
    return error(first->code(), "push_pull",
                 {first->sentence(), "; ", left, " of ", workers_.size(), " workers are left, and training needs ",
                  min_workers_, " (server_options::min_workers)"});
  }

  void complete_step() {
    if (!synchronous()) return;
    contributions_.clear();
    copies_.clear();
    bool any = false, stops = stopping_;
    for (worker& each : workers_) {
      if (!contributes(each) && !each.done) return;
      any = any || contributes(each);
      stops = stops || (contributes(each) && (each.connection->asked.flags & stopping));
      if (has_examples(each)) contributions_.push_back({gradients_of(*each.connection), weight_of(each)});
    }
    if (!any) return;
    const bool update = !contributions_.empty();
    if (update) {
      keep_answers_in_flight();
      for (worker& each : workers_)
        if (contributes(each) && (each.connection->asked.flags & in_segment))
          copies_.push_back(copy_for(*each.connection));
      if (!store_.apply_mean(contributions_, copies_, helpers(), refuses_nonfinite())) return refuse_nonfinite();
    }
    stopping_ = stops;
    for (worker& each : workers_) {
      if (!contributes(each)) continue;
      last_step_ = std::max(last_step_, each.connection->asked.step);
      each.applied.insert(each.incarnation, each.connection->asked.step);
      if (each.connection->asked.flags & stopping) each.refused = stopped_by_signal;  // those that are done hear of it
      answer_values(each, 0, update);
    }
  }

  /// Whether a worker brings gradients to a step that are the mean of something.
  bool has_examples(const worker& each) const { return contributes(each) && each.connection->asked.weight != 0; }

  /// By how many examples its gradients are the mean of, beside those of the first worker in the first step that has
  /// any: a worker with half as many counts half. In an all-reduce it is the same.
  double weight_of(const worker& each) {
    const std::uint32_t weight = each.connection->asked.weight;
    if (unit_weight_ == 0) unit_weight_ = weight;
    return static_cast<double>(weight) / unit_weight_;
  }

  /// Tells those whose gradients they were; the others go on waiting for better ones.
  void refuse_nonfinite() {
    bool found = false;
    for (worker& each : workers_)
      if (has_examples(each))
        if (const auto at = store_.find_nonfinite(gradients_of(*each.connection))) {
          answer_failure(each, not_finite(each, *at));
          found = true;
        }
    if (found) return;
    for (worker& each : workers_)
      if (contributes(each))
        answer_failure(each, error(error_code::invalid_argument, "parameter_server",
                                   {"the mean of the workers' gradients is not finite in step ",
                                    each.connection->asked.step, ", though each of them is; lower the learning rate"}));
  }

  /// Threads for a large step. The workers of this host that wait while it is made leave their cores free.
  thread_pool* helpers() {
    constexpr std::size_t large = std::size_t{1} << 20;
    if (!synchronous() || store_.bytes() < large || contributions_.size() < 2) return nullptr;
    if (!helpers_)
      helpers_ =
          std::make_unique<thread_pool>(static_cast<int>(std::min(available_cores().size(), contributions_.size())));
    return helpers_.get();
  }

  // ---- answers ----

  /// `copied`: those of whole variables are in the worker's segment already, if it has one.
  void answer_values(worker& to, std::uint32_t flags = 0, bool copied = false) {
    link& with = *to.connection;
    frame_header answer = answer_to(to, frame_kind::values);
    answer.flags = flags | (stopping_ && with.asked.kind == frame_kind::push_pull ? stopping : 0u);
    if (with.asked.flags & in_segment) {
      if (copied)
        store_.copy_rows_to(copy_for(with), with.has);
      else
        store_.copy_to(copy_for(with));
      store_.note(with.has);
      answer.flags |= in_segment;
      with.out.start(answer);
      with.at = phase::answering;
      return;
    }
    if ((with.asked.flags & changed_rows) && store_.changed_since(with.has, with.reply)) {
      answer.flags |= changed_rows;
      pieces_.clear();
      store_.whole_values(pieces_);
      static constexpr std::byte zeros[8] = {};
      pieces_.emplace_back(zeros, rows_begin(store_.gradient_bytes()) - store_.gradient_bytes());
      pieces_.emplace_back(with.reply);
      with.out.start(answer, pieces_, here_.options().checksum);
    } else {
      with.out.start(answer, static_cast<const_bytes>(store_.values()), here_.options().checksum);
    }
    store_.note(with.has);
    with.sends_values = true;
    with.at = phase::answering;
  }

  void acknowledge(worker& to, std::uint32_t flags = 0) {
    frame_header answer = answer_to(to, frame_kind::acknowledge);
    answer.flags = flags;
    to.connection->out.start(answer);
    to.connection->at = phase::answering;
  }

  void answer_failure(worker& to, const error& problem) {
    link& with = *to.connection;
    with.reply = error_bytes(problem.code(), problem.sentence());
    with.out.start(answer_to(to, frame_kind::failure), const_bytes(with.reply));
    with.at = phase::answering;
  }

  frame_header answer_to(worker& to, frame_kind kind) {
    frame_header answer;
    answer.kind = kind;
    answer.request = to.connection->asked.request;
    answer.step = store_.global_step();
    answer.tag = static_cast<std::uint64_t>(next_step(to));
    to.connection->expires.reset();
    return answer;
  }

  /// Before the values change: answers that are still leaving keep the values that they began with.
  void keep_answers_in_flight() {
    for (worker& each : workers_)
      if (each.connection && each.connection->sends_values && !each.connection->out.idle()) {
        each.connection->out.detach();
        each.connection->sends_values = false;
      }
  }

  // ---- waiting ----

  bool is_parked(const worker& each) const { return each.connection && each.connection->at == phase::parked; }

  void park(worker& from) {
    link& with = *from.connection;
    with.at = phase::parked;
    // Answered a little before the worker gives up by itself: this side knows which workers the request waits for.
    if (const std::uint64_t us = with.asked.deadline_us; us > 0 && us < std::uint64_t{1} << 50)
      with.expires = moment(std::chrono::microseconds(us - us / 20));
    expect_next(from);  // nothing is due, but the end of the connection shows here
  }

  /// Without traffic: which worker is gone, whose time is up, which one does a step still wait for.
  void look_around(time_point now) {
    complete_step();
    const std::optional<error> broken = synchronous() ? why_broken() : std::nullopt;
    for (worker& each : workers_) {
      const std::uint64_t incarnation = each.incarnation;
      if (each.connection && members_.state(each.rank, incarnation) == task_state::lost) {
        drop(each, members_.reason(each.rank, incarnation));
        continue;
      }
      if (each.connection) look_at_link(each, now);
      look_at_worker(each, now);
      if (!is_parked(each)) continue;
      if (each.connection->asked.kind == frame_kind::await_others) end_wait_for_others(each);
      if (!is_parked(each)) continue;
      if (broken)
        answer_failure(each, *broken);
      else if (const std::string why = why_uninitialised(each); !why.empty())
        answer_failure(each, error(error_code::unavailable, "parameter_server", why));
      else if (each.connection->expires && each.connection->expires->expired())
        answer_failure(each, error(error_code::deadline_exceeded, "parameter_server", whom_it_waits_for(each)));
    }
  }

  /// A message that has begun goes on; a worker says at once what it has come for.
  void look_at_link(worker& each, time_point now) {
    link& with = *each.connection;
    if (with.has_moved || with.at == phase::parked) {
      with.has_moved = false;
      with.last_moved = now;
    }
    if (now - with.last_moved <= here_.options().stalled) return;
    if (with.at == phase::answering)
      drop(each, "does not take its answer");
    else if (with.in.has_begun())
      drop(each, "has stopped in the middle of a request");
    else if (!each.enrolled)
      drop(each, "has connected, and asks for nothing", true);
  }

  /// A worker that is there and asks for nothing is not waited for without end.
  void look_at_worker(worker& each, time_point now) {
    if (each.has_asked || is_parked(each) || members_.state(each.rank) != task_state::alive) {
      each.has_asked = false;
      each.last_asked = now;
    }
    if (each.done || each.given_up || now - each.last_asked <= here_.options().idle_worker) return;
    const auto limit = std::chrono::duration_cast<std::chrono::seconds>(here_.options().idle_worker);
    drop(each, str_cat({"is there, but has asked for nothing for ", limit.count(), " s"}));
    each.given_up = true;
  }

  /// Why the variables that this worker waits for will get no values; empty where they have some, or may get them yet.
  std::string why_uninitialised(const worker& waiting) const {
    const worker& chief = workers_.front();
    const task_state state = members_.state(chief.rank);
    const bool restores = waiting.connection->asked.kind == frame_kind::await_restore && !settled_;
    if ((store_.initialised() && !restores) || (state != task_state::left && state != task_state::lost)) return {};
    return str_cat({"the chief, ", name(chief), ", ", members_.reason(chief.rank), ", before it ",
                    restores ? "restored its checkpoint" : "initialised the variables"});
  }

  std::string whom_it_waits_for(const worker& waiting) const {
    if (waiting.connection->asked.kind == frame_kind::await_restore)
      return str_cat({"the chief, ", name(workers_.front()), ", has not restored a checkpoint in time, or said that ",
                      "there is none"});
    if (waiting.connection->asked.kind == frame_kind::await_others) {
      std::string missing;
      for (const worker& each : workers_)
        if (&each != &waiting && !has_ended(each)) append(missing, {missing.empty() ? "" : ", ", name(each)});
      return str_cat({"the last checkpoint still waits for ", missing});
    }
    if (waiting.connection->asked.kind != frame_kind::push_pull)
      return str_cat({"the chief, ", name(workers_.front()), ", has not initialised the variables in time"});
    std::string missing;
    for (const worker& each : workers_)
      if (!contributes(each) && !each.done) append(missing, {missing.empty() ? "" : ", ", name(each)});
    return str_cat({"step ", waiting.connection->asked.step, " still waits for ", missing});
  }

  /// Whether a signal has come, and nobody is served any more or the time for it has passed.
  bool is_stopped_by_signal() {
    if (!signals_ || signals_->received() == 0) return false;
    if (!stop_at_) stop_at_.emplace(here_.options().stop_patience);
    signal_ = signals_->received();
    return stop_at_->expired() || std::none_of(workers_.begin(), workers_.end(), [&](const worker& each) {
             return each.connection || members_.state(each.rank) == task_state::alive;
           });
  }

  bool finished() const {
    return std::all_of(workers_.begin(), workers_.end(), [&](const worker& each) {
      if (each.connection && each.connection->at == phase::answering) return false;
      const task_state state = members_.state(each.rank);
      return (each.done && !each.stays) || each.given_up || state == task_state::left || state == task_state::lost;
    });
  }

  bool have_all_come(const moment& until) {
    if (const std::optional<error> why = members_.refusal()) fail_everyone(*why);
    std::string missing;
    for (const worker& each : workers_)
      if (!each.connection && members_.state(each.rank) == task_state::awaited) {
        append(missing, {missing.empty() ? "" : ", ", name(each)});
        if (const std::string why = members_.reason(each.rank); !why.empty()) append(missing, {" (", why, ")"});
      }
    if (missing.empty()) return true;
    if (until.expired())
      fail_everyone(error(error_code::deadline_exceeded, "join",
                          {here_.name(), " still waits for ", missing, "; start them, or look there for why they ended",
                           here_.members().note()}));
    return false;
  }

  [[noreturn]] void fail_everyone(const error& problem) {
    for (worker& each : workers_)
      if (is_parked(each)) {
        answer_failure(each, problem);
        serve(each);
      }
    throw problem;
  }

  void sleep(const moment& until) {
    items_.clear();
    items_.push_back({&here_.service_bell(), true, false});
    for (worker& each : workers_)
      if (each.connection) {
        const bool answering = each.connection->at == phase::answering;
        items_.push_back({&each.connection->stream, !answering, answering});
      }
    moment next = until;
    for (const worker& each : workers_)
      if (is_parked(each) && each.connection->expires && each.connection->expires->at() < next.at())
        next = *each.connection->expires;
    idle_.pause(items_, next);
    here_.service_bell().clear();
  }

  void drop(worker& from, const std::string& why, bool may_return = false) {
    from.connection.reset();
    from.enrolled = false;
    from.gone = why;
    from.gone_at = clock::now();
    from.may_return = may_return;
    someone_gone();  // remembers which was the first
  }

  join_report report() {
    join_report result;
    std::vector<std::string> gave_up;  // listed after those that were lost: their going often follows from it
    for (const worker& each : workers_) {
      // A worker that ends with an error leaves in order too: its goodbye alone does not make it finished.
      const task_state state = members_.state(each.rank);
      if (each.done)
        result.finished.push_back(name(each));
      else if (state == task_state::lost)
        result.lost.push_back(str_cat({name(each), " ", members_.reason(each.rank)}));
      else if (!each.refused.empty())
        gave_up.push_back(str_cat({name(each), " ", each.refused}));
      else if (state == task_state::left)
        gave_up.push_back(str_cat({name(each), " ", how_it_left(each)}));
      else if (!each.gone.empty())
        result.lost.push_back(str_cat({name(each), " ", each.gone}));
    }
    result.lost.insert(result.lost.end(), gave_up.begin(), gave_up.end());
    result.signal = signal_;
    for (worker& each : workers_) {
      each.given_up = false;  // it will not ask again
      if (members_.state(each.rank) == task_state::left) each.connection.reset();
    }
    std::optional<error> gone = contract_ ? why_broken() : std::nullopt;
    if (!gone && signal_ != 0 && !finished())
      gone = error(error_code::cancelled, "join", {name_of_signal(signal_), " has stopped ", here_.name()});
    if (gone) {
      const std::string early =
          str_cat({synchronous() ? "synchronous" : "asynchronous", " training ended early: ", gone->sentence()});
      result.interrupted = error(error_code::unavailable, here_.name(), early);
      here_.set_failure(error(error_code::unavailable, "join", early));  // for one that takes a lost one's place
    }
    return result;
  }

  std::string how_it_left(const worker& each) const {
    const std::string reason = members_.reason(each.rank);
    if (reason != "has left the cluster") return reason;
    return each.took_part ? left_early : str_cat({left_early, ", and has asked this parameter server for nothing"});
  }

  std::string name(const worker& each) const { return to_string(members_.task(each.rank)); }

  Server& here_;
  membership& members_;
  waiter<network, clock> idle_;
  std::vector<worker> workers_;
  const worker* first_gone_ = nullptr;
  std::optional<error> interrupted_;  // why synchronous training cannot go on, for good
  int min_workers_ = 0;               // that asynchronous training needs
  std::optional<stop_signals> signals_;
  int signal_ = 0;                 // that has come
  std::optional<moment> stop_at_;  // then the time until which workers are served
  std::optional<enroll_message> contract_;
  parameter_store store_;
  bool settled_ = false;           // the chief has restored a checkpoint, or found none
  bool stopping_ = false;          // synchronous training ends with the last step, for a worker stops
  std::int64_t last_step_ = -1;    // of synchronous mode: the last one that was made
  std::uint32_t unit_weight_ = 0;  // what counts 1
  std::vector<parameter_store::contribution> contributions_;
  std::vector<placed_bytes<std::byte>> copies_;
  std::vector<const_bytes> pieces_;
  std::unique_ptr<thread_pool> helpers_;
  std::vector<typename network::wait_item> items_;
};

}  // namespace detail
}  // namespace weft
