// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/distributed/remote/client/client_runs.hpp>
#include <weft/distributed/remote/mailbox.hpp>
#include <weft/distributed/remote/receiving_role.hpp>
#include <weft/distributed/remote/remote_tasks.hpp>
#include <weft/distributed/remote/service/graph_registry.hpp>
#include <weft/distributed/remote/service/parked_runs.hpp>
#include <weft/distributed/remote/service/request_executor.hpp>
#include <weft/distributed/remote/service/request_limits.hpp>
#include <weft/distributed/remote/service/run_forwarder.hpp>
#include <weft/distributed/remote/service/run_scheduler.hpp>
#include <weft/distributed/remote/service/service_peers.hpp>
#include <weft/distributed/remote/service/service_replies.hpp>
#include <weft/distributed/remote/service/service_request.hpp>
#include <weft/distributed/remote/step_messages.hpp>
#include <weft/distributed/remote/task_service.hpp>
#include <weft/error.hpp>
#include <weft/queue/resources.hpp>
#include <weft/session/session.hpp>
#include <weft/train/signals.hpp>
#include <weft/transport/separate.hpp>

namespace weft {

namespace detail {

/// The implementation of task_service: admits the requests of clients and of other tasks to the queues of
/// run_scheduler.
class graph_host final : run_scheduler::owner {
 public:
  graph_host(task_server& here, const graph& g, graph_service_options options)
      : here_(here),
        options_(std::move(options)),
        graphs_(g),
        parked_(options_.max_parked_bytes),
        asked_(options_.max_parked_bytes),
        peers_(
            here, options_.max_value_bytes,
            [this](const peer_process& from, const frame_header& header) { return open(from, header); },
            [this](const peer_process& from, const frame_header& header, std::vector<std::byte> payload) {
              handle(from, header, std::move(payload));
            },
            [this](const peer_process& from) { lose(from); }) {
    for (std::uint32_t rank = 0; rank < tasks(); ++rank) homes_.push_back({this, rank});
    scheduler_.start();
  }
  ~graph_host() {
    peers_.end();
    runs_.fail_all(service_has_ended());
    peers_.stop();
    scheduler_.stop();
    scheduler_.join_sessions();  // no thread adds requests any more
    scheduler_.drop_waiting();
  }
  graph_host(const graph_host&) = delete;
  graph_host& operator=(const graph_host&) = delete;

  task_server& here() { return here_; }
  const graph_service_options& options() const { return options_; }
  void add_graph(const graph& g) { graphs_.add(g); }
  session_target target(std::size_t rank);

  // ---- for remote_tasks ----

  std::size_t tasks() const { return peers_.size(); }
  std::chrono::milliseconds answer_timeout() const { return options_.connect_timeout; }
  client_runs& runs() { return asked_; }
  void fill_random(std::span<std::byte> bytes) { peers_.fill_random(bytes); }
  peer_process self_as_client() const { return peers_.self_as_client(); }
  std::string table_name(std::size_t task) const { return peers_.name_of(task); }
  void await_tasks(deadline until) { peers_.await_tasks(until); }
  std::uint64_t process_of(std::size_t task) const { return peers_.process_of(task); }
  bool is_there(std::size_t task, std::uint64_t incarnation) const { return peers_.is_there(task, incarnation); }
  void check_there(std::size_t task, std::uint64_t incarnation) const { peers_.check_there(task, incarnation); }
  void check_connection(std::size_t task, std::uint64_t incarnation, deadline::time_point began) const {
    peers_.check_connection(task, incarnation, began);
  }
  bool has_lost_connection(std::size_t task, std::uint64_t incarnation, deadline::time_point began) const {
    return peers_.has_lost_connection(task, incarnation, began);
  }
  template <typename Done>
  bool receive_until(std::chrono::nanoseconds time, Done done) {
    return peers_.receive_until(urgency::step, time, done);
  }
  void send_to_task(std::size_t task, std::uint64_t incarnation, const frame_header& header, const_bytes payload,
                    deadline until) {
    peers_.send({task, incarnation}, header, payload, until);
  }

 private:
  using memory = task_message::memory;

  /// The object that a session_target points to.
  struct home {
    graph_host* of;
    std::uint32_t rank;
  };

  std::size_t self() const { return peers_.self(); }
  bool is_client(const peer_process& from) const { return from.rank == tasks(); }

  // ---- frames, on any thread ----

  mailbox::arrival open(const peer_process& from, const frame_header& header) {
    if (!is_client(from) && header.request == tasks()) return asked_.open(header);
    if (header.request != self()) message_reader::malformed();
    return mailbox::open(find({header.tag, header.step}, from), header.weight,
                         static_cast<std::size_t>(header.payload_length), parked_);
  }

