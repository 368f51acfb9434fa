#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/membership/membership.hpp>
#include <weft/distributed/parameter/parameter_spec.hpp>
#include <weft/error.hpp>
#include <weft/transport/framing.hpp>

namespace weft::detail {

/// Which gradients a parameter server holds: what it tells parameter server 0.
struct held_message {
  std::int64_t next_step = 0;       // that it has not made
  std::vector<std::int64_t> steps;  // of each worker's gradients there; -1: none

  std::vector<std::byte> bytes() const {
    message_writer out;
    out.number(next_step).number(static_cast<std::uint32_t>(steps.size()));
    for (const std::int64_t step : steps) out.number(step);
    return out.take();
  }
  static held_message read(const_bytes bytes, std::size_t workers) {
    message_reader in(bytes);
    held_message said;
    said.next_step = in.number<std::int64_t>();
    if (said.next_step < 0 || in.number<std::uint32_t>() != workers) message_reader::malformed();
    for (std::size_t w = 0; w < workers; ++w) {
      said.steps.push_back(in.number<std::int64_t>());
      if (said.steps.back() < -1) message_reader::malformed();
    }
    in.end();
    return said;
  }
};

/// Whose gradients make a step: what parameter server 0 tells the others.
struct decision_message {
  std::int64_t step = -1;
  std::vector<std::size_t> workers;  // their indices, which ascend

  std::vector<std::byte> bytes() const {
    message_writer out;
    out.number(step).number(static_cast<std::uint32_t>(workers.size()));
    for (const std::size_t each : workers) out.number(static_cast<std::uint32_t>(each));
    return out.take();
  }
  static decision_message read(const_bytes bytes, std::size_t workers) {
    message_reader in(bytes);
    decision_message said;
    said.step = in.number<std::int64_t>();
    const auto count = in.number<std::uint32_t>();
    if (said.step < 0 || count == 0 || count > workers) message_reader::malformed();
    for (std::uint32_t k = 0; k < count; ++k) {
      const auto each = in.number<std::uint32_t>();
      if (each >= workers || (k > 0 && each <= said.workers.back())) message_reader::malformed();
      said.workers.push_back(each);
    }
    in.end();
    return said;
  }
};

/// The connections by which parameter servers agree whose gradients make a step: each of the others opens one to
/// parameter server 0, tells it which gradients it holds, and hears the decisions. One that drops is opened again, and
/// both say again what they said last. Nothing is opened before begin().
///
/// Invariant: a step is decided when all servers have made the one before, so that the last decision is the only one
/// that another server may lack. Not locked: the serving thread owns it.
template <typename Server>
class shard_links {
  using network = typename Server::transport_type;
  using clock = typename Server::clock_type;
  using moment = basic_deadline<clock>;

 public:
  shard_links(Server& here, std::size_t workers) : here_(here), members_(here.members()), workers_(workers) {}

  /// Workers train by decisions from here on.
  void begin() {
    if (has_begun_) return;
    has_begun_ = true;
    mine_.steps.assign(workers_, -1);
    const std::string& job = here_.options().ps_job;
    for (const int task : here_.cluster().task_indices(job)) {
      if ((task == 0) == is_first()) continue;  // others talk to the first
      if (!is_first() && task != 0) continue;
      peers_.emplace_back(here_.cluster().rank({job, task}));
    }
  }
  bool has_begun() const { return has_begun_; }

  /// Whether this is the server that decides.
  bool is_first() const { return here_.index() == 0; }

  // ---- what servers say ----

  /// At the first: whether all others hold this worker's gradients of the step.
  bool all_hold(std::size_t worker, std::int64_t step) const {
    return std::all_of(peers_.begin(), peers_.end(), [&](const peer& each) {
      return worker < each.held.steps.size() && each.held.steps[worker] == step;
    });
  }
  /// At the first: the names of those that do not.
  std::string who_lack(std::size_t worker, std::int64_t step) const {
    std::string names;
    for (const peer& each : peers_)
      if (worker >= each.held.steps.size() || each.held.steps[worker] != step)
        append(names, {names.empty() ? "" : ", ", name(each)});
    return names;
  }
  /// The first tells the others.
  void announce(decision_message decided) {
    decision_ = std::move(decided);
    for (peer& each : peers_) each.is_due = true;
  }
  /// Training cannot go on; the first tells the others.
  void end(const error& why) {
    if (ended_) return;
    ended_ = why;
    for (peer& each : peers_) each.is_due = true;
  }

  /// Another server tells the first which gradients it holds.
  void report(held_message holds) {
    mine_ = std::move(holds);
    for (peer& each : peers_) each.is_due = true;
  }
  /// At another server: the decision that has come last.
  const decision_message& decision() const { return decision_; }
  /// Why training cannot go on, as the first says.
  const std::optional<error>& ended() const { return ended_; }

