// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include <weft/device/cpu/vector_loops.hpp>
#include <weft/distributed/collective/reduce_algorithms.hpp>
#include <weft/transport/shared_memory.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

namespace weft::detail {

/// A description of one all-reduce, which must be the same on all ranks.
struct reduce_call {
  std::uint64_t number = 0, bytes = 0, element = 0;
  bool mean = false, in_place = false;
  std::uint64_t root = 0;  // identifies the ranks that have a share in a gather; 0: a sum
  std::uint64_t part = 0;  // number of this part, if a call has several

  std::uint64_t digest() const {
    std::uint64_t text = number;
    for (const std::uint64_t word : {bytes, element, std::uint64_t{mean}, std::uint64_t{in_place}, root, part})
      text = (text ^ word) * 0x9e3779b97f4a7c15u + (text >> 29);
    return text;
  }
};

/// Thrown if rank `rank` makes a different call.
struct reduce_disagreement {
  std::size_t rank;
};

/// The first element of a mean that is not finite, and the rank whose array contained it.
struct nonfinite_element {
  static constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();

  std::size_t element = nowhere;
  std::size_t rank = nowhere;  // nowhere: it is finite in all arrays, but their mean is not

  bool found() const { return element != nowhere; }
};

/// Sums arrays of ranks that have mapped each other's memory. Each rank sums an equal part of all arrays, in the order
/// of the ranks, and writes it to all of them. All ranks get the same bits.
///
/// No value read from a segment is used as a length or an address, so a damaged segment can cause wrong sums or a
/// disagreement, but no access out of bounds.
class shared_reduce {
  static constexpr std::size_t line = 64;
  static constexpr std::size_t small = 4096;  // bytes; every rank sums smaller arrays completely, and waits once
  static constexpr std::size_t window = std::size_t{1} << 20;  // bytes; larger arrays are copied here in pieces

  // The segment of one rank. `calls` and `slots` have two entries: a rank can begin the next call while another rank
  // still reads the entry of this one, but it cannot be two calls ahead.
  struct alignas(line) board {
    shared_counter arrived;
    struct alignas(line) {
      std::atomic<std::uint64_t> digest;
      std::atomic<double> weight;
      std::atomic<std::uint64_t> element, rank;  // the nonfinite_element of this rank's part, plus one; 0: none
    } calls[2];
    alignas(line) std::byte slots[2][small];
    alignas(line) std::byte staged[window];
  };

 public:
  /// Returns the size of each rank's segment in bytes.
  static std::size_t room() { return sizeof(board); }

  shared_reduce(std::vector<shared_segment> segments, std::size_t rank, wait_policy waiting)
      : segments_(std::move(segments)), rank_(rank), waiting_(waiting), weights_(segments_.size(), 1) {
    for (const shared_segment& each : segments_) boards_.push_back(reinterpret_cast<board*>(each.bytes().data()));
  }

  shared_reduce(const shared_reduce&) = delete;
  shared_reduce& operator=(const shared_reduce&) = delete;

  /// Replaces `data` with its sum over all ranks or, if `call.mean` is true, with the weighted mean. `block`: the
  /// segments that `data` fills, by rank; empty if `data` is elsewhere. `look(rank, has_come)` is called repeatedly
  /// while this rank waits for `rank`. It throws to end the wait, and otherwise returns the longest time to sleep.
  /// After it has thrown, the same call can be repeated and continues.
  template <typename Element, typename Look>
  void run(std::span<Element> data, const reduce_call& call, double weight, std::span<const shared_segment> block,
           Look look) {
    const std::uint64_t digest = call.digest();
    if (!under_way_) {
      begin(digest);
      auto& mine = boards_[rank_]->calls[parity_];
      equal_weights_ = true;
      sum_of_weights_ = static_cast<double>(boards_.size());
      if (call.mean) {
        mine.weight.store(weight, std::memory_order_relaxed);
        mine.element.store(0, std::memory_order_relaxed);
        mine.rank.store(0, std::memory_order_relaxed);
        nonfinite_ = {};
      }
    }
    if (data.size_bytes() <= small && block.empty())
      run_small(data, call.mean, digest, look);
    else
      run_pieces(data, call.mean, digest, block, look);
    under_way_ = false;
  }

