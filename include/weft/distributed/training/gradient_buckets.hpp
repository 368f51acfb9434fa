// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <weft/distributed/training/gradient_buffers.hpp>
#include <weft/distributed/training/shared_variables.hpp>
#include <weft/transport/separate.hpp>

namespace weft::detail {

/// The layout of an all-reduce's gradients in the blocks of gradient_buffers, and their division into buckets. The last
/// elements of the last bucket are the workers' votes.
class gradient_buckets {
 public:
  struct bucket {
    bool is_double;
    std::size_t begin, bytes;                // in the block
    std::size_t variables = 0, missing = 0;  // number of variables, and of gradients that the step has not computed yet
  };

  gradient_buckets(const shared_variables& variables, gradient_buffers& gradients)
      : variables_(variables), gradients_(gradients) {}

  /// Lays out buckets of about `bucket_bytes` bytes; 0: one bucket for each element type.
  void lay_out(std::size_t bucket_bytes, std::size_t votes);
  bool is_laid_out() const { return !buckets_.empty(); }
  /// Returns true if several buckets are sent while the step still runs.
  bool are_small() const { return are_small_; }

  std::size_t size() const { return buckets_.size(); }
  const bucket& operator[](std::size_t k) const { return buckets_[k]; }
  template <class Element>
  std::span<Element> elements(std::size_t k) const {
    const bucket& b = buckets_[k];
    return gradients_.template block<Element>().subspan(b.begin / sizeof(Element), b.bytes / sizeof(Element));
  }
  /// Calls use(votes) with a span of float or double.
  template <class Use>
  void with_votes(Use use) const {
    const std::size_t last = buckets_.size() - 1;
    buckets_.back().is_double ? use(elements<double>(last).last(votes_)) : use(elements<float>(last).last(votes_));
  }

  // ---- during a step ----

  void begin_step();
  /// Notes that the whole gradient of a variable is complete. Returns the number of leading buckets that are complete.
  std::size_t note(std::size_t variable);

  // ---- copies of a worker's own gradients, which an exchange overwrites ----

  void keep(std::size_t k);
  void bring_back();

 private:
  bool comes_late(std::size_t i) const { return i >= variables_.first_averaged() || variables_[i].has_rows(); }
  void sort_by_time(std::vector<std::size_t>& order) const;
  void place(std::size_t variable, std::size_t bucket_bytes);

  const shared_variables& variables_;
  gradient_buffers& gradients_;
  std::vector<bucket> buckets_;
  std::vector<std::size_t> bucket_of_;  // by variable
  std::size_t votes_ = 0;
  bool are_small_ = false;
  std::size_t complete_ = 0;        // complete buckets of the current step
  std::vector<std::byte> kept_[2];  // of float and of double variables
};

#if WEFT_DISTRIBUTED_DEFINITIONS

WEFT_DISTRIBUTED_DECL void gradient_buckets::lay_out(std::size_t bucket_bytes, std::size_t votes) {
  votes_ = votes;
  std::size_t bytes[2] = {0, 0};
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < variables_.first_frozen(); ++i) {
    order.push_back(i);
    bytes[variables_[i].is_double()] += variables_[i].bytes();
  }
  are_small_ = bucket_bytes != 0 && std::max(bytes[0], bytes[1]) > bucket_bytes;
  if (are_small_) sort_by_time(order);
  bucket_of_.resize(variables_.size());
  for (const bool is_double : {false, true})
    for (const std::size_t i : order)
      if (variables_[i].is_double() == is_double) place(i, bucket_bytes);
  bucket& last = buckets_.back();
  gradients_.take_room(last.is_double, votes_ * (last.is_double ? sizeof(double) : sizeof(float)));
  last.bytes = gradients_.room_taken(last.is_double) - last.begin;
  for (std::size_t i = 0; i < variables_.first_averaged(); ++i) {
    gradients_.fetch_whole(i);
    for (std::size_t k = 1; k < variables_[i].lists.size(); k += 2) gradients_.fetch_list(i, k);
  }
}

/// Sorts by the order in which reverse mode recorded the gradients, which is roughly the order of their computation.
/// Gradients that are known only after the step are last.
WEFT_DISTRIBUTED_DECL void gradient_buckets::sort_by_time(std::vector<std::size_t>& order) const {
  const auto time = [&](std::size_t i) { return comes_late(i) ? graph_node::no_node : variables_[i].gradient.node; };
  // Stable, as `order` is ascending. (With libstdc++ 12, clang 19 warns about std::stable_sort.)
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return std::pair(time(a), a) < std::pair(time(b), b); });
}

WEFT_DISTRIBUTED_DECL void gradient_buckets::place(std::size_t variable, std::size_t bucket_bytes) {
  const shared_variable& v = variables_[variable];
  const std::size_t begin = gradients_.room_taken(v.is_double());
  gradients_.take_room(variable);
  if (v.has_rows()) gradients_.take_room_for_rows(variable);
  if (buckets_.empty() || buckets_.back().is_double != v.is_double() ||
      (are_small_ && buckets_.back().bytes >= bucket_bytes))
    buckets_.push_back({v.is_double(), begin, 0});
  bucket& of = buckets_.back();
  of.bytes = gradients_.room_taken(v.is_double()) - of.begin;
  ++of.variables;
  bucket_of_[variable] = buckets_.size() - 1;
}

WEFT_DISTRIBUTED_DECL void gradient_buckets::begin_step() {
  complete_ = 0;
  for (bucket& each : buckets_) each.missing = each.variables;
}

WEFT_DISTRIBUTED_DECL std::size_t gradient_buckets::note(std::size_t variable) {
  if (!comes_late(variable)) --buckets_[bucket_of_[variable]].missing;
  while (complete_ < buckets_.size() && buckets_[complete_].missing == 0) ++complete_;
  return complete_;
}

WEFT_DISTRIBUTED_DECL void gradient_buckets::keep(std::size_t k) {
  const bucket& b = buckets_[k];
  const mutable_bytes block = gradients_.block(b.is_double);
  if (block.empty()) return;
  std::vector<std::byte>& to = kept_[b.is_double];
  if (to.size() < block.size()) to.resize(block.size());
  std::copy_n(block.data() + b.begin, b.bytes, to.data() + b.begin);
}

WEFT_DISTRIBUTED_DECL void gradient_buckets::bring_back() {
  for (const bool is_double : {false, true}) {
    const mutable_bytes block = gradients_.block(is_double);
    std::copy_n(kept_[is_double].data(), std::min(kept_[is_double].size(), block.size()), block.data());
  }
}

#endif

}  // namespace weft::detail
