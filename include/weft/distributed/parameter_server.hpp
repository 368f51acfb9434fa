#pragma once

// Parameter servers, all of it: what they hold and how it is updated, the serving side (server::join) and the workers'
// side.
#include "exactly_once.hpp"
#include "parameter_client.hpp"
#include "parameter_service.hpp"
#include "parameter_store.hpp"
#include "server.hpp"
#include "update_rule.hpp"
#include "variables.hpp"
