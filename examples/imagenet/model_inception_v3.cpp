// SPDX-License-Identifier: BSL-1.0
#include "build_network.hpp"
#include "inception.hpp"

std::unique_ptr<imagenet::network> imagenet::make_inception_v3(const network_options& how) {
  return std::make_unique<network_of<inception_v3<1000>, 299, 1000>>(how);
}
