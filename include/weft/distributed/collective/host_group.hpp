// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/collective/rank_links.hpp>
#include <weft/distributed/collective/reduce_algorithms.hpp>
#include <weft/distributed/collective/shared_reduce.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/error.hpp>
#include <weft/transport/shared_memory.hpp>

namespace weft::detail {

/// The ranks of one host, which sum and gather in shared memory, without messages. `part` numbers the parts of one
/// call. All calls throw weft::error like the calls of all_reduce.
///
/// Invariant: either all ranks that have others on their host share memory, on every host, or no rank does. Not
/// thread-safe; the calling thread owns it.
class host_group {
 public:
  /// `links` must outlive this object.
  host_group(task_server& here, rank_links& links) : here_(here), links_(links) {}

  /// Maps memory that the ranks of this host share, if all hosts with several ranks can do so. `chunk`: the largest
  /// message, in bytes.
  void connect(std::size_t chunk, deadline until) {
    std::vector<shared_segment> segments = share(shared_reduce::room(), chunk, until);
    const std::vector<std::size_t>& mates = links_.mates();
    if (segments.empty()) return;
    const auto self = std::find(mates.begin(), mates.end(), links_.rank()) - mates.begin();
    memory_.emplace(std::move(segments), static_cast<std::size_t>(self), waiting_of_ranks(here_));
  }

  /// Returns true if this rank shares memory with others.
  bool is_shared() const { return memory_.has_value(); }
  /// Returns true if there are several hosts, and only their leaders send messages.
  bool is_of_several_hosts() const { return is_of_several_hosts_; }

  /// Replaces `data` with the sum over the ranks of this host, or with the mean if `mean` is true and this is part 0.
  template <typename Element>
  void reduce(std::span<Element> data, deadline until, bool mean, double weight, unsigned part) {
    const auto same = [&](const std::vector<shared_segment>& block) {
      const mutable_bytes mine = block[links_.rank()].bytes();
      return mine.data() == reinterpret_cast<std::byte*>(data.data()) && mine.size() == data.size_bytes();
    };
    const auto block = std::find_if(blocks_.begin(), blocks_.end(), same);
    const bool in_place = block != blocks_.end();
    reduce_call call{links_.calls(), data.size_bytes(), sizeof(Element), mean && part == 0, in_place};
    call.part = part;
    use_memory(until, [&](auto look) {
      memory_->run(data, call, weight, in_place ? *block : std::span<const shared_segment>{}, look);
    });
  }

  /// Copies each rank's share of `bytes` to all ranks of this host.
  void gather(mutable_bytes bytes, const std::vector<element_range>& shares, deadline until, unsigned part) {
    reduce_call call{links_.calls(), bytes.size(), 1};
    call.part = part;
    for (std::size_t r = 0; r < shares.size(); ++r)
      if (shares[r].size() > 0) call.root = call.root * 31 + r + 1;
    use_memory(until, [&](auto look) { memory_->gather(bytes, shares, call, look); });
  }

  /// Returns the shares of this host's ranks if the rank at `position` has all bytes.
  std::vector<element_range> shares_from(std::size_t position, std::size_t bytes) const {
    std::vector<element_range> shares(links_.mates().size());
    shares[position] = {0, bytes};
    return shares;
  }

  /// The sum of the weights of the last mean, and its first element that is not finite.
  double weights() const { return memory_->weights(); }
  const nonfinite_element& nonfinite() const { return memory_->nonfinite(); }

  /// Makes memory in which all ranks sum an array in place. Returns an empty span if a rank cannot map it.
  mutable_bytes make_block(std::size_t bytes, std::size_t chunk, deadline until) {
    std::vector<shared_segment> segments = share(bytes, chunk, until);
    if (segments.empty()) return {};
    blocks_.push_back(std::move(segments));
    return blocks_.back()[links_.rank()].bytes();
  }

  /// Detaches this rank's memory from writes of other ranks.
  void detach() {
    if (memory_) memory_->detach();
    for (const auto& segments : blocks_)
      for (const shared_segment& each : segments) each.detach();
  }

 private:
  static constexpr const char* operation = rank_links::operation;

  /// Calls `work(look)`, which uses memory_, and translates its errors to those of all_reduce.
  template <typename Work>
  void use_memory(deadline until, Work work) {
    const std::vector<std::size_t>& mates = links_.mates();
    try {
      work([&](std::size_t position, auto has_come) {
        const std::size_t rank = mates[position];
        std::optional<error> problem = links_.someone_gone();
        if (!problem && links_.state_of(rank) == task_state::left) problem = links_.diagnose(rank);
        if (!problem && until.expired())
          problem =
              error(error_code::deadline_exceeded, operation, {"received nothing in time from ", links_.name(rank)});
        if (problem && !has_come()) throw *problem;  // the rank may have arrived, and then left, since the last poll
        return std::chrono::duration_cast<std::chrono::nanoseconds>(
            until.remaining(std::chrono::duration_cast<deadline::duration>(std::chrono::milliseconds(20))));
      });
    } catch (const reduce_disagreement& other) {
      throw error(error_code::failed_precondition, operation,
                  {links_.name(mates[other.rank]), " disagrees with ", here_.name(), " about all-reduce number ",
                   links_.calls(), "; all ranks must make the same calls in the same order"});
    }
  }

  /// Returns memory that all ranks of this host have mapped, one segment from each rank. Returns nothing if a rank of
  /// any host has disabled shared memory or cannot map it.
  std::vector<shared_segment> share(std::size_t bytes, std::size_t chunk, deadline until) {
    if (links_.max_ranks_per_host() == 1) return {};
    const std::vector<std::size_t>& mates = links_.mates();
    const std::size_t count = mates.size();
    const std::size_t self =
        static_cast<std::size_t>(std::find(mates.begin(), mates.end(), links_.rank()) - mates.begin());
    std::vector<shared_segment> segments(count);
    try {
      if (here_.options().shared_memory && count > 1) segments[self] = shared_segment::create(bytes);
    } catch (const error&) {
      // without shared memory the offer is empty, which informs the other ranks
    }
    double failures = segments[self] || count == 1 ? 0 : 1;
    std::vector<std::byte> leaving = offer_bytes(segments[self] ? segments[self].offer() : shared_offer{});
    std::vector<std::byte> coming(leaving.size());
    for (std::size_t round = 1; round < count; ++round) {
      links_.pass_on(leaving, coming, until);
      std::swap(leaving, coming);
      try {
        const shared_offer offer = read_offer(leaving);
        if (failures != 0) continue;
        shared_segment its = shared_segment::open(offer, bytes);
        // If two ranks offered the same memory, one array would count twice.
        if (std::any_of(segments.begin(), segments.end(), [&](const auto& each) { return each.same_memory(its); }))
          failures = 1;
        segments[(self + count - round) % count] = std::move(its);
      } catch (const error&) {
        failures = 1;
      }
    }
    links_.skip_calls(links_.max_ranks_per_host() - count);
    const bool failed = failures != 0;  // on this rank, even if the sum over all ranks hides it
    links_.exchange(std::span(&failures, 1), recursive_doubling(links_.size(), links_.rank(), 1), chunk, until);
    if (failed || failures != 0) return {};
    is_of_several_hosts_ = !links_.on_one_host();
    if (count == 1) return {};
    segments[self].withdraw();
    return segments;
  }

  task_server& here_;
  rank_links& links_;
  std::optional<shared_reduce> memory_;
  bool is_of_several_hosts_ = false;
  std::vector<std::vector<shared_segment>> blocks_;  // by rank
};

}  // namespace weft::detail
