// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <weft/device/cpu/vector_loops.hpp>
#include <weft/distributed/collective/all_reduce.hpp>
#include <weft/distributed/membership/views/view.hpp>
#include <weft/distributed/training/gradient_buffers.hpp>
#include <weft/distributed/training/shared_variables.hpp>
#include <weft/distributed/training/strategy.hpp>
#include <weft/error.hpp>

namespace weft::detail {

WEFT_COLD_BEGIN

/// Computes the gradients of replica `of.index` in the session of worker `own`, as the replica's own process would:
/// with its random stream, and from the variables as they were before the step. Restores the local variables of this
/// worker; the lost worker's local variables are lost. Returns the number of examples that the gradients average.
/// Throws weft::error (failed_precondition) without `work`, and any error of the program's function.
inline std::uint32_t compute_replica(shared_variables& variables, int own, const replica& of,
                                     const replica_work* work) {
  if (!work)
    throw error(error_code::failed_precondition, "exchange",
                {"the gradients of replica ", of.index, " must be computed for step ", of.step,
                 "; call run() again with a function that returns the batches of any replica"});
  const graph& g = variables.of();
  session& local = variables.local();
  std::vector<std::pair<std::uint32_t, storage>> kept;
  for (std::uint32_t n = 0; n < g.size(); ++n) {
    if (!is_operation<variable_op>(g[n].def.op) || !local.state_of(n).initialized) continue;
    const variable_kind kind = kind_of(g[n].def);
    if (kind != variable_kind::local && kind != variable_kind::slot) continue;
    kept.emplace_back(n, storage(local.variable_info(n).bytes()));
    local.read_variable(n, kept.back().second.data());
  }
  struct restore {
    shared_variables& variables;
    const std::vector<std::pair<std::uint32_t, storage>>& kept;
    int own;
    std::int64_t position;
    ~restore() {
      session& local = variables.local();
      for (const auto& [n, value] : kept) local.write_variable(n, value.data());
      variables.reset_averaged();
      variables.set_counters();
      local.set_random_stream(own);
      local.set_step_number(position);
    }
  } after{variables, kept, own, local.step_number()};
  variables.reset_averaged();
  variables.set_counters();
  local.set_random_stream(of.index);
  local.set_step_number(of.step);
  return work->compute(work->self, of);
}

/// The gradients that replicas contribute to an update of an all-reduce with loss_action::take_over. A worker keeps its
/// own part and the parts that it computes for lost workers, so that an exchange can be repeated with other members.
/// The workers announce their parts to each other.
class replica_parts {
 public:
  explicit replica_parts(int replicas)
      : parts_(static_cast<std::size_t>(replicas)), said_(words * static_cast<std::size_t>(replicas) + 2) {}

  int replicas() const { return static_cast<int>(parts_.size()); }
  bool has(int replica, std::int64_t step) const { return at(replica).step == step; }
  /// Copies the gradients of a step from `from`. `examples`: the number of examples that they average; 0: the gradients
  /// are not used.
  void keep(int replica, std::int64_t step, std::uint32_t examples, const gradient_buffers& from);
  /// Copies a part back into the buffers.
  void copy_to(int replica, const gradient_buffers& to) const;
  void drop() {
    for (part& each : parts_) each.step = -1;
  }

  /// Writes the announcement of member `self` for update `step` to said(). The sum over all members contains all
  /// announcements, and the functions below read it.
  void announce(const training_view& view, int self, std::int64_t step, bool stops, bool admits, bool trains);
  std::span<double> said() { return said_; }
  double examples(int replica) const { return said_of(replica)[0]; }
  bool stops(int worker) const { return said_of(worker)[3] > 0; }
  bool admits() const { return said_.end()[-2] > 0; }
  bool anybody_trains() const { return said_.back() > 0; }
  /// Returns the lowest replica whose gradients are used and not finite, and the first such element in its block; -1 if
  /// there is none.
  std::pair<int, std::size_t> first_nonfinite(bool is_double) const;

