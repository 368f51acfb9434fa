// SPDX-License-Identifier: BSL-1.0
#pragma once

// Layers: dense<10>, conv2d<5, 32>, sequential(...). For a single process, include <weft/weft.hpp> as well.

#include <weft/nn/activation.hpp>
#include <weft/nn/attention.hpp>
#include <weft/nn/batch_norm.hpp>
#include <weft/nn/convolution.hpp>
#include <weft/nn/dense.hpp>
#include <weft/nn/dropout.hpp>
#include <weft/nn/embedding.hpp>
#include <weft/nn/layer.hpp>
#include <weft/nn/model.hpp>
#include <weft/nn/normalization.hpp>
#include <weft/nn/pooling.hpp>
#include <weft/nn/sequential.hpp>
#include <weft/nn/visit.hpp>
