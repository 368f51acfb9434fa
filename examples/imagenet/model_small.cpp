// SPDX-License-Identifier: BSL-1.0
#include "build_network.hpp"
#include "resnet.hpp"

std::unique_ptr<imagenet::network> imagenet::make_small(const network_options& how) {
  return std::make_unique<network_of<resnet18<10, 8>, 64, 10>>(how);
}
