// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <weft/config.hpp>

namespace weft {

/// Algorithms of an all-reduce by messages. Recursive doubling, halving-doubling and the tree add in the same order and
/// therefore yield the same bits.
/// R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", 2005.
enum class reduce_algorithm : unsigned char {
  automatic,           ///< the fastest according to link_cost
  recursive_doubling,  ///< log2(p) exchanges of the whole array: few messages
  segmented_ring,      ///< 2(p-1) exchanges of 1/p of the array, in chunks that are forwarded once summed: few bytes
  halving_doubling,    ///< Rabenseifner's: reduce-scatter by halving, all-gather by doubling: few messages and bytes
  tree,                ///< a binomial tree to rank 0 and back: the fewest messages in total
  ring = segmented_ring,
};

/// The costs of a link, from which an algorithm is chosen. The defaults were measured with two to four processes on
/// loopback.
struct link_cost {
  double message_us = 10;         ///< time to send and receive a small message
  double megabytes_per_s = 3000;  ///< in both directions at once
  double sum_megabytes_per_s = 4000;

  /// Returns the expected microseconds of an all-reduce of `bytes` over `ranks`: the sum of the costs of consecutive
  /// messages, moved bytes and summed bytes.
  double microseconds(reduce_algorithm algorithm, std::size_t ranks, std::size_t bytes) const {
    if (ranks <= 1) return 0;
    const double p = static_cast<double>(ranks), size = static_cast<double>(bytes);
    const double core = static_cast<double>(std::bit_floor(ranks));
    const double rounds = static_cast<double>(std::bit_width(ranks)) - 1;
    const double move = size / megabytes_per_s, sum = size / sum_megabytes_per_s;
    // Ranks beyond the largest power of two send their arrays to other ranks and receive the result.
    const double outside = std::has_single_bit(ranks) ? 0 : 2 * (message_us + move) + sum;
    switch (algorithm) {
      case reduce_algorithm::segmented_ring:
        return 2 * (p - 1) * message_us + (p - 1) / p * (2 * move + sum);
      case reduce_algorithm::halving_doubling:
        return outside + 2 * rounds * message_us + (core - 1) / core * (2 * move + sum);
      case reduce_algorithm::tree:
        return outside + rounds * (2 * (message_us + move) + sum);
      default:
        return outside + rounds * (message_us + move + sum);
    }
  }

  /// Returns the algorithm with the lowest expected time.
  reduce_algorithm choose(std::size_t ranks, std::size_t bytes) const {
    reduce_algorithm best = reduce_algorithm::recursive_doubling;
    for (const auto each :
         {reduce_algorithm::segmented_ring, reduce_algorithm::halving_doubling, reduce_algorithm::tree})
      if (microseconds(each, ranks, bytes) < microseconds(best, ranks, bytes)) best = each;
    return best;
  }
};

namespace detail {

/// A range of elements of the array that is reduced.
struct element_range {
  std::size_t begin = 0, end = 0;

  std::size_t size() const { return end - begin; }
  bool overlaps(const element_range& other) const { return begin < other.end && other.begin < end; }

  friend bool operator==(const element_range&, const element_range&) = default;
};

/// Returns the share of `rank` in an array that is divided among `ranks` ranks. If the division leaves a remainder, the
/// first ranks have one more element.
inline element_range share_of_rank(std::size_t elements, std::size_t ranks, std::size_t rank) {
  const auto begin = [&](std::size_t r) { return elements / ranks * r + std::min(r, elements % ranks); };
  return {begin(rank), begin(rank + 1)};
}

/// One step of a rank: it sends one range and receives another. Received elements are added to the present ones or
/// replace them.
struct transfer_step {
  static constexpr std::size_t nobody = static_cast<std::size_t>(-1);
  static constexpr std::size_t never = static_cast<std::size_t>(-1);

