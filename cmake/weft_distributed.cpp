// SPDX-License-Identifier: BSL-1.0
#include <weft/distributed_source.hpp>
