// SPDX-License-Identifier: BSL-1.0
#pragma once

// All optimizers: train/optimizers.hpp, which weft.hpp includes, and the optimizers with separate headers.
#include <weft/train/adadelta.hpp>
#include <weft/train/adagrad.hpp>
#include <weft/train/adamax.hpp>
#include <weft/train/adamw.hpp>
#include <weft/train/amsgrad.hpp>
#include <weft/train/ftrl.hpp>
#include <weft/train/lamb.hpp>
#include <weft/train/lars.hpp>
#include <weft/train/nadam.hpp>
#include <weft/train/nesterov_momentum.hpp>
#include <weft/train/proximal_adagrad.hpp>
#include <weft/train/proximal_gradient_descent.hpp>
#include <weft/train/rmsprop.hpp>
