#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include <weft/distributed/update_rule.hpp>
#include <weft/transport/shared_memory.hpp>

namespace weft::detail {

/// What all ranks must say alike of one all-reduce.
struct reduce_call {
  std::uint64_t number = 0, bytes = 0, element = 0;
  bool mean = false, in_place = false;

  std::uint64_t digest() const {
    std::uint64_t text = number;
    for (const std::uint64_t part : {bytes, element, std::uint64_t{mean}, std::uint64_t{in_place}})
      text = (text ^ part) * 0x9e3779b97f4a7c15u + (text >> 29);
    return text;
  }
};

/// A rank that makes another call than this one.
struct reduce_disagreement {
  std::size_t rank;
};

/// Sums arrays of ranks that have mapped each other's memory. Each rank sums an equal part of all arrays, in the order
/// of the ranks, and writes it into all of them: nothing is sent, and everyone gets the same bits.
///
/// Nothing that is read from the segments is used as a length or an address: a damaged segment makes wrong sums or a
/// disagreement, never an access outside.
class shared_reduce {
  static constexpr std::size_t line = 64;
  static constexpr std::size_t small = 4096;  // bytes: up to here each rank sums everything itself, and waits but once
  static constexpr std::size_t window = std::size_t{1} << 20;  // larger arrays that lie elsewhere go through by pieces

  // One rank's part. Two of each: a rank may begin the next call while another still reads of this one; two calls ahead
  // it cannot be.
  struct alignas(line) board {
    shared_counter arrived;
    struct alignas(line) {
      std::atomic<std::uint64_t> digest;
    } calls[2];
    alignas(line) std::byte slots[2][small];
    alignas(line) std::byte staged[window];
  };

 public:
  /// Bytes of each rank's segment.
  static std::size_t room() { return sizeof(board); }

  shared_reduce(std::vector<shared_segment> segments, std::size_t rank, wait_policy waiting)
      : segments_(std::move(segments)), rank_(rank), waiting_(waiting) {
    for (const shared_segment& each : segments_) boards_.push_back(reinterpret_cast<board*>(each.bytes().data()));
  }

  /// Replaces `data` by its sum over all ranks, or by the mean. `block`: the segments that `data` fills, by rank; none
  /// where it lies elsewhere. `look(rank, has_come)` is called every now and then while that rank is waited for: it
  /// throws when there is no point in waiting, and returns how long to sleep at most.
  template <typename Element, typename Look>
  void run(std::span<Element> data, const reduce_call& call, std::span<const shared_segment> block, Look look) {
    const std::uint64_t digest = call.digest();
    parity_ ^= 1;
    boards_[rank_]->calls[parity_].digest.store(digest, std::memory_order_relaxed);
    if (data.size_bytes() <= small && block.empty()) return run_small(data, call.mean, digest, look);
    arrays<Element> at(boards_.size());
    if (!block.empty()) {
      for (std::size_t r = 0; r < block.size(); ++r) at[r] = reinterpret_cast<Element*>(block[r].bytes().data());
      meet(digest, look);
      reduce_part(at, data.size(), call.mean);
      return meet(digest, look);
    }
    for (std::size_t r = 0; r < boards_.size(); ++r) at[r] = reinterpret_cast<Element*>(boards_[r]->staged);
    constexpr std::size_t most = window / sizeof(Element);
    for (std::size_t first = 0; first < data.size(); first += most) {
      const std::span<Element> piece = data.subspan(first, std::min(most, data.size() - first));
      std::memcpy(at[rank_], piece.data(), piece.size_bytes());
      meet(digest, look);
      reduce_part(at, piece.size(), call.mean);
      meet(digest, look);
      std::memcpy(piece.data(), at[rank_], piece.size_bytes());
    }
  }

  void detach() const {
    for (const shared_segment& each : segments_) each.detach();
  }

 private:
  template <typename Element>
  using arrays = std::vector<Element*>;

  template <typename Element, typename Look>
  void run_small(std::span<Element> data, bool mean, std::uint64_t digest, Look look) {
    if (!data.empty()) std::memcpy(boards_[rank_]->slots[parity_], data.data(), data.size_bytes());
    meet(digest, look);
    if (data.empty()) return;
    const auto of = [&](std::size_t r) { return reinterpret_cast<const Element*>(boards_[r]->slots[parity_]); };
    add_all(data.data(), of, data.size(), mean);
  }

  /// This rank's part of all arrays, into all of them.
  template <typename Element>
  void reduce_part(const arrays<Element>& at, std::size_t elements, bool mean) const {
    constexpr std::size_t in_line = line / sizeof(Element), most = 2048;
    const std::size_t lines = (elements + in_line - 1) / in_line, ranks = at.size();
    const auto share = [&](std::size_t r) { return std::min(elements, lines * r / ranks * in_line); };
    alignas(line) Element sum[most];
    for (std::size_t first = share(rank_); first < share(rank_ + 1); first += most) {
      const std::size_t count = std::min(most, share(rank_ + 1) - first);
      add_all(
          sum, [&](std::size_t r) { return at[r] + first; }, count, mean);
      for (Element* each : at) std::memcpy(each + first, sum, count * sizeof(Element));
    }
  }

  template <typename Element, typename Of>
  void add_all(Element* sum, Of of, std::size_t count, bool mean) const {
    add<Element>(sum, of(0), of(1), count);
    for (std::size_t r = 2; r < boards_.size(); ++r) accumulate<Element>(sum, of(r), count);
    if (mean) divide(sum, count, static_cast<Element>(boards_.size()));
  }

  /// Returns when all ranks have come here.
  template <typename Look>
  void meet(std::uint64_t digest, Look look) {
    boards_[rank_]->arrived.publish(++meetings_);
    for (std::size_t r = 0; r < boards_.size(); ++r) {
      if (r == rank_) continue;
      shared_counter& its = boards_[r]->arrived;
      while (!its.poll(meetings_, waiting_)) its.sleep(meetings_, look(r, [&] { return its.reached(meetings_); }));
      if (boards_[r]->calls[parity_].digest.load(std::memory_order_relaxed) != digest) throw reduce_disagreement{r};
    }
  }

  std::vector<shared_segment> segments_;
  std::vector<board*> boards_;
  std::size_t rank_;
  wait_policy waiting_;
  std::size_t parity_ = 0;
  std::uint32_t meetings_ = 0;
};

}  // namespace weft::detail
