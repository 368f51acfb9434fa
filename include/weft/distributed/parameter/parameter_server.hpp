// SPDX-License-Identifier: BSL-1.0
#pragma once

// Everything about parameter servers: their storage and update rules, the server (server::join), and the client of the
// workers.
#include <weft/distributed/membership/task_server.hpp>
#include <weft/distributed/parameter/parameter_client.hpp>
#include <weft/distributed/parameter/parameter_service.hpp>
#include <weft/distributed/parameter/parameter_spec.hpp>
#include <weft/distributed/parameter/parameter_store.hpp>
#include <weft/distributed/parameter/replay_window.hpp>
#include <weft/distributed/parameter/update_rule.hpp>
