#pragma once

// Parameter servers, all of it: what they hold and how it is updated, the serving side (server::join) and the workers'
// side.
#include <weft/distributed/membership/task_server.hpp>
#include <weft/distributed/parameter/parameter_client.hpp>
#include <weft/distributed/parameter/parameter_service.hpp>
#include <weft/distributed/parameter/parameter_spec.hpp>
#include <weft/distributed/parameter/parameter_store.hpp>
#include <weft/distributed/parameter/replay_window.hpp>
#include <weft/distributed/parameter/update_rule.hpp>