  /// Returns the sum of all replicas' examples in multiples of `unit`.
  double weights(double unit) const {
    double sum = 0;
    for (int r = 0; r < replicas(); ++r) sum += examples(r) / unit;
    return sum;
  }
  /// Returns the rank that adds the gradients of each replica whose gradients are used, in the order of the replicas.
  std::vector<std::size_t> ranks(const training_view& view) const {
    std::vector<std::size_t> all;
    for (int r = 0; r < replicas(); ++r) {
      if (examples(r) <= 0) continue;
      std::size_t rank = 0;
      while (view.members[rank].index != view.owner_of(r)) ++rank;
      all.push_back(rank);
    }
    return all;
  }
  /// Returns the arrays that member `self` adds to the sum of an element type's blocks, in the order of the replicas.
  template <typename Element>
  std::vector<weighted_array<Element>> arrays(const training_view& view, int self, std::int64_t step,
                                              double unit) const {
    std::vector<weighted_array<Element>> all;
    for (int r = 0; r < replicas(); ++r)
      if (view.owner_of(r) == self && has(r, step) && at(r).examples > 0)
        all.push_back({reinterpret_cast<const Element*>(at(r).bytes[sizeof(Element) == sizeof(double)].data()),
                       static_cast<Element>(at(r).examples / unit)});
    return all;
  }

 private:
  // For each replica: its examples; for each of the two blocks, one plus the index of the first element that is not
  // finite; 1 if it stops. At the end: positive if a newcomer waits; the number of workers that train.
  static constexpr std::size_t words = 4;

  struct part {
    std::int64_t step = -1;
    std::uint32_t examples = 0;
    std::size_t nonfinite[2] = {0, 0};  // by block (float, double): one plus the index of the first such element; 0:
                                        // none
    storage bytes[2];
  };

  const part& at(int replica) const { return parts_[static_cast<std::size_t>(replica)]; }
  const double* said_of(int replica) const { return said_.data() + words * static_cast<std::size_t>(replica); }

  std::vector<part> parts_;
  std::vector<double> said_;
};

inline void replica_parts::keep(int replica, std::int64_t step, std::uint32_t examples, const gradient_buffers& from) {
  part& to = parts_[static_cast<std::size_t>(replica)];
  to.step = step;
  to.examples = examples;
  for (const bool is_double : {false, true}) {
    to.nonfinite[is_double] = 0;
    const mutable_bytes block = from.block(is_double);
    if (examples == 0 || block.empty()) continue;
    if (to.bytes[is_double].bytes() != block.size()) to.bytes[is_double] = storage(block.size());
    std::copy_n(block.data(), block.size(), to.bytes[is_double].data());
    const auto look = [&]<class Element>(std::span<const Element> all) {
      const std::size_t bad = weft::detail::first_nonfinite(all.data(), all.size());
      if (bad < all.size()) to.nonfinite[is_double] = bad + 1;
    };
    is_double ? look(std::span<const double>(from.block<double>())) : look(std::span<const float>(from.block<float>()));
  }
}

inline void replica_parts::copy_to(int replica, const gradient_buffers& to) const {
  const part& its = at(replica);
  if (its.examples == 0) return;
  for (const bool is_double : {false, true})
    if (const mutable_bytes block = to.block(is_double); !block.empty())
      std::copy_n(its.bytes[is_double].data(), block.size(), block.data());
}

inline void replica_parts::announce(const training_view& view, int self, std::int64_t step, bool stops, bool admits,
                                    bool trains) {
  std::fill(said_.begin(), said_.end(), 0.0);
  for (int r = 0; r < replicas(); ++r) {
    if (view.owner_of(r) != self || !has(r, step)) continue;
    double* const word = said_.data() + words * static_cast<std::size_t>(r);
    word[0] = at(r).examples;
    for (const std::size_t k : {0u, 1u}) word[1 + k] = static_cast<double>(at(r).nonfinite[k]);
  }
  said_[words * static_cast<std::size_t>(self) + 3] = stops;
  said_.end()[-2] = admits;
  said_.back() = trains;
}

inline std::pair<int, std::size_t> replica_parts::first_nonfinite(bool is_double) const {
  for (int r = 0; r < replicas(); ++r)
    if (const double found = said_of(r)[1 + is_double]; examples(r) > 0 && found >= 1)
      return {r, static_cast<std::size_t>(found) - 1};
  return {-1, 0};
}

WEFT_COLD_END

}  // namespace weft::detail
