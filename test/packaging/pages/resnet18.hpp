// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/nn.hpp>
#include <weft/weft.hpp>

/// A small model in place of the header that docs/how-to/onnx.md imports.
namespace resnet18 {

using namespace weft;

using images_dims = dims<dyn<"batch">, 224, 224, 3>;

struct model {
  nn::conv2d<7, 64, conv2d_options{.stride = 2, .pad = padding::of(3)}> conv1;
  nn::dense<1000> fc;

  auto operator()(const auto& images) const { return let(fc(mean<1, 2>(relu(conv1(images))))); }
};

}  // namespace resnet18
