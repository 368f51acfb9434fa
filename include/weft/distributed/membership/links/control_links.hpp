// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/cluster/server_options.hpp>
#include <weft/distributed/membership/links/channel_inbox.hpp>
#include <weft/distributed/membership/membership.hpp>
#include <weft/distributed/membership/peer_channel.hpp>
#include <weft/distributed/membership/task_identity.hpp>
#include <weft/error.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/message_stream.hpp>

namespace weft::detail {

/// The control connections with other tasks: heartbeats, notices about third tasks, goodbyes. Records in the membership
/// which tasks are alive, silent or gone. Runs on the event loop's thread.
class control_links {
 public:
  using moment = deadline::time_point;

  control_links(any_transport::event_loop& loop, const task_identity& identity, membership& members,
                const server_options& options, std::chrono::milliseconds heartbeat_interval,
                const std::vector<std::chrono::milliseconds>& heartbeat_timeouts, std::function<void()> on_change)
      : loop_(loop),
        identity_(identity),
        members_(members),
        options_(options),
        heartbeat_interval_(heartbeat_interval),
        heartbeat_timeouts_(heartbeat_timeouts),
        on_change_(std::move(on_change)),
        due_(detail::now()),
        next_heartbeat_(due_) {}

  /// Adds the connection of a task that has dialed and received its welcome. The task has abandoned all its other
  /// connections that it has not used yet, even if one of them arrives after this one.
  void accept(peer_channel dialled) {
    const auto is_other = [&](const control_link& link) { return link.rank == dialled.rank && !link.met; };
    if (std::any_of(links_.begin(), links_.end(), [&](const control_link& link) {
          return is_other(link) && link.incarnation == dialled.incarnation && link.number > dialled.number;
        }))
      return;
    links_.remove_if(is_other);
    control_link& link = add(dialled.rank, dialled.incarnation, std::move(dialled.stream));
    link.number = dialled.number;
    link.watch->arm(true, false);
  }

  /// Adds the connection to a task that has answered.
  void meet(std::size_t rank, std::uint64_t incarnation, any_transport::stream stream) {
    control_link& link = add(rank, incarnation, std::move(stream));
    send_heartbeat(link);  // before meet(), which wakes threads that may stop this server at once
    meet(link);
    link.watch->arm(true, link.messages.is_sending());
    drop_closed();
  }

  /// Reads frames, checks for silence, and sends heartbeats when they are due. `called_again`: the time until the next
  /// call, at most a heartbeat interval.
  void heartbeat(std::chrono::milliseconds called_again) {
    const moment now = detail::now();
    notice_delay(now);
    due_ = now + called_again;
    for (control_link& link : links_) {
      read(link, now);
      look_for_silence(link, now);
    }
    if (now >= next_heartbeat_) {
      for (control_link& link : links_) send_heartbeat(link);
      next_heartbeat_ = now + heartbeat_interval_;
    }
    drop_closed();
    for (control_link& link : links_) link.watch->arm(true, link.messages.is_sending());
    held_up_ = {};
  }

  /// Sends the due notices and a goodbye to all peers, and closes the connections. `failure`: the error that ends this
  /// task; empty if there is none. `finished`: see membership::has_finished().
  void close(const std::string& failure, bool finished) {
    const std::vector<std::byte> why =
        failure.empty() ? std::vector<std::byte>{} : error_bytes(error_code::aborted, failure);
    frame_header header;
    header.kind = frame_kind::goodbye;
    header.tag = has_met_all();
    header.step = finished ? has_finished : 0;
    const deadline until = std::chrono::milliseconds(200);
    const auto send_all = [&](control_link& link) {
      try {
        while (write(link), link.messages.is_sending() && !until.expired()) detail::sleep(std::chrono::milliseconds(1));
      } catch (const error&) {
        // the peer has closed the connection
      }
    };
    for (control_link& link : links_) {
      if (link.closed) continue;
      send_all(link);  // a new process learns here, at the latest, which tasks left before it was started
      if (link.messages.is_sending()) continue;
      link.messages.start(header, why);
      send_all(link);
    }
    // Closing a connection with unread bytes resets it, and a goodbye that has not left by then is lost. Peers respond
    // to a goodbye by closing the connection, or send one at the same time.
    std::chrono::microseconds pause{20};
    for (; !links_.empty() && !until.expired(); pause = std::min<std::chrono::microseconds>(2 * pause, longest_pause)) {
      links_.remove_if([](control_link& link) { return link.closed || has_ended(link); });
      if (!links_.empty()) detail::sleep(pause);
    }
    links_.clear();
  }

 private:
  static constexpr std::int64_t has_finished = 1;  // the step field of a goodbye
  static constexpr int max_read = 64;              // frames of one peer in one call
  static constexpr std::chrono::microseconds longest_pause{1000};

