// SPDX-License-Identifier: BSL-1.0
#pragma once

// The definitions of cluster functions that files with WEFT_SEPARATE_DISTRIBUTED leave out. Include this header in one
// source file of the program, and compile that file with WEFT_SEPARATE_DISTRIBUTED as well.
#define WEFT_DISTRIBUTED_SOURCE

#include <weft/distributed.hpp>
#include <weft/distributed/cluster/environment.hpp>
#include <weft/distributed/remote/graph_client.hpp>
#include <weft/distributed/remote/graph_service.hpp>

// join() needs the parameter servers, which are in a layer above basic_server's header.
template class weft::basic_server<weft::tcp>;
WEFT_DISTRIBUTED_INSTANTIATE(weft::basic_server<weft::tcp>::basic_server(const weft::task_environment&,
                                                                         weft::server_options, weft::tcp));