  std::size_t to = nobody, from = nobody;  // ranks
  element_range sends{}, receives{};
  bool adds = false;
  // The last steps that changed the range to send and the range that received elements are added to; `never`: they
  // still hold the rank's own elements.
  std::size_t sends_from = never, adds_to = never;
};

/// One rank's part of a collective operation. A range leaves once earlier steps have received their elements for it.
/// Received elements are stored once the ranges that this and earlier steps send have left. The result is therefore the
/// same as if all ranks carried out the steps one after another, while steps with disjoint ranges overlap.
struct transfer_schedule {
  std::vector<transfer_step> steps;
  std::size_t result = transfer_step::never;  // the last step that changed the first element

  transfer_schedule() = default;
  explicit transfer_schedule(std::size_t elements) : elements_(elements) {}

  void exchange(std::size_t with, element_range sends, element_range receives, bool adds) {
    add({with, with, sends, receives, adds});
  }
  void send(std::size_t to, element_range range) { add({to, transfer_step::nobody, range, {}, false}); }
  void receive(std::size_t from, element_range range, bool adds) {
    add({transfer_step::nobody, from, {}, range, adds});
  }

  void add(transfer_step step) {
    // An empty range needs no message, unless the whole array is empty: then the messages act as a barrier.
    if (step.sends.size() == 0 && elements_ > 0) step.to = transfer_step::nobody;
    if (step.receives.size() == 0 && elements_ > 0) step.from = transfer_step::nobody;
    if (step.to == transfer_step::nobody && step.from == transfer_step::nobody) return;
    step.sends_from = last_change(step.sends);
    step.adds_to = last_change(step.receives);
    steps.push_back(step);
    result = last_change({0, std::min<std::size_t>(elements_, 1)});
  }

 private:
  std::size_t last_change(const element_range& of) const {
    for (std::size_t i = steps.size(); i-- > 0;)
      if (steps[i].from != transfer_step::nobody && (elements_ == 0 || steps[i].receives.overlaps(of))) return i;
    return transfer_step::never;
  }

