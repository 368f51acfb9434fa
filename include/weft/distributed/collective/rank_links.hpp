// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/device/cpu/vector_loops.hpp>
#include <weft/distributed/cluster/graph_identity.hpp>
#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/collective/reduce_algorithms.hpp>
#include <weft/distributed/collective/transfer_progress.hpp>
#include <weft/distributed/membership/exchange_loop.hpp>
#include <weft/distributed/membership/peer_channel.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/error.hpp>
#include <weft/tensor/host_memory.hpp>
#include <weft/transport/aligned_bytes.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/framing.hpp>

namespace weft::detail {

/// A member of a group: the task's index in the job, and the incarnation of its process, or 0 for the current process.
struct group_member {
  int index = 0;
  std::uint64_t incarnation = 0;
};

/// Returns how ranks wait for each other. All ranks wait at the same time, so polling is cheaper than sleeping even if
/// ranks outnumber cores, provided that each poll yields the core: measured twice as fast below 100 kB.
inline wait_policy waiting_of_ranks(const task_server& here) {
  const bool chosen = here.options().waiting || here.waiting().spin.count() > 0;
  return chosen ? here.waiting() : wait_policy{std::chrono::microseconds(50), true};
}

/// The connections of one rank to its partners. Carries out any schedule; ends a wait if a member of the group is lost.
class rank_links {
  struct link {
    std::size_t rank = 0;  // of the peer, in the group
    any_transport::stream stream;
    frame_writer out;
    frame_reader in;
  };

 public:
  static constexpr const char* operation = "all_reduce";

  /// `members`: in ascending order, including this task; empty for all tasks of the job. If `interrupted_by` is not
  /// empty, a wait ends with `aborted` once a member has opened the channel of this name or, if the name ends with '/',
  /// a channel that begins with it.
  rank_links(task_server& here, const std::string& job, const std::vector<group_member>& members = {},
             std::string interrupted_by = {})
      : here_(here), loop_(here, waiting_of_ranks(here)), interrupted_by_(std::move(interrupted_by)) {
    for (const group_member& each : members) {
      cluster_ranks_.push_back(here.cluster().rank({job, each.index}));
      incarnations_.push_back(each.incarnation);
    }
    for (int index = 0; members.empty() && index < here.cluster().num_tasks(job); ++index)
      cluster_ranks_.push_back(here.cluster().rank({job, index}));
    incarnations_.resize(cluster_ranks_.size());
    size_ = cluster_ranks_.size();
    are_known_ = !members.empty();
    links_.resize(size_);
    rank_ = static_cast<std::size_t>(std::find(cluster_ranks_.begin(), cluster_ranks_.end(), here.members().self()) -
                                     cluster_ranks_.begin());
    if (rank_ == size_ || !std::is_sorted(cluster_ranks_.begin(), cluster_ranks_.end()))
      throw error(
          error_code::invalid_argument, operation,
          {"the members of a group must be tasks of job '", job, "' in ascending order and include ", here.name()});
    find_hosts();
  }

  std::size_t rank() const { return rank_; }
  std::size_t size() const { return size_; }
  std::string name(std::size_t rank) const { return to_string(here_.members().task(cluster_ranks_[rank])); }

  /// The ranks of this rank's host, in order.
  const std::vector<std::size_t>& mates() const { return mates_; }
  /// The first rank of each host, in order.
  const std::vector<std::size_t>& leaders() const { return leaders_; }
  /// The largest number of ranks on one host.
  std::size_t max_ranks_per_host() const { return max_ranks_per_host_; }
  bool on_one_host() const { return leaders_.size() == 1; }

  /// Waits for all ranks, and connects this rank to its partners.
  void connect(const std::string& channel, deadline until) {
    for (const std::size_t rank : cluster_ranks_) here_.connect_to(rank);
    if (!are_known_ || interrupted_by_.empty())
      here_.members().wait_for(until, [&](const task_id& task) {
        return std::any_of(cluster_ranks_.begin(), cluster_ranks_.end(),
                           [&](std::size_t rank) { return here_.members().task(rank) == task; });
      });
    else
      await_members(until);
    for (std::size_t r = 0; r < size_; ++r)
      if (incarnations_[r] == 0) incarnations_[r] = here_.members().incarnation(cluster_ranks_[r]);
    for (const std::size_t partner : partners()) {
      const std::size_t rank = cluster_ranks_[partner];
      auto opened = partner < rank_ ? here_.open_channel(rank, channel, until) : accept_channel(rank, channel, until);
      if (opened.incarnation != incarnations_[partner]) throw diagnose(partner);
      auto made = std::make_unique<link>();
      made->rank = partner;
      made->stream = std::move(opened.stream);
      links_[partner] = std::move(made);
    }
  }