  /// Returns true if every live task receives this task's goodbye directly. Its receivers then send no notices;
  /// otherwise, n tasks that leave together would cause n^3 frames.
  bool has_met_all() const {
    std::vector<bool> hears(members_.size());
    hears[members_.self()] = true;
    for (const control_link& link : links_)
      if (link.met && !link.closed) hears[link.rank] = true;
    for (std::size_t rank = 0; rank < hears.size(); ++rank) {
      const task_state state = members_.state(rank);
      if (!hears[rank] && (state == task_state::awaited || state == task_state::alive)) return false;
    }
    return true;
  }

  struct control_link {
    std::size_t rank;
    std::uint64_t incarnation;
    message_stream messages;
    moment last_heard;
    std::uint64_t number = 0;  // peer_channel::number of an accepted connection
    bool met = false;          // a frame has arrived; before that, the dialing task may have abandoned the connection
    bool closed = false;
    std::deque<std::size_t> untold;             // ranks of tasks whose state the peer must still receive
    std::optional<any_transport::watch> watch;  // watches the stream; destroyed before it

    control_link(std::size_t of, std::uint64_t its_incarnation, any_transport::stream connection, moment now)
        : rank(of), incarnation(its_incarnation), messages(std::move(connection), max_control_bytes), last_heard(now) {}
  };

  control_link& add(std::size_t rank, std::uint64_t incarnation, any_transport::stream stream) {
    control_link& link = links_.emplace_back(rank, incarnation, std::move(stream), detail::now());
    try {
      link.watch.emplace(loop_, link.messages.stream(), [this, &link] { on_ready(link); });
    } catch (...) {
      links_.pop_back();
      throw;
    }
    return link;
  }

  void drop_closed() {
    links_.remove_if([](const control_link& link) { return link.closed; });
  }

  void on_ready(control_link& link) {
    const moment now = detail::now();
    notice_delay(now);
    read(link, now);
    if (!link.closed) link.watch->arm(true, link.messages.is_sending());
    drop_closed();
  }

  /// If this thread itself was delayed (the process was stopped, the machine asleep), extends the peers' timeouts.
  void notice_delay(moment now) {
    if (now <= due_) return;
    held_up_ = now - due_;
    due_ = now;
    for (control_link& link : links_)
      if (held_up_ > heartbeat_timeouts_[link.rank] / 2) link.last_heard += held_up_;
  }

  /// Establishes the connection: closes other connections with the task, and exchanges notices.
  void meet(control_link& link) {
    link.met = true;
    for (control_link& other : links_)
      if (&other != &link && other.rank == link.rank) other.closed = true;
    const task_state before = members_.state(link.rank);
    members_.set_alive(link.rank, link.incarnation);
    if (before == task_state::lost || before == task_state::left) tell_others(link.rank);
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      const task_state state = members_.state(rank);
      if (state == task_state::lost || state == task_state::left) link.untold.push_back(rank);
    }
    send(link);
    on_change_();
  }

  void read(control_link& link, moment now) {
    if (link.closed) return;
    send(link);
    try {
      for (int frames = 0; frames < max_read && link.messages.receive(); ++frames) {
        link.last_heard = now;
        if (!link.met) meet(link);
        if (!on_frame(link)) return;
      }
    } catch (const error& problem) {
      const bool closed = problem.code() == error_code::unavailable;
      mark_lost(link,
                closed ? "has closed its connection unexpectedly: the process ended or was killed"
                       : str_cat({"broke the protocol: ", problem.what()}),
                closed);
    }
  }

  /// Discards received frames. Returns true if the peer has closed the connection or has also sent a goodbye.
  static bool has_ended(control_link& link) {
    try {
      for (int frames = 0; frames < max_read && link.messages.receive(); ++frames)
        if (link.messages.header().kind == frame_kind::goodbye) return true;
      return false;
    } catch (const std::exception&) {
      return true;
    }
  }

  void look_for_silence(control_link& link, moment now) {
    if (!link.closed && now - link.last_heard > heartbeat_timeouts_[link.rank])
      mark_lost(link, str_cat({"has sent no heartbeat for ", milliseconds(now - link.last_heard),
                               ": it is stopped, overloaded or unreachable"}));
  }

  /// Returns true if the connection continues.
  bool on_frame(control_link& link) {
    switch (link.messages.header().kind) {
      case frame_kind::heartbeat:
        if (!link.messages.payload().empty()) message_reader::malformed();
        return true;
      case frame_kind::notice:
        on_notice(notice::read(link.messages.payload()), link.rank);
        return true;
      case frame_kind::refuse:
        members_.set_verdict(link.rank, membership::verdict::given_up);
        // Worded so that other tasks can repeat it.
        mark_lost(link, str_cat({"declared ", identity_.name(), " lost, which ",
                                 read_error(link.messages.payload(), "control").sentence()}));
        return false;
      case frame_kind::goodbye: {
        link.closed = true;
        const std::string why =
            link.messages.payload().empty() ? "" : read_error(link.messages.payload(), "").sentence();
        members_.set_left(link.rank, why, link.messages.header().step == has_finished);
        if (link.messages.header().tag == 0) tell_others(link.rank);
        on_change_();
        return false;
      }
      default:
        throw error(error_code::invalid_argument, "control", "the peer has sent a frame of the wrong kind");
    }
  }

