// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include <weft/distributed/training/strategy.hpp>

/// The batches of every worker's part, chosen by the worker's index and the number of its step alone. A process that
/// takes a worker's place, or computes its part, has the batches that the worker would have had.
template <class Batches>
class batches_of_replicas {
 public:
  /// `of(worker)` returns the batches of one worker.
  explicit batches_of_replicas(std::function<Batches(std::size_t worker)> of) : of_(std::move(of)) {}

  decltype(auto) operator()(const weft::replica& r) {
    part& its = part_of(r.index);
    if (its.next && r.step == its.step + 1)
      ++*its.next;
    else if (!its.next || r.step != its.step)
      its.next.emplace(its.batches.from({0, static_cast<std::uint64_t>(r.step)}).begin());
    its.step = r.step;
    return **its.next;
  }

 private:
  using iterator = decltype(std::declval<const Batches&>().begin());
  struct part {
    Batches batches;  // epoch after epoch
    std::int64_t step = 0;
    std::optional<iterator> next{};
  };

  part& part_of(int worker) {
    const auto found = parts_.find(worker);
    if (found != parts_.end()) return found->second;
    return parts_.emplace(worker, part{of_(static_cast<std::size_t>(worker)).repeat()}).first->second;
  }

  std::function<Batches(std::size_t)> of_;
  std::map<int, part> parts_;
};
template <class Of>
batches_of_replicas(Of) -> batches_of_replicas<decltype(std::declval<Of&>()(0))>;
template <class X>
inline constexpr bool is_batches_of_replicas = false;
template <class Batches>
inline constexpr bool is_batches_of_replicas<batches_of_replicas<Batches>> = true;