  std::size_t elements_ = 0;
};

/// Returns a schedule in which the ranks below the largest power of two perform `inside`. Each remaining rank sends its
/// array to one of them first and receives the result afterwards.
template <typename Inside>
transfer_schedule fold_outside(std::size_t ranks, std::size_t rank, std::size_t elements, Inside inside) {
  transfer_schedule made(elements);
  const std::size_t core = std::bit_floor(ranks);
  const element_range all{0, elements};
  made.steps.reserve(2 * static_cast<std::size_t>(64 - std::countl_zero(std::uint64_t{ranks})));
  if (rank >= core) {
    made.send(rank - core, all);
    made.receive(rank - core, all, false);
    return made;
  }
  if (rank + core < ranks) made.receive(rank + core, all, true);
  inside(made, core);
  if (rank + core < ranks) made.send(rank + core, all);
  return made;
}

inline transfer_schedule recursive_doubling(std::size_t ranks, std::size_t rank, std::size_t elements) {
  return fold_outside(ranks, rank, elements, [&](transfer_schedule& to, std::size_t core) {
    for (std::size_t bit = 1; bit < core; bit *= 2) to.exchange(rank ^ bit, {0, elements}, {0, elements}, true);
  });
}

/// Exchanges halves with the partners of recursive doubling in the same order, so that each element is summed in the
/// same order, too.
inline transfer_schedule halving_doubling(std::size_t ranks, std::size_t rank, std::size_t elements) {
  return fold_outside(ranks, rank, elements, [&](transfer_schedule& to, std::size_t core) {
    std::vector<element_range> halves{{0, elements}};  // the range that this rank sums after each exchange
    const auto other_half = [&](std::size_t k) {
      const element_range whole = halves[k], mine = halves[k + 1];
      return mine.begin == whole.begin ? element_range{mine.end, whole.end} : element_range{whole.begin, mine.begin};
    };
    std::size_t k = 0;
    for (std::size_t bit = 1; bit < core; bit *= 2, ++k) {
      const element_range whole = halves[k];
      const std::size_t middle = whole.begin + whole.size() / 2;
      const element_range lower{whole.begin, middle}, upper{middle, whole.end};
      const bool takes_upper = (rank & bit) != 0;
      halves.push_back(takes_upper ? upper : lower);
      to.exchange(rank ^ bit, takes_upper ? lower : upper, halves.back(), true);
    }
    for (std::size_t bit = core / 2; bit > 0; bit /= 2) {
      --k;
      to.exchange(rank ^ bit, halves[k + 1], other_half(k), false);
    }
  });
}

/// Adds the transfers by which the ranks below `core` receive `all` from `root`, one of them, through a binomial tree.
inline void broadcast_inside(transfer_schedule& to, std::size_t core, std::size_t rank, std::size_t root,
                             element_range all) {
  const std::size_t self = rank ^ root;  // position in the tree; the root has 0
  const std::size_t up = self == 0 ? core : self & (~self + 1);
  if (self != 0) to.receive(rank ^ up, all, false);
  for (std::size_t bit = up / 2; bit > 0; bit /= 2) to.send(rank ^ bit, all);
}

inline transfer_schedule reduce_by_tree(std::size_t ranks, std::size_t rank, std::size_t elements) {
  return fold_outside(ranks, rank, elements, [&](transfer_schedule& to, std::size_t core) {
    const element_range all{0, elements};
    const std::size_t up = rank == 0 ? core : rank & (~rank + 1);
    for (std::size_t bit = 1; bit < up; bit *= 2) to.receive(rank ^ bit, all, true);
    if (rank != 0) to.send(rank ^ up, all);
    broadcast_inside(to, core, rank, 0, all);
  });
}

/// Adds the rounds of a ring. In each round, a rank sends a share to the next rank and receives the preceding share
/// from the previous rank.
inline void go_round(transfer_schedule& to, std::size_t ranks, std::size_t rank, std::size_t elements,
                     std::size_t first, bool adds) {
  for (std::size_t k = 0; k + 1 < ranks; ++k) {
    const auto share = [&](std::size_t back) {
      return share_of_rank(elements, ranks, (first + 2 * ranks - k - back) % ranks);
    };
    to.add({(rank + 1) % ranks, (rank + ranks - 1) % ranks, share(0), share(1), adds});
  }
}

inline transfer_schedule segmented_ring(std::size_t ranks, std::size_t rank, std::size_t elements) {
  if (elements == 0) return recursive_doubling(ranks, rank, 0);
  transfer_schedule made(elements);
  go_round(made, ranks, rank, elements, rank, true);
  go_round(made, ranks, rank, elements, rank + 1, false);
  return made;
}

/// Returns the schedule of an all-reduce.
inline transfer_schedule schedule_of(reduce_algorithm algorithm, std::size_t ranks, std::size_t rank,
                                     std::size_t elements) {
  switch (algorithm) {
    case reduce_algorithm::segmented_ring:
      return segmented_ring(ranks, rank, elements);
    case reduce_algorithm::halving_doubling:
      return halving_doubling(ranks, rank, elements);
    case reduce_algorithm::tree:
      return reduce_by_tree(ranks, rank, elements);
    default:
      return recursive_doubling(ranks, rank, elements);
  }
}

/// Returns the schedule of a broadcast: through a binomial tree or, if `chain` is true, from rank to rank, each of
/// which forwards a chunk while it receives the next one.
inline transfer_schedule broadcast_schedule(std::size_t ranks, std::size_t rank, std::size_t elements, std::size_t root,
                                            bool chain) {
  transfer_schedule made(elements);
  const element_range all{0, elements};
  if (chain) {
    if (rank != root) made.receive((rank + ranks - 1) % ranks, all, false);
    if ((rank + 1) % ranks != root) made.send((rank + 1) % ranks, all);
    return made;
  }
  const std::size_t core = std::bit_floor(ranks);
  if (rank >= core) {
    if (rank == root)
      made.send(rank - core, all);
    else
      made.receive(rank - core, all, false);
    return made;
  }
  const std::size_t inner = root >= core ? root - core : root;
  if (root >= core && rank == inner) made.receive(root, all, false);
  broadcast_inside(made, core, rank, inner, all);
  if (rank + core < ranks && rank + core != root) made.send(rank + core, all);
  return made;
}

/// A stop of a sum that travels from rank to rank.
struct ordered_stop {
  std::size_t rank = 0;
  std::size_t arrays = 0;  // number of arrays that the rank adds; 0: it only forwards the sum
};

/// Returns the stops of a sum of arrays in a given order; rank `ranks[n]` has the nth array. Adjacent stops are
/// neighbors in the ring of ranks, which are always connected.
inline std::vector<ordered_stop> ordered_stops(std::span<const std::size_t> ranks) {
  std::vector<ordered_stop> stops{{ranks.empty() ? 0 : ranks.front(), 0}};
  for (const std::size_t rank : ranks) {
    while (stops.back().rank != rank) {
      const std::size_t here = stops.back().rank;
      stops.push_back({here < rank ? here + 1 : here - 1, 0});
    }
    ++stops.back().arrays;
  }
  return stops;
}

/// Returns the schedule of a sum of arrays in a given order. At each stop, the rank adds its arrays to the sum that it
/// receives from the previous stop, and forwards the sum. The result travels around the ring.
inline transfer_schedule ordered_schedule(std::size_t ranks, std::size_t rank, std::size_t elements,
                                          std::span<const ordered_stop> stops) {
  transfer_schedule made(elements);
  const element_range all{0, elements};
  for (std::size_t k = 0; k < stops.size(); ++k) {
    if (stops[k].rank != rank) continue;
    if (k > 0) made.receive(stops[k - 1].rank, all, true);
    if (k + 1 < stops.size()) made.send(stops[k + 1].rank, all);
  }
  const std::size_t last = stops.back().rank, next = (rank + 1) % ranks;
  if (rank != last) made.receive((rank + ranks - 1) % ranks, all, false);
  if (next != last) made.send(next, all);
  return made;
}

/// Returns the shares of ranks `first` to `first + count - 1`.
inline element_range shares_of_ranks(std::size_t elements, std::size_t ranks, std::size_t first, std::size_t count) {
  return {share_of_rank(elements, ranks, first).begin, share_of_rank(elements, ranks, first + count - 1).end};
}

/// Returns the schedule of an all-gather: by doubling, or in a ring if the number of ranks is not a power of two.
inline transfer_schedule all_gather_schedule(std::size_t ranks, std::size_t rank, std::size_t elements) {
  transfer_schedule made(elements);
  if (!std::has_single_bit(ranks)) {
    go_round(made, ranks, rank, elements, rank, false);
    return made;
  }
  for (std::size_t bit = 1; bit < ranks; bit *= 2) {
    const std::size_t first = rank & ~(bit - 1);
    made.exchange(rank ^ bit, shares_of_ranks(elements, ranks, first, bit),
                  shares_of_ranks(elements, ranks, first ^ bit, bit), false);
  }
  return made;
}

/// Returns the schedule of a reduce-scatter: by halving, or in a ring if the number of ranks is not a power of two.
inline transfer_schedule reduce_scatter_schedule(std::size_t ranks, std::size_t rank, std::size_t elements) {
  transfer_schedule made(elements);
  if (!std::has_single_bit(ranks)) {
    go_round(made, ranks, rank, elements, rank + ranks - 1, true);
    return made;
  }
  for (std::size_t bit = ranks / 2; bit > 0; bit /= 2) {
    const std::size_t first = rank & ~(bit - 1);
    made.exchange(rank ^ bit, shares_of_ranks(elements, ranks, first ^ bit, bit),
                  shares_of_ranks(elements, ranks, first, bit), true);
  }
  return made;
}

/// Returns the ranks that `rank` exchanges messages with in any of these schedules.
inline std::vector<std::size_t> partners_of(std::size_t ranks, std::size_t rank) {
  std::vector<std::size_t> found{(rank + 1) % ranks, (rank + ranks - 1) % ranks};
  const std::size_t core = std::bit_floor(ranks);
  if (rank >= core) found.push_back(rank - core);
  if (rank + core < ranks) found.push_back(rank + core);
  for (std::size_t bit = 1; rank < core && bit < core; bit *= 2) found.push_back(rank ^ bit);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  std::erase(found, rank);
  return found;
}

}  // namespace detail
}  // namespace weft
