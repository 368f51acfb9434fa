// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <weft/train/hooks.hpp>
#include <weft/train/moving_average.hpp>
#include <weft/weft.hpp>

#include "images.hpp"
#include "network.hpp"

namespace imagenet {

/// Shares of images whose label is the largest logit, or among the five largest.
struct accuracies {
  double top_1 = 0, top_5 = 0;
};

accuracies measure(weft::session& s, const network& net, const image_source& images, std::size_t batch);

/// The moving averages of a network's variables, by which its accuracy is measured. Made before the sessions, in the
/// process that measures it.
class averaged_network {
 public:
  /// Without averages where the decay is 0.
  averaged_network(network& net, double decay);

  /// Returns the hooks that update the averages after each step. `s` is the session of this process.
  std::vector<weft::hook> hooks(weft::session& s) const;
  /// Begins the averages anew, from what the variables are.
  void restart(weft::session& s) const;
  /// Gives a session for tests the averages of a session that trains.
  void copy(weft::session& from, weft::session& to) const;

 private:
  network& net_;
  std::optional<weft::moving_averages> averages_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> nodes_;  // a variable, and what tests take for it
};

}  // namespace imagenet