  /// Why training cannot go on without another parameter server.
  std::optional<error> lost_server() const {
    for (const peer& each : peers_) {
      const task_state state = members_.state(each.rank, each.incarnation);
      if (state == task_state::lost || (state == task_state::left && members_.has_failed(each.rank)))
        return members_.diagnose(each.rank, each.incarnation, "push_pull", "is gone");
    }
    return {};
  }

  // ---- input and output ----

  /// Opens what is not open, and moves what can be moved. Returns whether anything happened.
  bool serve() {
    if (!has_begun_) return false;
    bool moved = accept();
    for (peer& each : peers_) {
      if (!each.is_open && !open(each)) continue;
      try {
        moved |= advance(each);
      } catch (const error& problem) {
        close(each);
        if (problem.code() != error_code::unavailable)
          end(error(error_code::internal, "push_pull", {name(each), " broke the protocol: ", problem.sentence()}));
        moved = true;
      }
    }
    return moved;
  }
  template <typename Items>
  void add_to(Items& items) const {
    for (const peer& each : peers_)
      if (each.is_open) items.push_back({&each.stream, true, !each.out.idle()});
  }

 private:
  struct peer {
    std::size_t rank;
    std::uint64_t incarnation = 0, number = 0;
    bool is_open = false, is_due = false;  // is_due: it is to hear what there is to say
    typename network::stream stream{};
    frame_reader in{};
    frame_writer out{};
    std::vector<std::byte> came{}, sent{};
    held_message held{};
    std::optional<typename clock::time_point> again{};  // when the connection is to be opened again

    explicit peer(std::size_t of) : rank(of) {}
  };

  std::string name(const peer& each) const { return to_string(members_.task(each.rank)); }
  std::uint64_t max_bytes() const { return std::max<std::uint64_t>(max_control_bytes, 16 + 8 * workers_); }

  bool accept() {
    typename Server::channel next;
    bool any = false;
    while (is_first() && here_.take_channel(decision_channel, next))
      for (peer& each : peers_) {
        if (each.rank != next.rank || (each.incarnation == next.incarnation && next.number < each.number)) continue;
        if (each.incarnation != 0 && each.incarnation != next.incarnation) continue;  // what the first held is gone
        attach(each, std::move(next));
        any = true;
        break;
      }
    return any;
  }

  bool open(peer& to) {
    if (is_first() || members_.state(to.rank) != task_state::alive) return false;
    if (to.incarnation != 0 && members_.incarnation(to.rank) != to.incarnation) return false;
    const auto now = clock::now();
    if (to.again && now < *to.again) return false;
    try {
      attach(to, here_.open_channel(to.rank, decision_channel, moment(std::chrono::milliseconds(1000))));
      return true;
    } catch (const error&) {  // supervision says whether it is lost
      to.again = clock::now() + std::chrono::milliseconds(100);
      return false;
    }
  }

  void attach(peer& to, typename Server::channel opened) {
    to.stream = std::move(opened.stream);
    to.incarnation = opened.incarnation;
    to.number = opened.number;
    to.in = {};
    to.out = {};
    to.in.expect(max_bytes());
    to.is_open = to.is_due = true;
  }
  void close(peer& with) {
    with.stream.close();
    with.is_open = false;
    with.again = clock::now() + std::chrono::milliseconds(20);
  }

  bool advance(peer& with) {
    bool moved = false;
    for (;;) {
      moved |= with.in.advance(with.stream) > 0;
      if (with.in.needs_destination()) {
        with.came.resize(static_cast<std::size_t>(with.in.header().payload_length));
        with.in.payload_to(mutable_bytes(with.came));
        continue;
      }
      if (!with.in.complete()) break;
      take(with);
      with.in.expect(max_bytes());
    }
    moved |= with.out.advance(with.stream) > 0;
    while (with.out.idle() && with.is_due && say(with)) moved |= with.out.advance(with.stream) > 0;
    return moved;
  }

  void take(peer& from) {
    const frame_kind kind = from.in.header().kind;
    if (is_first() && kind == frame_kind::held)
      from.held = held_message::read(from.came, workers_);
    else if (!is_first() && kind == frame_kind::decision)
      decision_ = decision_message::read(from.came, workers_);
    else if (!is_first() && kind == frame_kind::failure)
      ended_ = read_error(from.came, "push_pull");
    else
      message_reader::malformed();
  }

  /// Begins the next message; returns whether it has anything to say.
  bool say(peer& to) {
    frame_header header;
    to.is_due = false;
    if (!is_first()) {
      header.kind = frame_kind::held;
      to.sent = mine_.bytes();
    } else if (ended_) {
      header.kind = frame_kind::failure;
      to.sent = error_bytes(ended_->code(), ended_->sentence());
    } else if (decision_.step >= 0) {
      header.kind = frame_kind::decision;
      to.sent = decision_.bytes();
    } else {
      return false;
    }
    to.out.start(header, const_bytes(to.sent));
    return true;
  }

  Server& here_;
  membership& members_;
  std::size_t workers_;
  bool has_begun_ = false;
  std::vector<peer> peers_;
  decision_message decision_;
  held_message mine_;
  std::optional<error> ended_;
};

}  // namespace weft::detail