  /// Throws weft::error (failed_precondition) if a partner trains a different model.
  void compare(const graph_identity& graph, deadline until) {
    frame_header mine;
    mine.kind = frame_kind::group;
    mine.tag = graph.hash;
    mine.step = static_cast<std::int64_t>(graph.seed);
    const detail::group_message ours{here_.options().not_finite == nonfinite_gradients::apply, graph.settings};
    const std::vector<std::byte> words = ours.bytes();
    for (const auto& each : links_) {
      if (!each) continue;
      std::vector<std::byte> its_words;
      each->out.start(mine, const_bytes(words));
      each->in.expect(detail::max_control_bytes);
      const link* const both = each.get();
      drive(
          until, both, both,
          [&] { return each->out.advance(each->stream) + each->in.advance(each->stream, its_words); },
          [&] { return each->out.idle() && each->in.complete(); });
      const frame_header& its = each->in.header();
      detail::group_message said;
      try {
        if (its.kind != frame_kind::group) detail::message_reader::malformed();
        said = detail::group_message::read(its_words);
      } catch (const error& problem) {
        throw error(problem.code(), operation, {name(each->rank), ": ", problem.sentence()});
      }
      if (its.step != mine.step)
        refuse(*each, "seed is ", str_cat({static_cast<std::uint64_t>(its.step)}), str_cat({graph.seed}));
      if (its.tag != graph.hash) refuse(*each, "graph has hash ", str_cat({its.tag}), str_cat({graph.hash}));
      if (said.settings != printable(graph.settings))
        refuse(*each, "settings are ", str_cat({"'", said.settings, "'"}), str_cat({"'", graph.settings, "'"}));
      if (said.applies_nonfinite != ours.applies_nonfinite)
        refuse(*each, "gradients that are not finite are ", said.applies_nonfinite ? "applied" : "refused",
               ours.applies_nonfinite ? "applied" : "refused");
    }
  }

  // ---- transfers ----

  /// Begins a call and increments the call number. All messages carry the number and `what`, which must be equal on all
  /// ranks.
  void begin_call(std::int64_t what = 0) {
    ++calls_;
    what_ = what;
  }
  std::uint64_t calls() const { return calls_; }
  void skip_calls(std::size_t count) { calls_ += count; }

  /// The memory of a transfer, and the function that adds received bytes to it. Transfers move whole elements.
  struct array {
    mutable_bytes bytes;
    std::size_t element = 1;
    void (*add)(const void* context, std::byte* to, const std::byte* from, std::size_t bytes) = nullptr;
    const void* context = nullptr;  // for `add`
  };

  /// Begins a schedule between `ranks`, whose positions the schedule's steps contain; if empty, between all ranks.
  void begin(transfer_schedule schedule, std::size_t chunk_bytes, std::size_t element, double weight,
             std::span<const std::size_t> ranks = {}) {
    progress_.begin(std::move(schedule), std::max<std::size_t>(chunk_bytes / element, 1), weight);
    ranks_ = ranks;
    is_sending_ = is_receiving_ = false;
  }

  /// Carries out the schedule that begin() has begun; after deadline_exceeded, continues it. Returns the weight of the
  /// result.
  double carry_out(const array& data, deadline until) {
    const link *to = nullptr, *from = nullptr;
    drive(
        until, to, from,
        [&] {
          to = progress_.sends() ? &link_to(progress_.to()) : nullptr;
          from = progress_.receives() ? &link_to(progress_.from()) : nullptr;
          std::size_t moved = progress_.sends() ? send(data) : 0;
          if (progress_.receives()) moved += receive(data);
          return moved;
        },
        [&] { return progress_.is_complete(); });
    return progress_.weight();
  }

