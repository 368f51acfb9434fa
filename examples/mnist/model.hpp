#pragma once

#include <cstdint>
#include <functional>

#include <weft/weft.hpp>

#include "../optimizers.hpp"
#include "flags.hpp"

/// A replica_device_setter, or another function that says where a variable lives.
using variable_placement = std::function<weft::device_spec(const weft::placement_query&)>;

/// The model. The width of the hidden layer is an extent with a name: the compiler checks that all who share it agree,
/// and the flag gives it its value before the variables are made. For GPUs its source alone is nvcc's: it has the
/// expressions that become kernels.
struct classifier {
  weft::graph g;
  weft::node<float, weft::dims<weft::dyn<"batch">, 784>> images;
  weft::node<std::int32_t, weft::dims<weft::dyn<"batch">>> labels;
  weft::node<float, weft::dims<weft::dyn<"batch">, 10>> logits;
  weft::node<float> loss, accuracy;
  training train;

  /// `place` says where variables live: a device_spec of this process, or a variable_placement on the parameter
  /// servers. `steps`: of the whole run.
  template <class Place>
  classifier(const flags& f, std::int64_t steps, const Place& place);

 private:
  template <class Place>
  weft::node<float, weft::dims<weft::dyn<"batch">, 10>> two_layers(std::int64_t hidden_units, const Place& place);
};