  /// Copies each rank's share of `data` to all other ranks. `shares`: byte ranges by rank. See run() for `look`.
  template <typename Look>
  void gather(mutable_bytes data, std::span<const element_range> shares, const reduce_call& call, Look look) {
    const std::uint64_t digest = call.digest();
    if (!under_way_) begin(digest);
    std::size_t longest = 0;
    for (const element_range& each : shares) longest = std::max(longest, each.size());
    const bool is_small = longest <= small;
    const auto place = [&](std::size_t r) { return is_small ? boards_[r]->slots[parity_] : boards_[r]->staged; };
    for (bool first = true; first || piece_ < longest; first = false) {
      const auto piece = [&](std::size_t r) {
        const element_range& share = shares[r];
        const std::size_t begin = std::min(piece_, share.size());
        return data.subspan(share.begin + begin, std::min(window, share.size() - begin));
      };
      if (stage_ == stage::begun) {
        std::copy_n(piece(rank_).data(), piece(rank_).size(), place(rank_));
        stage_ = stage::filled;
      }
      if (stage_ == stage::filled) {
        meet(digest, look);
        for (std::size_t r = 0; r < boards_.size(); ++r)
          if (r != rank_) std::copy_n(place(r), piece(r).size(), piece(r).data());
        stage_ = stage::reduced;
      }
      if (!is_small) meet(digest, look);  // before the next piece overwrites this one
      piece_ += window;
      stage_ = stage::begun;
    }
    under_way_ = false;
  }

  /// The first element of the last mean that is not finite.
  const nonfinite_element& nonfinite() const { return nonfinite_; }
  /// The sum of the weights of the last mean.
  double weights() const { return sum_of_weights_; }

  void detach() const {
    for (const shared_segment& each : segments_) each.detach();
  }

 private:
  enum class stage : unsigned char { begun, filled, reduced };

  void begin(std::uint64_t digest) {
    parity_ ^= 1;
    boards_[rank_]->calls[parity_].digest.store(digest, std::memory_order_relaxed);
    under_way_ = true;
    stage_ = stage::begun;
    piece_ = 0;
  }

  template <typename Element, typename Look>
  void run_small(std::span<Element> data, bool mean, std::uint64_t digest, Look look) {
    if (stage_ == stage::begun && !data.empty())
      std::memcpy(boards_[rank_]->slots[parity_], data.data(), data.size_bytes());
    stage_ = stage::filled;
    meet(digest, look);
    if (mean) take_weights();
    if (data.empty()) return;
    const auto of = [&](std::size_t r) { return reinterpret_cast<const Element*>(boards_[r]->slots[parity_]); };
    if (!add_all(data.data(), of, data.size(), mean)) note_nonfinite(data.data(), of, data.size(), 0, nonfinite_);
  }

  template <typename Element, typename Look>
  void run_pieces(std::span<Element> data, bool mean, std::uint64_t digest, std::span<const shared_segment> block,
                  Look look) {
    std::vector<Element*> at(boards_.size());
    for (std::size_t r = 0; r < at.size(); ++r)
      at[r] = reinterpret_cast<Element*>(block.empty() ? boards_[r]->staged : block[r].bytes().data());
    const std::size_t max_elements = block.empty() ? window / sizeof(Element) : data.size();
    for (; piece_ < data.size(); piece_ += max_elements, stage_ = stage::begun) {
      const std::span<Element> piece = data.subspan(piece_, std::min(max_elements, data.size() - piece_));
      if (stage_ == stage::begun) {
        if (block.empty()) std::memcpy(at[rank_], piece.data(), piece.size_bytes());
        stage_ = stage::filled;
      }
      if (stage_ == stage::filled) {
        meet(digest, look);
        if (mean) take_weights();
        reduce_part(at, piece.size(), mean);
        stage_ = stage::reduced;
      }
      meet(digest, look);
      if (block.empty()) std::memcpy(piece.data(), at[rank_], piece.size_bytes());
    }
    if (mean) gather_nonfinite(data.size());
  }

  /// Sums this rank's part of all arrays and writes it to all arrays.
  template <typename Element>
  void reduce_part(const std::vector<Element*>& at, std::size_t elements, bool mean) {
    constexpr std::size_t in_line = line / sizeof(Element), max_elements = 2048;
    const std::size_t lines = (elements + in_line - 1) / in_line, ranks = at.size();
    const auto share = [&](std::size_t r) { return std::min(elements, lines * r / ranks * in_line); };
    alignas(line) Element sum[max_elements];
    for (std::size_t first = share(rank_); first < share(rank_ + 1); first += max_elements) {
      const std::size_t count = std::min(max_elements, share(rank_ + 1) - first);
      const auto of = [&](std::size_t r) { return at[r] + first; };
      if (!add_all(sum, of, count, mean)) {
        nonfinite_element found;
        note_nonfinite(sum, of, count, piece_ + first, found);
        auto& mine = boards_[rank_]->calls[parity_];
        if (mine.element.load(std::memory_order_relaxed) == 0) {
          mine.rank.store(found.rank + 1, std::memory_order_relaxed);
          mine.element.store(found.element + 1, std::memory_order_relaxed);
        }
      }
      for (Element* each : at) std::memcpy(each + first, sum, count * sizeof(Element));
    }
  }

