#pragma once

// The functions of clusters that files with WEFT_SEPARATE_DISTRIBUTED defined leave out: included by one source file of
// a program, which is compiled with that macro, too.
#define WEFT_DISTRIBUTED_SOURCE

#include <weft/distributed.hpp>
#include <weft/distributed/cluster/environment.hpp>

namespace weft {

template class basic_server<tcp>;

namespace detail {

template std::unique_ptr<exchange<std::chrono::steady_clock>> make_server_exchange<synchronous>(
    basic_server<tcp>&, shared_variables&, const training_terms&, const rollback_handler&, const graph_identity&,
    deadline);
template std::unique_ptr<exchange<std::chrono::steady_clock>> make_server_exchange<asynchronous>(
    basic_server<tcp>&, shared_variables&, const training_terms&, const rollback_handler&, const graph_identity&,
    deadline);
template std::unique_ptr<exchange<std::chrono::steady_clock>> make_all_reduce_exchange(basic_server<tcp>&,
                                                                                       shared_variables&,
                                                                                       const collective&,
                                                                                       const graph_identity&, deadline);

}  // namespace detail

}  // namespace weft
