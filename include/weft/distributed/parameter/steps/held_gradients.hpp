// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <weft/distributed/parameter/parameter_store.hpp>
#include <weft/distributed/parameter/row_lists.hpp>
#include <weft/distributed/parameter/steps/gradient_mean.hpp>
#include <weft/transport/aligned_bytes.hpp>
#include <weft/transport/frame.hpp>

namespace weft::detail {

/// One worker's gradients of one step, kept until the step is made. They outlive the connection and the process that
/// sent them. Gradients in shared memory are copied, because the worker may overwrite them.
class held_gradients {
 public:
  /// The step of the gradients; -1: there are none.
  std::int64_t step() const { return step_; }
  bool are_of(std::int64_t step) const { return step_ == step; }
  /// How many gradients have been taken.
  std::uint64_t arrivals() const { return arrivals_; }
  /// The number of examples of which the gradients are the mean; 0: they are not used.
  std::uint32_t weight() const { return weight_; }
  /// Returns true if the worker stops after the step.
  bool stops() const { return stops_; }

  /// Takes the gradients from a complete request.
  template <typename Connection>
  void take(Connection& from, const parameter_store& store) {
    const frame_header& asked = from.request();
    if (from.uses_segment()) {
      if (whole_.size() != store.gradient_bytes()) whole_ = aligned_bytes(store.gradient_bytes());
      store.pack(from.gradients(store), whole_);
    }
    is_copy_ = from.uses_segment();
    from.swap_payload(payload_, rows_);
    step_ = asked.step;
    ++arrivals_;
    weight_ = asked.weight;
    stops_ = (asked.flags & stopping) != 0;
  }
  void drop() { step_ = -1; }

  placed_gradients gradients(const parameter_store& store) const {
    const aligned_bytes& at = is_copy_ ? whole_ : payload_;
    placed_gradients placed = store.packed({at.data(), at.size()});
    placed.rows = rows_;
    return placed;
  }

 private:
  std::int64_t step_ = -1;
  std::uint64_t arrivals_ = 0;
  std::uint32_t weight_ = 0;
  bool stops_ = false, is_copy_ = false;
  aligned_bytes payload_, whole_;  // as received; copy of whole variables from shared memory
  std::vector<row_list> rows_;     // in payload_
};

}  // namespace weft::detail