  /// Returns false if a mean has an element that is not finite.
  template <typename Element, typename Of>
  bool add_all(Element* sum, Of of, std::size_t count, bool mean) const {
    if (equal_weights_) {
      if (mean && boards_.size() == 2)
        return mean_of_two<Element>(sum, of(0), of(1), count, static_cast<Element>(sum_of_weights_));
      add<Element>(sum, of(0), of(1), count);
      for (std::size_t r = 2; r < boards_.size(); ++r) accumulate<Element>(sum, of(r), count);
    } else {
      add_weighted(sum, of, count);
    }
    return !mean || sum_of_weights_ == 0 || divide(sum, count, static_cast<Element>(sum_of_weights_));
  }

  // Not inlined: its buffer on the stack would slow down the usual sums.
  template <typename Element, typename Of>
  __attribute__((noinline)) void add_weighted(Element* sum, Of of, std::size_t count) const {
    constexpr std::size_t max_elements = 1024;
    alignas(line) Element scaled[max_elements];
    for (std::size_t done = 0; done < count; done += max_elements) {
      const std::size_t size = std::min(max_elements, count - done);
      bool any = false;
      for (std::size_t r = 0; r < boards_.size(); ++r) {
        if (weights_[r] == 0) continue;
        const Element* next = of(r) + done;
        if (weights_[r] != 1) {
          scale<Element>(scaled, next, size, static_cast<Element>(weights_[r]));
          next = scaled;
        }
        if (std::exchange(any, true))
          accumulate<Element>(sum + done, next, size);
        else
          std::copy_n(next, size, sum + done);
      }
      if (!any) std::fill_n(sum + done, size, Element{0});
    }
  }

  /// Finds the first element that is not finite, and its rank. The ranks' arrays are still unchanged.
  template <typename Element, typename Of>
  void note_nonfinite(const Element* sum, Of of, std::size_t count, std::size_t before, nonfinite_element& to) const {
    to.element = before + first_nonfinite<Element>(sum, count);
    for (std::size_t r = 0; r < boards_.size(); ++r) {
      const std::size_t at = weights_[r] == 0 ? count : first_nonfinite<Element>(of(r), count);
      if (at == count) continue;
      to = {before + at, r};
      return;
    }
  }

  /// Takes the first such element that any rank has found. Ignores positions that do not exist.
  void gather_nonfinite(std::size_t elements) {
    for (const board* each : boards_) {
      const auto& its = each->calls[parity_];
      const std::uint64_t element = its.element.load(std::memory_order_relaxed);
      if (element == 0 || element > elements || element - 1 >= nonfinite_.element) continue;
      const std::uint64_t rank = its.rank.load(std::memory_order_relaxed);
      nonfinite_ = {element - 1, rank == 0 || rank > boards_.size() ? nonfinite_element::nowhere : rank - 1};
    }
  }

  /// Returns when all ranks have called it.
  template <typename Look>
  void meet(std::uint64_t digest, Look look) {
    if (!meeting_) boards_[rank_]->arrived.publish(++meetings_);
    meeting_ = true;
    for (std::size_t r = 0; r < boards_.size(); ++r) {
      if (r == rank_) continue;
      shared_counter& its = boards_[r]->arrived;
      while (!its.poll(meetings_, waiting_)) its.sleep(meetings_, look(r, [&] { return its.reached(meetings_); }));
      if (boards_[r]->calls[parity_].digest.load(std::memory_order_relaxed) != digest) throw reduce_disagreement{r};
    }
    meeting_ = false;
  }

  /// Reads the weights of all ranks, after meet().
  void take_weights() {
    sum_of_weights_ = 0;
    equal_weights_ = true;
    for (std::size_t r = 0; r < boards_.size(); ++r) {
      weights_[r] = boards_[r]->calls[parity_].weight.load(std::memory_order_relaxed);
      sum_of_weights_ += weights_[r];
      equal_weights_ &= weights_[r] == 1;
    }
  }

  std::vector<shared_segment> segments_;
  std::vector<board*> boards_;
  std::size_t rank_;
  wait_policy waiting_;
  std::vector<double> weights_;  // by rank, of the current call
  double sum_of_weights_ = 0;
  bool equal_weights_ = true;  // all are 1
  std::size_t parity_ = 0;
  std::uint32_t meetings_ = 0;

  // Progress of the current call.
  bool under_way_ = false, meeting_ = false;
  stage stage_ = stage::begun;
  std::size_t piece_ = 0;
  nonfinite_element nonfinite_;
};

}  // namespace weft::detail

#pragma pop_macro("slots")
