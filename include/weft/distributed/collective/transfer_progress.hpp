// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <weft/distributed/collective/reduce_algorithms.hpp>

namespace weft::detail {

/// The progress of one rank in a schedule: the next chunk to send, and the destination of the next one to receive.
/// Ranges travel in chunks, one after another. A chunk can leave as soon as the chunks that it depends on have arrived,
/// so sending, receiving and adding overlap. Each chunk carries a weight: the sum of the weights of the arrays in it.
class transfer_progress {
 public:
  /// Begins a schedule. `chunk`: the largest number of elements in a message. `weight`: the weight of the rank's own
  /// array.
  void begin(transfer_schedule schedule, std::size_t chunk, double weight) {
    schedule_ = std::move(schedule);
    chunk_ = chunk;
    own_ = weight;
    weights_.assign(schedule_.steps.size(), 0);
    out_ = in_ = {};
    skip(out_, &transfer_step::to);
    skip(in_, &transfer_step::from);
  }

  bool is_complete() const { return !sends() && !receives(); }

  // ---- sending ----

  bool sends() const { return out_.step < schedule_.steps.size(); }
  std::size_t to() const { return schedule_.steps[out_.step].to; }
  element_range chunk_to_send() const { return chunk_of(out_, schedule_.steps[out_.step].sends); }

  /// Returns true if the chunk has its final contents.
  bool may_send() const {
    const transfer_step& step = schedule_.steps[out_.step];
    if (step.sends_from != transfer_step::never && !has_weight(step.sends_from)) return false;
    for (std::size_t i = in_.step; i < out_.step; ++i)
      if (schedule_.steps[i].from != transfer_step::nobody &&
          rest_of(in_, i, schedule_.steps[i].receives).overlaps(chunk_to_send()))
        return false;
    return true;
  }
  double weight_to_send() const { return weight_after(schedule_.steps[out_.step].sends_from); }

  /// Called when the chunk has left and its memory can change.
  void sent() { next(out_, schedule_.steps[out_.step].sends, &transfer_step::to); }

  // ---- receiving ----

  bool receives() const { return in_.step < schedule_.steps.size(); }
  std::size_t from() const { return schedule_.steps[in_.step].from; }
  element_range chunk_to_receive() const { return chunk_of(in_, schedule_.steps[in_.step].receives); }
  bool adds() const { return schedule_.steps[in_.step].adds; }

  /// Returns true if the destination of the chunk can change: no unsent data is there.
  bool may_take_in() const {
    for (std::size_t i = out_.step; i <= in_.step && i < schedule_.steps.size(); ++i)
      if (schedule_.steps[i].to != transfer_step::nobody &&
          rest_of(out_, i, schedule_.steps[i].sends).overlaps(chunk_to_receive()))
        return false;
    return true;
  }

  /// Called when the chunk has been stored at its destination.
  void received(double weight) {
    const transfer_step& step = schedule_.steps[in_.step];
    weights_[in_.step] = step.adds ? weight_after(step.adds_to) + weight : weight;
    next(in_, step.receives, &transfer_step::from);
  }

  /// Returns the weight of the result of a complete schedule.
  double weight() const { return weight_after(schedule_.result); }

 private:
  struct cursor {
    std::size_t step = 0, done = 0;  // `done`: elements of the step's range
  };

  element_range chunk_of(const cursor& at, const element_range& range) const {
    return {range.begin + at.done, std::min(range.begin + at.done + chunk_, range.end)};
  }
  /// Returns the elements of step `i` that remain, where `i` is the step of `at` or a later one.
  static element_range rest_of(const cursor& at, std::size_t i, const element_range& range) {
    return {range.begin + (i == at.step ? at.done : 0), range.end};
  }

  void next(cursor& at, const element_range& range, std::size_t transfer_step::* peer) {
    at.done += chunk_of(at, range).size();
    if (at.done < range.size()) return;
    at = {at.step + 1, 0};
    skip(at, peer);
  }
  void skip(cursor& at, std::size_t transfer_step::* peer) const {
    while (at.step < schedule_.steps.size() && schedule_.steps[at.step].*peer == transfer_step::nobody) ++at.step;
  }

  bool has_weight(std::size_t step) const { return in_.step > step || (in_.step == step && in_.done > 0); }
  double weight_after(std::size_t step) const { return step == transfer_step::never ? own_ : weights_[step]; }

  transfer_schedule schedule_;
  std::size_t chunk_ = 1;
  double own_ = 1;
  std::vector<double> weights_;  // by step: the weight of its range after the step
  cursor out_, in_;
};

}  // namespace weft::detail
