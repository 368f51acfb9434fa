// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <functional>

#include <weft/weft.hpp>

/// A replica_device_setter, or another function that says where a variable lives.
using variable_placement = std::function<weft::device_spec(const weft::placement_query&)>;
