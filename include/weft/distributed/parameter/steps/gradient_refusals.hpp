// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <string>

#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/parameter/parameter_store.hpp>
#include <weft/error.hpp>

namespace weft::detail {

// The errors with which a parameter server refuses an update.

/// The error for gradients of `worker` that are not finite `at` some element.
inline error nonfinite_refusal(const std::string& worker, const parameter_store& store,
                               const parameter_store::nonfinite& at, std::int64_t step) {
  return nonfinite_gradient("parameter_server", worker, store.variables()[at.variable].name, at.element, step);
}

/// The error for finite gradients whose mean is not finite.
inline error nonfinite_mean_refusal(std::int64_t step) {
  return error(error_code::invalid_argument, "parameter_server",
               {"the mean of the workers' gradients is not finite in step ", step,
                ", although each gradient is finite; lower the learning rate"});
}

/// The error for a worker that has skipped a step of synchronous training.
inline error ahead_refusal(const std::string& worker, std::int64_t step, const std::string& other, std::int64_t its) {
  return error(error_code::aborted, "push_pull",
               {worker, " is at step ", step, ", but ", other, " is at step ", its,
                "; in synchronous mode all workers must take the same steps: repeat the step that failed"});
}

/// The error for an update of variables that have no values yet.
inline error uninitialised_refusal() {
  return error(error_code::failed_precondition, "parameter_server",
               "the variables have no values yet; call initialise first");
}

}  // namespace weft::detail
