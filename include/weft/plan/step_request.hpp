#pragma once

#include <cstdint>

#include <weft/ops/operation.hpp>
#include <weft/tensor/sequence.hpp>

namespace weft::plan {

/// The request for what a step computes, without its types: fetched values, nodes run for their effect, and fed values.
struct step_request {
  sequence<value> fetches;
  sequence<std::uint32_t> targets;
  sequence<value> feeds;
};

/// A value on its way into a step: where its elements are, and their extents.
struct fed_value {
  const void* data;
  shape extents;
};

}  // namespace weft::plan
