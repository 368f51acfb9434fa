#pragma once

// How replicated sessions exchange gradients, and what serves parameters: what weft::compiled_distributed has compiled
// for tcp. A file that defines WEFT_SEPARATE_DISTRIBUTED and uses another transport, nccl_collective or mpi_collective
// includes it.

#include <weft/distributed/collective/all_reduce.hpp>
#include <weft/distributed/parameter/parameter_server.hpp>
#include <weft/distributed/training/all_reduce_exchange.hpp>
#include <weft/distributed/training/server_exchange.hpp>
