#pragma once

// Parameter servers, all of it: what they hold and how it is updated, the serving side (server::join) and the workers'
// side.
#include <weft/distributed/exactly_once.hpp>
#include <weft/distributed/parameter_client.hpp>
#include <weft/distributed/parameter_service.hpp>
#include <weft/distributed/parameter_store.hpp>
#include <weft/distributed/server.hpp>
#include <weft/distributed/update_rule.hpp>
#include <weft/distributed/variables.hpp>
