// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <string>

#include <weft/distributed/membership/loss_policy.hpp>
#include <weft/error.hpp>

namespace weft {

/// When gradients are applied: each on arrival, or once per step as the mean over all workers.
enum class consistency : std::uint8_t { asynchronous = 1, synchronous = 2 };

/// A consistency mode and its bound: how many gradients a synchronous step can omit, or how many steps an asynchronous
/// worker may be ahead of another.
struct consistency_model {
  consistency mode;
  int backups;    // synchronous: number of gradients for which a step does not wait
  int staleness;  // asynchronous: maximum number of steps ahead of the slowest worker; negative: unbounded

  constexpr consistency_model(consistency of, int backup_workers = 0, int max_staleness = -1)
      : mode(of), backups(backup_workers), staleness(max_staleness) {}

  friend bool operator==(const consistency_model&, const consistency_model&) = default;
};

/// The terms of training by parameter servers, on which all workers of a cluster agree.
struct training_terms {
  consistency_model model;
  loss_policy on_loss = {};
  bool skips_nonfinite = false;  // synchronous: a mean that is not finite changes nothing (train/loss_scale.hpp)

  training_terms(consistency_model of, loss_policy policy = {}) : model(of), on_loss(policy) {}
  training_terms(consistency of) : model(of) {}

  bool is_synchronous() const { return model.mode == consistency::synchronous; }
  /// Returns true if parameter server 0 decides whose gradients make a step. Otherwise each step takes the gradients of
  /// all workers.
  bool has_decisions() const { return is_synchronous() && (model.backups > 0 || on_loss != loss_policy{}); }
  /// Returns true if the other workers compute the gradients of a lost worker.
  bool takes_over() const { return is_synchronous() && on_loss.then == loss_action::take_over; }
  bool bounds_staleness() const { return !is_synchronous() && model.staleness >= 0; }

  friend bool operator==(const training_terms&, const training_terms&) = default;
};

/// Describes the terms, for example "synchronous with 1 backup worker; waits 30000 ms for a lost worker, then shrinks".
inline std::string to_string(const training_terms& terms) {
  std::string text = terms.is_synchronous() ? "synchronous" : "asynchronous";
  if (terms.model.backups > 0)
    append(text, {" with ", terms.model.backups, terms.model.backups == 1 ? " backup worker" : " backup workers"});
  if (terms.bounds_staleness()) append(text, {" with a staleness of at most ", terms.model.staleness});
  if (terms.on_loss != loss_policy{}) append(text, {"; ", detail::policy_words(terms.on_loss)});
  if (terms.skips_nonfinite) append(text, {"; skips steps whose gradients are not finite"});
  return text;
}

namespace detail {

/// Throws weft::error (invalid_argument) if this number of workers cannot train by these terms.
inline void check_terms(const training_terms& terms, int workers) {
  if (terms.model.backups < 0 || (terms.model.backups > 0 && terms.model.backups >= workers))
    throw error(error_code::invalid_argument, "parameter_client",
                {"the number of backup workers must be from 0 to ", workers - 1, " with ", workers, " workers; it is ",
                 terms.model.backups, "; start more workers, or use fewer backups"});
  check_loss_policy(terms.on_loss, "parameter_client");
  if (terms.on_loss.then == loss_action::take_over && (!terms.is_synchronous() || terms.model.backups > 0))
    throw error(error_code::invalid_argument, "parameter_client",
                "loss_action::take_over repeats the computation of a lost worker, which requires "
                "parameter_server<synchronous> without backups; use stop or shrink");
}

}  // namespace detail
}  // namespace weft