  void handle(const peer_process& from, const frame_header& header, std::vector<std::byte> payload) {
    switch (header.kind) {
      case frame_kind::run_step:
        return ask(from, header, std::move(payload));
      case frame_kind::read_variable:
      case frame_kind::write_variable:
        return admit({from, header, std::move(payload)});
      case frame_kind::step_ended:
        if (is_client(from)) message_reader::malformed();
        return asked_.end_part(from.rank, table_name(from.rank), header, end_message::read(payload));
      case frame_kind::cancel_step:
        return cancel(from, header, end_message::read(payload));
      case frame_kind::list_devices:
        return describe_task(from, header);
      case frame_kind::end_session:
        return end_session(header.tag);
      case frame_kind::reset:
        return reset(from, header, std::move(payload));
      default:
        message_reader::malformed();
    }
  }

  void ask(const peer_process& from, const frame_header& header, std::vector<std::byte>&& payload) {
    auto message = std::make_shared<const run_message>(run_message::read(payload, tasks()));
    if (is_client(from) && (message->client_rank != tasks() || message->client_incarnation != from.incarnation))
      message_reader::malformed();  // a client requests runs only for itself
    service_request next{from, header, std::move(payload), std::move(message)};
    if (next.message->waits || self() != 0) next.payload = {};  // only a forwarded run still requires the payload
    if (next.message->waits) return admit_to_session(std::move(next));
    if (self() != 0) return admit(std::move(next));
    // A session of this process forwards its runs itself; the thread that receives must not wait for other tasks.
    if (from.rank == self())
      forwarder_.forward(next, true);
    else if (take_ticket(next))
      scheduler_.forward(std::move(next));
  }
  void admit(service_request&& next) {
    if (take_ticket(next)) scheduler_.add(std::move(next));
  }
  void admit_to_session(service_request&& next) {
    if (!take_ticket(next)) return;
    const peer_process client = next.client();
    const frame_header asked = next.header;
    try {
      scheduler_.add_to_session(std::move(next));
    } catch (const error& e) {
      replies_.post_end(client, asked, end_message::of(e, false));
    }
  }
  /// Returns false if the request exceeds the limits of its client, which receives the error.
  bool take_ticket(service_request& next) {
    std::size_t bytes = sizeof(service_request) + next.payload.size();
    if (next.message) bytes += next.message->extents.size() * sizeof(shape);
    try {
      next.admitted = limits_.admit(next.client(), bytes);
      return true;
    } catch (const error& e) {
      if (next.header.kind != frame_kind::cancel_step)
        replies_.post_end(next.client(), next.header, end_message::of(e, false));
      return false;
    }
  }

  void cancel(const peer_process& from, const frame_header& header, const end_message& why) {
    if (!why.failed) message_reader::malformed();
    if (const auto box = find({header.tag, header.step}, from))
      box->cancel(error(static_cast<error_code>(why.code), why.operation, why.sentence));
    admit({from, header, {}});
  }
  void describe_task(const peer_process& from, const frame_header& header) {
    if (header.weight > static_cast<std::uint32_t>(memory::lost)) message_reader::malformed();
    task_message said;
    said.variables = executor_.mark_variables(static_cast<memory>(header.weight));
    said.cpus = static_cast<std::uint32_t>(options_.session.devices);
    said.gpus = request_executor::gpus();
    for (const std::string& name : here_.cluster().jobs()) {
      said.jobs.push_back(name);
      std::string& list = said.addresses.emplace_back();
      for (const int index : here_.cluster().task_indices(name))
        append(list, {list.empty() ? "" : ",", index, "@", to_string(here_.cluster().task_address(name, index))});
    }
    replies_.post_value(from, header, said.bytes());
  }
  /// Ends waits in queues at once. The variables are dropped later, between two runs.
  void reset(const peer_process& from, const frame_header& header, std::vector<std::byte> payload) {
    for (const std::string& name : read_message<reset_message>(payload).containers)
      resource_table::of_process().reset(name);
    admit({from, header, std::move(payload)});
  }
  void end_session(std::uint64_t session) {
    runs_.end_session(session, error(error_code::cancelled, "step", "the session has ended"));
    graphs_.end_session(session);
    scheduler_.end_session(session);
  }

  /// A connection from a task or a client has ended. Runs of a client end with its connection, because the client does
  /// not wait for them after it has connected again.
  void lose(const peer_process& from) noexcept try {
    if (!is_client(from)) return peers_.note_loss(from);
    scheduler_.drop_forwarded(from);
    runs_.cancel_of(from, error(error_code::unavailable, "step", "the client is gone"));
  } catch (const std::bad_alloc&) {
  }

