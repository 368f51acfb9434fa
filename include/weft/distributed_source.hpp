#pragma once

// The functions of clusters that files with WEFT_SEPARATE_DISTRIBUTED defined leave out: included by one source file of
// a program, which is compiled with that macro, too.
#define WEFT_DISTRIBUTED_SOURCE

#include <weft/distributed.hpp>
#include <weft/distributed/cluster/environment.hpp>
#include <weft/distributed/remote/graph_client.hpp>
#include <weft/distributed/remote/graph_service.hpp>

// join() needs the parameter servers, which stand above basic_server's header.
template class weft::basic_server<weft::tcp>;
