#pragma once

// Everything for one process, and clusters of them.

#include <weft/weft.hpp>
#include <weft/distributed/all_reduce.hpp>
#include <weft/distributed/cluster_spec.hpp>
#include <weft/distributed/parameter_server.hpp>
#include <weft/distributed/replicated_session.hpp>
#include <weft/distributed/server.hpp>
#include <weft/transport/in_process.hpp>
#include <weft/transport/tcp.hpp>