  template <typename Element>
  static array array_of(std::span<Element> data) {
    array made{std::as_writable_bytes(data), sizeof(Element)};
    if constexpr (std::floating_point<Element>)
      made.add = [](const void*, std::byte* to, const std::byte* from, std::size_t bytes) {
        accumulate(reinterpret_cast<Element*>(to), reinterpret_cast<const Element*>(from), bytes / sizeof(Element));
      };
    return made;
  }

  /// Carries out a schedule between all ranks for the group's own purposes. The call cannot be repeated.
  template <typename Element>
  void exchange(std::span<Element> data, transfer_schedule schedule, std::size_t chunk_bytes, deadline until) {
    begin_call();
    begin(std::move(schedule), chunk_bytes, sizeof(Element), 0);
    carry_out(array_of(data), until);
  }

  /// Sends to the next rank of this host and receives from the previous one.
  void pass_on(const_bytes leaving, mutable_bytes coming, deadline until) {
    begin_call();
    const std::size_t count = mates_.size();
    const std::size_t self = static_cast<std::size_t>(std::find(mates_.begin(), mates_.end(), rank_) - mates_.begin());
    link &to = *links_[mates_[(self + 1) % count]], &from = *links_[mates_[(self + count - 1) % count]];
    to.out.start(header(), leaving);
    from.in.expect({&coming, 1});
    const link *sends = &to, *receives = &from;
    drive(
        until, sends, receives, [&] { return to.out.advance(to.stream) + from.in.advance(from.stream); },
        [&] { return to.out.idle() && from.in.complete(); });
    verify(from);
  }

  // ---- which ranks are alive ----

  task_state state_of(std::size_t rank) const {
    return here_.members().state(cluster_ranks_[rank], incarnations_[rank]);
  }
  error diagnose(std::size_t rank) const {
    return here_.members().diagnose(cluster_ranks_[rank], incarnations_[rank], operation, "is gone");
  }

  std::optional<error> someone_gone() const {
    for (std::size_t rank = 0; rank < size_; ++rank)
      if (rank != rank_ && state_of(rank) == task_state::lost) return diagnose(rank);
    if (here_.stopping()) return error(error_code::cancelled, operation, "this server was stopped");
    return interruption();
  }

  /// Returns an error if a member has left the group and waits for the others.
  std::optional<error> interruption() const {
    if (interrupted_by_.empty()) return {};
    std::optional<error> why;
    here_.for_each_channel([&](std::size_t rank, std::uint64_t incarnation, const std::string& name) {
      for (std::size_t r = 0; r < size_; ++r)
        if (cluster_ranks_[r] == rank && incarnations_[r] == incarnation &&
            (name == interrupted_by_ || (interrupted_by_.back() == '/' && name.starts_with(interrupted_by_))))
          why = error(error_code::aborted, operation, {this->name(r), " left the group and joined a new one"});
    });
    return why;
  }

  /// Makes waits ignore the channel that interrupts them.
  void ignore_interruptions() { interrupted_by_.clear(); }

  /// Closes all connections, so that the other ranks notice at once.
  void close() {
    for (auto& each : links_)
      if (each) each->stream.close();
  }

 private:
  using duration = deadline::duration;
  static deadline at_most(deadline until, std::chrono::milliseconds time) {
    const auto most = std::chrono::duration_cast<duration>(time);
    return deadline(std::min(most, until.remaining(most)));
  }

  /// Waits for given processes. The replacement of a lost process may have connected to other members, but not to this
  /// task yet.
  void await_members(deadline until) {
    const membership& members = here_.members();
    const deadline by = at_most(until, std::chrono::seconds(5));
    for (std::size_t r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      const std::size_t rank = cluster_ranks_[r];
      while (members.incarnation(rank) != incarnations_[r] || members.state(rank) == task_state::awaited) {
        if (members.is_given_up(rank, incarnations_[r]) || by.expired()) throw diagnose(r);
        if (here_.stopping()) throw error(error_code::cancelled, operation, "this server was stopped");
        if (const auto why = interruption()) throw *why;
        detail::sleep(std::chrono::milliseconds(1));
      }
      if (members.state(rank) == task_state::lost) throw diagnose(r);
    }
  }

