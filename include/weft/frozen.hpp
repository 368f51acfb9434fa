// SPDX-License-Identifier: BSL-1.0
#pragma once

/// The kernels of frozen models: headers that `freeze` (session/freeze.hpp) writes include the parts that they need.
/// They are the CPU kernels of sessions, need only the C++ standard library, allocate nothing, and work without
/// exceptions and without run-time type information.

#include <weft/frozen/attention.hpp>
#include <weft/frozen/copy.hpp>
#include <weft/frozen/image.hpp>
#include <weft/frozen/map.hpp>
#include <weft/frozen/product.hpp>
#include <weft/frozen/reduce.hpp>
#include <weft/frozen/rows.hpp>
