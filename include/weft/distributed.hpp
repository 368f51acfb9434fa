// SPDX-License-Identifier: BSL-1.0
#pragma once

// Everything for single processes and clusters.

#include <weft/config.hpp>

#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/distributed/membership/server.hpp>
#include <weft/distributed/training/replicated_session.hpp>
#include <weft/transport/in_process.hpp>
#include <weft/transport/tcp.hpp>
#include <weft/weft.hpp>
