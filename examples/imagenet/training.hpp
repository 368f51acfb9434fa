// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "flags.hpp"

namespace imagenet {

/// Trains by the flags, in this process alone or as a task of a cluster, and reports.
void train(const flags& f);

}  // namespace imagenet
