// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <weft/distributed/membership/task_server.hpp>
#include <weft/distributed/parameter/parameter_store.hpp>
#include <weft/distributed/parameter/row_lists.hpp>
#include <weft/distributed/parameter/steps/update_history.hpp>
#include <weft/distributed/parameter/workers/worker_roster.hpp>
#include <weft/error.hpp>
#include <weft/transport/framing.hpp>

namespace weft::detail {

/// Begins a parameter server's answers. Invariant: an answer contains one consistent state of the values, even if they
/// change while it is sent, because every change of the values is preceded by keep_answers_in_flight(). Not
/// thread-safe: the serving thread owns the object.
class worker_answers {
 public:
  using worker = served_worker;

  worker_answers(const task_server& here, worker_roster& workers, parameter_store& store, const update_history& history)
      : checksum_(here.options().checksum), workers_(workers), store_(store), history_(history) {}

  /// Sets the epoch of the run, if this server writes shards. Answers without values report it from then on.
  void set_epoch(std::uint64_t at) { epoch_ = at; }

  void acknowledge(worker& to, std::uint32_t flags = 0, std::uint32_t weight = 0) {
    frame_header answer = header(to, frame_kind::acknowledge, flags);
    answer.weight = weight;
    if (epoch_) {
      answer.flags |= keeps_shards;
      answer.step = static_cast<std::int64_t>(*epoch_);
    }
    to.connection->answer(answer);
  }
  /// Answers that the run is in another epoch than the request, which is not served.
  void roll_back(worker& to) { acknowledge(to, rolled_back); }

  void fail(worker& to, const error& problem) {
    to.connection->answer_failure(header(to, frame_kind::failure), problem);
  }

  /// Answers with the values. `copied`: the values of whole variables are already in the worker's segment, if it has
  /// one.
  void send_values(worker& to, std::uint32_t flags = 0, bool copied = false) {
    auto& with = *to.connection;
    frame_header answer = header(to, frame_kind::values, flags);
    answer.weight = update_notes{to.staleness, workers_.left_out()}.bits();
    to.values_at = store_.global_step();
    if (with.uses_segment()) {
      if (copied)
        store_.copy_rows_to(with.values_in_segment(store_), with.known());
      else
        store_.copy_to(with.values_in_segment(store_));
      store_.note(with.known());
      answer.flags |= in_segment;
      with.answer(answer);
      return;
    }
    pieces_.clear();
    if ((with.request().flags & changed_rows) && store_.changed_since(with.known(), with.reply())) {
      answer.flags |= changed_rows;
      store_.whole_values(pieces_);
      static constexpr std::byte zeros[8] = {};
      pieces_.emplace_back(zeros, rows_begin(store_.gradient_bytes()) - store_.gradient_bytes());
      pieces_.emplace_back(with.reply());
    } else {
      pieces_.emplace_back(store_.values());
    }
    store_.note(with.known());
    with.answer_from_store(answer, pieces_, checksum_);
  }

  /// Answers with values and slots (`pieces`) and `rest`, all of one moment.
  void send_state(worker& to, std::vector<std::byte> rest, std::vector<const_bytes> pieces) {
    auto& with = *to.connection;
    with.reply() = std::move(rest);
    pieces.emplace_back(with.reply());
    with.answer_from_store(header(to, frame_kind::values), pieces, checksum_);
  }

  /// Keeps the values of answers that are still being sent. Must be called before the values change.
  void keep_answers_in_flight() {
    for (worker& each : workers_)
      if (each.connection) each.connection->detach();
  }

 private:
  frame_header header(const worker& to, frame_kind kind, std::uint32_t flags = 0) const {
    frame_header answer;
    answer.kind = kind;
    answer.flags = flags;
    answer.request = to.connection->request().request;
    answer.step = store_.global_step();
    answer.tag = static_cast<std::uint64_t>(history_.next_step(to.index));
    return answer;
  }

  bool checksum_;
  worker_roster& workers_;
  parameter_store& store_;
  const update_history& history_;
  std::optional<std::uint64_t> epoch_;
  std::vector<const_bytes> pieces_;
};

}  // namespace weft::detail
