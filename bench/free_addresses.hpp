// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <vector>

#include <weft/transport/tcp.hpp>

namespace bench {

/// Addresses on loopback that are free now, separated by commas.
inline std::string free_addresses(int count) {
  weft::tcp network;
  std::vector<weft::tcp::listener> held;
  std::string text;
  for (int i = 0; i < count; ++i) {
    held.push_back(network.listen({"127.0.0.1", 0}));
    text += (i ? "," : "") + to_string(held.back().address());
  }
  return text;
}

}  // namespace bench
