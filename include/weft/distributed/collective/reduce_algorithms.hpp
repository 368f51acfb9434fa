#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <weft/config.hpp>

namespace weft {

/// How ranks reduce by messages. Doubling, halving-doubling and tree add in the same order, so they give the same bits.
/// R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", 2005.
enum class reduce_algorithm : unsigned char {
  automatic,           ///< whichever link_cost expects to be the fastest
  recursive_doubling,  ///< log2(p) exchanges of the whole array: few messages
  segmented_ring,      ///< 2(p-1) exchanges of 1/p each, in chunks that travel on as soon as they are summed: few bytes
  halving_doubling,    ///< Rabenseifner's: a reduce-scatter by halves, an all-gather by doubling: few messages and few
                       ///< bytes
  tree,                ///< a binomial tree to rank 0 and back: the fewest messages in all
  ring = segmented_ring,
};

/// The cost of a link, to choose an algorithm by. The defaults were measured between two to four processes on loopback.
struct link_cost {
  double message_us = 10;         ///< to send and receive a small message
  double megabytes_per_s = 3000;  ///< both directions at once
  double sum_megabytes_per_s = 4000;

  /// The expected microseconds of reducing `bytes` over `ranks`: messages one after the other, bytes moved and bytes
  /// summed, each at its price.
  double microseconds(reduce_algorithm algorithm, std::size_t ranks, std::size_t bytes) const {
    if (ranks <= 1) return 0;
    const double p = static_cast<double>(ranks), size = static_cast<double>(bytes);
    const double core = static_cast<double>(std::bit_floor(ranks));
    const double rounds = static_cast<double>(std::bit_width(ranks)) - 1;
    const double move = size / megabytes_per_s, sum = size / sum_megabytes_per_s;
    // The ranks beyond a power of two hand in their arrays, and take the result.
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

  /// The one that is expected to be the fastest.
  reduce_algorithm choose(std::size_t ranks, std::size_t bytes) const {
    reduce_algorithm best = reduce_algorithm::recursive_doubling;
    for (const auto each :
         {reduce_algorithm::segmented_ring, reduce_algorithm::halving_doubling, reduce_algorithm::tree})
      if (microseconds(each, ranks, bytes) < microseconds(best, ranks, bytes)) best = each;
    return best;
  }
};

namespace detail {

/// Elements of the array that ranks work on.
struct element_range {
  std::size_t begin = 0, end = 0;

  std::size_t size() const { return end - begin; }
  bool overlaps(const element_range& other) const { return begin < other.end && other.begin < end; }

  friend bool operator==(const element_range&, const element_range&) = default;
};

/// The part of `rank` in an array that `ranks` ranks share: the first ones have one element more where it does not
/// divide.
inline element_range share_of_rank(std::size_t elements, std::size_t ranks, std::size_t rank) {
  const auto begin = [&](std::size_t r) { return elements / ranks * r + std::min(r, elements % ranks); };
  return {begin(rank), begin(rank + 1)};
}

/// A rank's transfers at one time. Elements that come are added to those that are there, or replace them.
struct transfer_step {
  static constexpr std::size_t nobody = static_cast<std::size_t>(-1);
  static constexpr std::size_t never = static_cast<std::size_t>(-1);

  std::size_t to = nobody, from = nobody;  // ranks
  element_range sends{}, receives{};
  bool adds = false;
  // The steps that have last changed what is sent, and what something is received for; `never`: they are the rank's
  // own.
  std::size_t sends_from = never, adds_to = never;
};

/// One rank's part of a collective operation. A step's range leaves when what earlier steps receive for it has come,
/// and what a step receives is taken in when the ranges that it and earlier ones send have left; so the steps are as
/// good as carried out one after the other, by all ranks at once, and may overlap where their ranges do not.
struct transfer_schedule {
  std::vector<transfer_step> steps;
  std::size_t result = transfer_step::never;  // the step that has last changed the first element

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
    // Nothing is not worth a message, unless the whole array is nothing and the messages themselves matter.
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

/// As many ranks as are a power of two do `inside` among themselves; each of the others hands in its array and takes
/// the result.
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

/// Halves in the order in which doubling meets its partners: each element is added up as it would be there.
inline transfer_schedule halving_doubling(std::size_t ranks, std::size_t rank, std::size_t elements) {
  return fold_outside(ranks, rank, elements, [&](transfer_schedule& to, std::size_t core) {
    std::vector<element_range> halves{{0, elements}};  // what this rank has after each exchange
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

/// Adds the transfers with which the ranks below `core` receive `all` from rank `root` of them, through a binomial
/// tree.
inline void broadcast_inside(transfer_schedule& to, std::size_t core, std::size_t rank, std::size_t root,
                             element_range all) {
  const std::size_t self = rank ^ root;  // the numbers that the tree goes by
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

/// Rounds of a ring: in each a rank sends a share to the next one and receives the one before it from the previous.
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

/// The sum of all ranks' arrays, on all of them.
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

/// The root's array, on all ranks: through a binomial tree or, in `chain`, from rank to rank, each of which passes on
/// a chunk while it receives the next.
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
  std::size_t arrays = 0;  // that the rank adds there; 0: it only passes the sum on
};

/// Returns the stops of the sum of arrays in a certain order; `ranks[n]` has the nth array. Adjacent stops are
/// neighbours in the ring of ranks, which are always connected.
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

/// The sum of arrays in a certain order, on all ranks. At each stop the rank adds its arrays to the sum that it
/// receives from the stop before, and passes it on. The result of the last stop goes round the ring.
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

/// The shares of ranks `first` to `first + count - 1`.
inline element_range shares_of_ranks(std::size_t elements, std::size_t ranks, std::size_t first, std::size_t count) {
  return {share_of_rank(elements, ranks, first).begin, share_of_rank(elements, ranks, first + count - 1).end};
}

/// Each rank's share, on all ranks: by doubling, or in a ring where their number is not a power of two.
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

/// The sum of all ranks' arrays, its share on each: by halving, or in a ring where their number is not a power of two.
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

/// The ranks that `rank` exchanges messages with, in any of these.
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