  /// Also fails if a rank is lost or a member leaves the group, since a member that leaves never opens this channel.
  peer_channel accept_channel(std::size_t rank, const std::string& channel, deadline until) {
    if (interrupted_by_.empty()) return here_.accept_channel(rank, channel, until);
    for (;;) {
      try {
        return here_.accept_channel(rank, channel, at_most(until, std::chrono::milliseconds(20)));
      } catch (const error& problem) {
        if (problem.code() != error_code::deadline_exceeded || until.expired()) throw;
      }
      if (const auto why = someone_gone()) throw *why;
    }
  }

  [[noreturn]] void refuse(const link& other, const char* what, const std::string& its, const std::string& mine) const {
    throw error(error_code::failed_precondition, operation,
                {name(other.rank), " does not train the same model: its ", what, its, ", but ", mine, " in ",
                 here_.name(), "; run the same program with the same flags"});
  }

  void find_hosts() {
    const auto address = [&](std::size_t r) {
      const task_id& task = here_.members().task(cluster_ranks_[r]);
      return here_.cluster().task_address(task.job, task.index);
    };
    std::vector<std::size_t> ranks_of;
    for (std::size_t r = 0; r < size_; ++r) {
      std::size_t host = 0;
      while (host < leaders_.size() && !here_.network().same_host(address(leaders_[host]), address(r))) ++host;
      if (host == leaders_.size()) {
        leaders_.push_back(r);
        ranks_of.push_back(0);
      }
      ++ranks_of[host];
      if (r == rank_ || here_.network().same_host(address(r), address(rank_))) mates_.push_back(r);
    }
    max_ranks_per_host_ = *std::max_element(ranks_of.begin(), ranks_of.end());
  }

