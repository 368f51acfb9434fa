// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include <weft/ops/operation.hpp>
#include <weft/tensor/sequence.hpp>

namespace weft::plan {

/// The untyped request of a step: fetched values, nodes to run for their effect, and fed values.
struct step_request {
  sequence<value> fetches;
  sequence<std::uint32_t> targets;
  sequence<value> feeds;
};

/// A fed value: the address of its elements, and its extents.
struct fed_value {
  const void* data;
  shape extents;
};

}  // namespace weft::plan