  /// Returns the mailbox of a run, which may not have begun here yet, or null if the run has ended.
  std::shared_ptr<mailbox> find(const run_key& key, const peer_process& from) {
    return runs_.find(key, from, is_client(from), [this](const peer_process& peer) { return peers_.is_gone(peer); });
  }

  // ---- for run_scheduler ----

  void note_queued(const service_request& next) override {
    if (next.message && next.progress.state() == run_state::queued) runs_.ask(next.key(), next.client());
  }
  bool is_own(const peer_process& client) const override { return client.rank == self(); }
  bool forward(service_request& next) override { return forwarder_.forward(next, false); }
  bool receive(std::chrono::milliseconds time) override {
    return peers_.receive_until(urgency::next_request, time, [this] { return scheduler_.must_serve(); });
  }
  void wake() override { peers_.channels().wake(); }
  /// Drops what remains of clients and tasks that have ended.
  void clean_up() override {
    const auto is_gone = [this](const peer_process& peer) { return peers_.is_gone(peer); };
    runs_.drop_orphans(is_gone);
    peers_.forget_losses();
    graphs_.end_sessions_of(is_gone);
    scheduler_.end_sessions_of(is_gone);
  }
  void drop(const service_request& next, const peer_process& client) override {
    if (next.message) runs_.end(next.key(), client);
    const bool ends = peers_.is_ending();
    replies_.send_end(client, next.header, end_message::of(ends ? service_has_ended() : run_was_cancelled(), !ends));
  }
  /// Reports the end of a cancelled run that never arrived, because the first task ended before it forwarded the run:
  /// the client waits for all tasks.
  void end_cancelled(const service_request& cancelled) override {
    if (!runs_.is_unasked(cancelled.key())) return;  // the run has reported its end, or will
    runs_.end(cancelled.key(), cancelled.from);
    replies_.send_end(cancelled.from, cancelled.header, end_message::of(run_was_cancelled(), true));
  }

  void execute(service_request& next, std::unique_ptr<run_scheduler::session_state>* state) override {
    executor_.execute(next, state);
  }

  task_server& here_;
  graph_service_options options_;
  std::vector<home> homes_;  // by rank

  graph_registry graphs_;
  parked_bytes parked_;
  request_limits limits_{parked_};
  parked_runs runs_;   // runs in which this task takes part
  client_runs asked_;  // runs that sessions of this process request
  run_scheduler scheduler_{*this};
  service_replies replies_{peers_, scheduler_};
  run_forwarder forwarder_{peers_, runs_, scheduler_, replies_};
  request_executor executor_{options_, peers_, runs_, parked_, graphs_, scheduler_, replies_};
  service_peers peers_;  // last, because its thread uses the other members
};

inline session_target graph_host::target(std::size_t rank) {
  return {[](void* to, const graph& g) -> plan::task_support* {
            const home& at = *static_cast<home*>(to);
            at.of->add_graph(g);
            return new remote_tasks<graph_host>(*at.of, g, at.rank);
          },
          &homes_.at(rank)};
}

}  // namespace detail

WEFT_DISTRIBUTED_DECL task_service::task_service(task_server& here, const graph& g, graph_service_options options)
    : host_(new detail::graph_host(here, g, std::move(options))) {}
WEFT_DISTRIBUTED_DECL task_service::~task_service() = default;

WEFT_DISTRIBUTED_DECL session_target task_service::target() { return target(host_->here().members().self()); }
WEFT_DISTRIBUTED_DECL session_target task_service::target(std::size_t rank) { return host_->target(rank); }
WEFT_DISTRIBUTED_DECL void task_service::add_graph(const graph& g) { host_->add_graph(g); }
WEFT_DISTRIBUTED_DECL task_server& task_service::here() { return host_->here(); }
WEFT_DISTRIBUTED_DECL const graph_service_options& task_service::options() const { return host_->options(); }

WEFT_DISTRIBUTED_DECL int task_service::serve(deadline until) {
  task_server& here = host_->here();
  std::optional<stop_signals> caught;
  if (here.options().handle_signals) caught.emplace();
  while (!here.stopping() && !until.expired()) {
    if (caught && caught->received() != 0) return caught->received();
    if (const auto why = here.given_up()) {
      here.set_failure(*why);
      throw *why;
    }
    detail::sleep(std::chrono::milliseconds(20));
  }
  return caught ? caught->received() : 0;
}

}  // namespace weft