  std::vector<std::size_t> partners() const {
    std::vector<std::size_t> found = partners_of(size_, rank_);
    if (!on_one_host() && max_ranks_per_host_ > 1)
      for (const auto* some : {&mates_, &leaders_}) {
        const auto self = std::find(some->begin(), some->end(), rank_);
        if (self == some->end()) continue;
        for (const std::size_t each : partners_of(some->size(), static_cast<std::size_t>(self - some->begin())))
          found.push_back((*some)[each]);
      }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

  link& link_to(std::size_t position) { return *links_[ranks_.empty() ? position : ranks_[position]]; }

  std::size_t send(const array& data) {
    link& to = link_to(progress_.to());
    std::size_t moved = 0;
    if (!is_sending_) {
      if (!progress_.may_send()) return 0;
      to.out.start(header(progress_.weight_to_send()), bytes_of(data, progress_.chunk_to_send()),
                   here_.options().checksum);
      is_sending_ = true;
    }
    moved += to.out.advance(to.stream);
    if (to.out.idle()) {
      is_sending_ = false;
      progress_.sent();
    }
    return moved;
  }

  std::size_t receive(const array& data) {
    link& from = link_to(progress_.from());
    const bool adds = progress_.adds();
    const mutable_bytes place = bytes_of(data, progress_.chunk_to_receive());
    if (!is_receiving_) {
      if (!adds && !progress_.may_take_in()) return 0;
      const mutable_bytes target = adds ? scratch(place.size()) : place;
      from.in.expect({&target, 1});
      is_receiving_ = true;
    }
    std::size_t moved = 0;
    if (!from.in.complete()) {
      moved = from.in.advance(from.stream);
      if (!from.in.complete()) return moved;
      verify(from);
    }
    if (!progress_.may_take_in()) return moved;
    if (adds) data.add(data.context, place.data(), scratch_.data(), place.size());
    is_receiving_ = false;
    progress_.received(weight_of(from));
    return moved + 1;
  }

  static mutable_bytes bytes_of(const array& data, const element_range& range) {
    return data.bytes.subspan(range.begin * data.element, range.size() * data.element);
  }

  frame_header header(double weight = 0) const {
    frame_header result;
    result.kind = frame_kind::reduce;
    result.request = calls_;
    result.step = what_;
    result.tag = std::bit_cast<std::uint64_t>(weight);
    return result;
  }
  static double weight_of(const link& from) { return std::bit_cast<double>(from.in.header().tag); }

  void verify(const link& from) const {
    const frame_header& its = from.in.header();
    if (its.kind != frame_kind::reduce || its.request != calls_)
      throw error(error_code::failed_precondition, operation,
                  {name(from.rank), " is in all-reduce number ", its.request, ", but ", here_.name(), " is in number ",
                   calls_, "; all ranks must make the same calls in the same order"});
    if (its.step != what_)
      throw error(error_code::failed_precondition, operation,
                  {name(from.rank), " disagrees with ", here_.name(), " about call number ", calls_,
                   "; all ranks must make the same calls in the same order"});
  }

  /// Transfers between this rank and its partners, as a message_exchange. `step` returns the number of bytes it moved;
  /// `to` and `from` are the connections currently in use, null for none.
  template <typename Step, typename Complete>
  struct transfers {
    static constexpr bool survives_leaving = true;  // a rank that leaves still sends the rest of its messages

    const rank_links& links;
    const link* const& to;
    const link* const& from;
    Step step;
    Complete complete;

    std::size_t advance() {
      std::size_t moved = 0;
      try {
        moved = step();
      } catch (const error& problem) {
        if (problem.operation() == operation) throw;
        // Blames the connection whose peer is gone, or else the connection that is read.
        const std::size_t gone = to && (!from || links.state_of(to->rank) != task_state::alive) ? to->rank
                                 : from                                                         ? from->rank
                                                                                                : links.rank_;
        throw links.here_.diagnose(links.cluster_ranks_[gone], links.incarnations_[gone], operation, problem);
      }
      if (moved == 0)
        if (const auto why = links.interruption()) throw *why;
      return moved;
    }
    bool is_complete() const { return complete(); }
    error late() const { return links.late(to, from); }
    template <typename Visit>
    void for_each_stream(Visit visit) const {
      const bool reads = from && !from->in.complete(), writes = to && !to->out.idle();
      if (reads) visit(from->stream, true, writes && to == from);
      if (writes && (!reads || to != from)) visit(to->stream, false, true);
    }
    template <typename Visit>
    void for_each_peer(Visit visit) const {  // no transfer completes without all ranks
      for (std::size_t rank = 0; rank < links.size_; ++rank)
        if (rank != links.rank_) visit(links.process(rank), (from && from->rank == rank) || (to && to->rank == rank));
    }
  };

  template <typename Step, typename Complete>
  void drive(deadline until, const link* const& to, const link* const& from, Step step, Complete complete) {
    transfers<Step, Complete> all{*this, to, from, step, complete};
    loop_.run(operation, until, all);
  }

  peer_process process(std::size_t rank) const { return {cluster_ranks_[rank], incarnations_[rank]}; }

  error late(const link* to, const link* from) const {
    if (!from)
      return error(error_code::deadline_exceeded, operation, {"could not send to ", name(to->rank), " in time"});
    const bool two = to && to != from;
    return error(error_code::deadline_exceeded, operation,
                 {"received nothing in time from ", name(from->rank), two ? ", or could not send to " : "",
                  two ? name(to->rank) : ""});
  }

  mutable_bytes scratch(std::size_t bytes) {
    if (scratch_.size() < bytes) scratch_ = aligned_bytes(bytes);
    return {scratch_.data(), bytes};
  }

  task_server& here_;
  exchange_loop loop_;
  std::size_t rank_ = 0, size_ = 0;
  std::vector<std::size_t> cluster_ranks_;    // by rank in the group, like the next two
  std::vector<std::uint64_t> incarnations_;   // of the processes that formed the group
  std::vector<std::unique_ptr<link>> links_;  // null if the two exchange no messages
  std::string interrupted_by_;
  bool are_known_ = false;  // the members are given processes
  std::vector<std::size_t> mates_, leaders_;
  std::size_t max_ranks_per_host_ = 1;
  aligned_bytes scratch_;

  std::uint64_t calls_ = 0;
  std::int64_t what_ = 0;
  transfer_progress progress_;
  std::span<const std::size_t> ranks_;
  bool is_sending_ = false, is_receiving_ = false;  // a frame is in progress
};

}  // namespace weft::detail
