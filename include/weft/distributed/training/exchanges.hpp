// SPDX-License-Identifier: BSL-1.0
#pragma once

// The exchanges of gradients and the parameter servers, which weft::compiled_distributed contains for tcp. Files that
// define WEFT_SEPARATE_DISTRIBUTED include this header if they use another transport, nccl_collective or
// mpi_collective.

#include <weft/distributed/collective/all_reduce.hpp>
#include <weft/distributed/parameter/parameter_server.hpp>
#include <weft/distributed/training/elastic_exchange.hpp>
#include <weft/distributed/training/server_exchange.hpp>
