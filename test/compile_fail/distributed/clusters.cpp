// SPDX-License-Identifier: BSL-1.0
#include <vector>

#include <weft/distributed.hpp>
#include <weft/distributed/cluster/environment.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case cluster_of_list: Addresses without a job.
// error: \{\{"ps", "a:1"\}, \{"worker", \{"b:1", "c:1"\}\}\}
cluster_spec cluster{"127.0.0.1:2222", "127.0.0.1:2223"};                      // wrong
cluster_spec cluster{{"ps", "127.0.0.1:2222"}, {"worker", "127.0.0.1:2223"}};  // right

// case environment_misspelt: A misspelt option of from_environment().
// error: of environment_options in distributed/cluster/environment\.hpp
auto here = cluster_spec::from_environment({.servers = 1});  // wrong
auto here = cluster_spec::from_environment({});              // right

// case parameter_server_of_nothing: The consistency is missing.
// error: parameter_server: name how gradients are applied
const cluster_spec cluster{{"ps", "127.0.0.1:2222"}, {"worker", "127.0.0.1:2223"}};
server here(cluster, "worker", 0);
graph g;
replicated_session s(g, here, parameter_server{});               // wrong
replicated_session s(g, here, parameter_server<synchronous>{});  // right

// case replicated_fed_vector: A std::vector is fed.
// error: fed_value_is_not_a_tensor
// error: std::vector<float
// error: a step takes a tensor, tensor_view\(pointer
cluster_spec cluster{{"ps", "127.0.0.1:2222"}, {"worker", "127.0.0.1:2223"}};
server here(cluster, "worker", 0);
graph g;
auto w = variable<float>(g, "w");
auto x = placeholder<float>(g, "x");
auto loss = w * x;
auto train = gradient_descent{}.minimize(loss);
replicated_session s(g, here, parameter_server<synchronous>{});
auto step = s.prepare(fetch(loss, train), feed(x));
std::vector<float> values(3);
step(values);     // wrong
step(values[0]);  // right

// case replicated_options: Options instead of the strategy.
// error: replicated_session_is_not_made_of
// error: replicated_session: write replicated_session s\(graph, server
cluster_spec cluster{{"ps", "127.0.0.1:2222"}, {"worker", "127.0.0.1:2223"}};
server here(cluster, "worker", 0);
graph g;
replicated_session s(g, here, session_options{.threads = 2});                    // wrong
replicated_session s(g, here, parameter_server<synchronous>{}, {.threads = 2});  // right

// case replicated_prepare: A node without fetch().
// error: arguments_are_not_fetch_and_feed
// error: prepare: takes two lists: prepare\(fetch\(loss, train\), feed\(images
cluster_spec cluster{{"ps", "127.0.0.1:2222"}, {"worker", "127.0.0.1:2223"}};
server here(cluster, "worker", 0);
graph g;
auto w = variable<float>(g, "w");
auto x = placeholder<float>(g, "x");
auto loss = w * x;
auto train = gradient_descent{}.minimize(loss);
replicated_session s(g, here, parameter_server<synchronous>{});
auto step = s.prepare(loss, feed(x));                // wrong
auto step = s.prepare(fetch(loss, train), feed(x));  // right

// case replicated_run: run(), as in a session.
// error: no member named 'run'
cluster_spec cluster{{"ps", "127.0.0.1:2222"}, {"worker", "127.0.0.1:2223"}};
server here(cluster, "worker", 0);
graph g;
auto w = variable<float>(g, "w");
auto x = placeholder<float>(g, "x");
auto loss = w * x;
auto train = gradient_descent{}.minimize(loss);
replicated_session s(g, here, parameter_server<synchronous>{});
s.run(fetch(loss, train), with(x, 1.0f));            // wrong
auto step = s.prepare(fetch(loss, train), feed(x));  // right
step(1.0f);                                          // right

// case replicated_swapped: The server comes before the graph.
// error: replicated_session_is_not_made_of
// error: replicated_session: write replicated_session s\(graph, server
cluster_spec cluster{{"ps", "127.0.0.1:2222"}, {"worker", "127.0.0.1:2223"}};
server here(cluster, "worker", 0);
graph g;
replicated_session s(here, g, parameter_server<synchronous>{});  // wrong
replicated_session s(g, here, parameter_server<synchronous>{});  // right

// case replicated_without_strategy: The strategy is missing.
// error: replicated_session_is_not_made_of
// error: replicated_session: write replicated_session s\(graph, server
cluster_spec cluster{{"ps", "127.0.0.1:2222"}, {"worker", "127.0.0.1:2223"}};
server here(cluster, "worker", 0);
graph g;
replicated_session s(g, here);                                   // wrong
replicated_session s(g, here, parameter_server<synchronous>{});  // right

// case server_misspelt: A misspelt option of a server.
// error: server\(cluster, "worker", 0, \{\.\.\.\}\), of server_options
cluster_spec cluster{{"ps", "127.0.0.1:2222"}};
server here(cluster, "ps", 0, {.secrt = "x"});       // wrong
server here(cluster, "ps", 0, {.checksum = false});  // right

// case server_no_index: The index is missing.
// error: server\(cluster, "worker", 0, \{\.\.\.\}\), of server_options
cluster_spec cluster{{"ps", "127.0.0.1:2222"}};
server here(cluster, "ps");     // wrong
server here(cluster, "ps", 0);  // right

// case server_swapped: The index comes before the job.
// error: server\(cluster, "worker", 0, \{\.\.\.\}\), of server_options
cluster_spec cluster{{"ps", "127.0.0.1:2222"}};
server here(cluster, 0, "ps");  // wrong
server here(cluster, "ps", 0);  // right

// case session_of_server: A session on a server, as in TensorFlow.
// error: session_is_not_made_of
// error: session: needs a graph and options: session s\{g, \{\.threads = 4\}\}
cluster_spec cluster{{"ps", "127.0.0.1:2222"}, {"worker", "127.0.0.1:2223"}};
server here(cluster, "worker", 0);
graph g;
session s(g, here);                                              // wrong
replicated_session s(g, here, parameter_server<synchronous>{});  // right

// case setter_number: The number of servers instead of the cluster.
// error: replica_device_setter\(cluster\)
cluster_spec cluster{{"ps", "127.0.0.1:2222"}};
graph g;
device_scope on(g, replica_device_setter(2));        // wrong
device_scope on(g, replica_device_setter(cluster));  // right

// case strategy_type: The strategy's type instead of a value.
// error(clang++): 'collective' does not refer to a value
// error(g++): expected primary-expression before '\)' token
cluster_spec cluster{{"ps", "127.0.0.1:2222"}};
server here(cluster, "ps", 0);
graph g;
replicated_session s(g, here, collective);    // wrong
replicated_session s(g, here, collective{});  // right