  /// Handles a notice about a third task. Notices about tasks that this task does not connect to are accepted from
  /// parameter servers only, because this task cannot correct them by its own observations.
  void on_notice(const notice& said, std::size_t from) {
    const auto rank = identity_.find(said.about);
    if (!rank || *rank == members_.self()) return;
    if (!members_.connects_to(*rank) && members_.task(from).job != options_.ps_job) return;
    if (said.back) {
      if (members_.hear_back(*rank, said.incarnation)) on_change_();
      return;
    }
    const std::string seen = str_cat({", as reported by ", to_string(members_.task(from))});
    const std::string why = str_cat({said.why, said.hearsay ? "" : seen});  // a second-hand reason names its source
    if (!members_.hear(*rank, said.incarnation, said.left ? task_state::left : task_state::lost, why)) return;
    on_change_();
    if (!said.left && options_.on_lost)
      options_.on_lost(error(error_code::unavailable, identity_.name(), {to_string(said.about), " ", why}));
  }

  void tell_others(std::size_t rank) {
    for (control_link& link : links_) {
      if (link.closed || link.rank == rank) continue;
      if (std::find(link.untold.begin(), link.untold.end(), rank) == link.untold.end()) link.untold.push_back(rank);
      send(link);
      if (link.messages.is_sending()) link.watch->arm(false, true);
    }
  }

  static std::string milliseconds(deadline::duration time) {
    return str_cat({std::chrono::duration_cast<std::chrono::milliseconds>(time).count(), " ms"});
  }

  void send_heartbeat(control_link& link) {
    if (link.closed || link.messages.is_sending())
      return;  // the last one has not left yet, because the peer does not
               // read
    frame_header header;
    header.kind = frame_kind::heartbeat;
    link.messages.start(header);
    send(link);
  }

  /// Sends the current frame and the due notices, as far as the stream accepts bytes.
  void write(control_link& link) {
    link.messages.send();
    while (!link.messages.is_sending() && link.met && !link.untold.empty()) {
      const std::size_t rank = link.untold.front();
      link.untold.pop_front();
      const task_state state = members_.state(rank);
      if (state == task_state::awaited) continue;
      const bool is_back = state == task_state::alive;
      const notice said{members_.task(rank),
                        members_.incarnation(rank),
                        state == task_state::left,
                        !is_back && members_.is_hearsay(rank),
                        is_back,
                        members_.reason(rank)};
      frame_header header;
      header.kind = frame_kind::notice;
      link.messages.start(header, said.bytes());
      link.messages.send();
    }
  }

  void send(control_link& link) {
    try {
      write(link);
    } catch (const error&) {
      // If the peer is gone, it may have sent a goodbye that can still be read.
    }
  }

  void mark_lost(control_link& link, std::string why, bool closed = false) {
    link.closed = true;
    tell_why(link, why);
    if (!link.met) return;  // it has not connected yet, and may try again
    link.watch.reset();
    link.messages.close();
    if (held_up_ > heartbeat_timeouts_[link.rank])
      append(why, {" (", identity_.name(), " itself was delayed by ", milliseconds(held_up_), ")"});
    const std::string sentence = members_.set_lost(link.rank, why, closed);
    tell_others(link.rank);
    on_change_();
    if (options_.on_lost) options_.on_lost(error(error_code::unavailable, identity_.name(), sentence));
  }

  /// Sends the reason to a peer that is declared lost. If it was only silent, it continues for some time and can report
  /// why it is alone.
  void tell_why(control_link& link, const std::string& why) {
    try {
      link.untold.clear();
      send(link);
      if (link.messages.is_sending()) return;
      frame_header header;
      header.kind = frame_kind::refuse;
      link.messages.start(header, error_bytes(error_code::aborted, why));
      link.messages.send();
    } catch (const error&) {
      // the connection is closed
    }
  }

  any_transport::event_loop& loop_;
  const task_identity& identity_;
  membership& members_;
  const server_options& options_;
  std::chrono::milliseconds heartbeat_interval_;
  const std::vector<std::chrono::milliseconds>& heartbeat_timeouts_;  // by rank
  std::function<void()> on_change_;
  std::list<control_link> links_;
  moment due_, next_heartbeat_;   // due_: when heartbeat() is called next
  deadline::duration held_up_{};  // how late this thread was
};

}  // namespace weft::detail
