// SPDX-License-Identifier: BSL-1.0
#include "build_network.hpp"
#include "resnet.hpp"

std::unique_ptr<imagenet::network> imagenet::make_resnet18(const network_options& how) {
  return std::make_unique<network_of<resnet18<1000>, 224, 1000>>(how);
}
