// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <weft/device/cpu/vector_loops.hpp>
#include <weft/distributed/collective/all_reduce.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/error.hpp>

namespace weft::detail {

/// A rank's description of its array and call in an all-reduce. All members are doubles, which every library transfers.
struct reduce_statement {
  double bytes = 0, element_size = 0, is_mean = 0;  // the same on all ranks
  double weight = 0;
  double first_nonfinite = 0;  // position of the first element that is not finite, plus one; 0: all are finite

  static constexpr std::size_t count = 5;

  template <std::floating_point Element>
  static reduce_statement of(std::span<const Element> data, bool is_mean, double weight) {
    reduce_statement made{static_cast<double>(data.size_bytes()), sizeof(Element), is_mean ? 1.0 : 0.0, weight};
    const std::size_t bad = is_mean && weight != 0 ? detail::first_nonfinite(data.data(), data.size()) : data.size();
    if (bad < data.size()) made.first_nonfinite = static_cast<double>(bad) + 1;
    return made;
  }

  bool same_call(const reduce_statement& other) const {
    return bytes == other.bytes && element_size == other.element_size && is_mean == other.is_mean;
  }
};
static_assert(sizeof(reduce_statement) == reduce_statement::count * sizeof(double));

/// The ranks of an all-reduce by NCCL or MPI. These libraries would wait for a rank that is gone; Weft's membership
/// detects the loss.
class reduce_peers {
 public:
  /// Refers to the current processes of the tasks of `job`.
  reduce_peers(task_server& here, const std::string& job, std::size_t ranks)
      : here_(here), first_(here.cluster().rank({job, 0})), said_(ranks) {
    for (std::size_t r = 0; r < ranks; ++r) incarnations_.push_back(here.members().incarnation(first_ + r));
  }

  /// Throws weft::error (unavailable) with the name of a rank that is gone.
  void check() const {
    for (std::size_t r = 0; r < incarnations_.size(); ++r) {
      const task_state state = here_.members().state(first_ + r, incarnations_[r]);
      if (state == task_state::lost || state == task_state::left)
        throw here_.members().diagnose(first_ + r, incarnations_[r], "all_reduce", "is gone");
    }
  }

  /// The statement of each rank, which the library fills in.
  std::span<reduce_statement> said() { return said_; }
  std::span<double> numbers() { return {&said_[0].bytes, reduce_statement::count * said_.size()}; }

  /// Throws weft::error (failed_precondition) if a rank makes a different call than rank `own`.
  void check_agreement(std::size_t own) const {
    for (std::size_t r = 0; r < said_.size(); ++r)
      if (!said_[r].same_call(said_[own]))
        throw error(error_code::failed_precondition, "all_reduce",
                    {to_string(here_.members().task(first_ + r)), " disagrees with ", here_.name(),
                     "; all ranks must make the same calls in the same order"});
  }

  double weights() const {
    double sum = 0;
    for (const reduce_statement& each : said_) sum += each.weight;
    return sum;
  }

  /// Returns true if every weight is 1. The sum of the weights does not show this: 0 + 2 = 1 + 1.
  bool weights_are_one() const {
    return std::all_of(said_.begin(), said_.end(), [](const reduce_statement& each) { return each.weight == 1; });
  }

  /// Returns the report of the mean `data`. `finite`: all elements of `data` are finite.
  template <std::floating_point Element>
  mean_report report(std::span<const Element> data, bool finite) const {
    mean_report made{weights(), finite, 0, {}};
    if (finite) return made;
    made.element = first_nonfinite(data.data(), data.size());
    for (std::size_t r = said_.size(); r-- > 0;)
      if (said_[r].first_nonfinite >= 1 && said_[r].first_nonfinite <= static_cast<double>(data.size())) {
        made.rank = r;
        made.element = static_cast<std::size_t>(said_[r].first_nonfinite) - 1;
      }
    return made;
  }

 private:
  task_server& here_;
  std::size_t first_;
  std::vector<std::uint64_t> incarnations_;
  std::vector<reduce_statement> said_;
};

}  // namespace weft::detail
