// SPDX-License-Identifier: BSL-1.0
// Clients of a cluster that trusts no network: what they exchange with the tasks in plain bytes, with tags and
// encrypted; and whom the tasks or the client reject, in which words.
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <weft/distributed.hpp>
#include <weft/distributed/remote/graph_client.hpp>
#include <weft/distributed/remote/graph_service.hpp>

#include "errors.hpp"
#include "local_cluster.hpp"

using namespace weft;
using namespace std::chrono_literals;

#if defined(WEFT_HAS_OPENSSL)

  #include "certificates.hpp"

namespace {

constexpr int elements = 700'001;  // several pieces of a payload, and many records of TLS

constexpr device_spec tasks[] = {"/job:worker/task:0"_device, "/job:worker/task:1"_device};

template <class Make>
auto in_task(graph& g, int task, Make make) {
  const device_scope there(g, tasks[task]);
  return make();
}

/// Twice what is fed, by way of both tasks.
struct doubling {
  graph g;
  node<float, dims<elements>> x = placeholder<float, dims<elements>>(g);
  node<float, dims<elements>> moved = in_task(g, 0, [&] { return let(x + 0.0f); });
  node<float, dims<elements>> doubled = in_task(g, 1, [&] { return let(moved * 2.0f); });
};

/// Two tasks of it in this process.
class cluster {
 public:
  explicit cluster(const server_options& options) {
    const cluster_spec spec = test::local_cluster(0, 2);
    for (int t = 0; t < 2; ++t) {
      servers_.push_back(std::make_unique<server>(spec, "worker", t, options));
      services_.push_back(std::make_unique<graph_service<>>(*servers_.back(), graph_.g,
                                                            graph_service_options{.session = {.threads = 1}}));
    }
    for (const auto& each : servers_) each->wait_ready(20s);
  }
  ~cluster() {
    services_.clear();
    servers_.clear();
  }
  std::string address() const { return "weft://" + to_string(servers_[0]->address()); }

  /// Empty if a client with these options gets the right values, twice; else the error.
  std::string served(graph_client_options options) const {
    options.connect_timeout = 5s;
    std::string said;
    test::code_of(
        [&] {
          graph_client client(address(), options);
          session s(graph_.g, {.threads = 1, .target = client.target()});
          auto step = s.prepare(fetch(graph_.doubled), feed(graph_.x));
          tensor<float, dims<elements>> x;
          for (int run = 0; run < 2; ++run) {
            for (int i = 0; i < elements; ++i) x.data()[i] = static_cast<float>(i % 1009 + run);
            const auto found = step(x);
            for (int i = 0; i < elements; ++i)
              test::require_in_task(found.data()[i] == 2 * x.data()[i], "twice what was fed");
          }
        },
        &said);
    return said;
  }

 private:
  doubling graph_;
  std::vector<std::unique_ptr<server>> servers_;
  std::vector<std::unique_ptr<graph_service<>>> services_;
};

graph_client_options with(const std::optional<tls_credentials>& tls) {
  graph_client_options options;
  options.tls = tls;
  return options;
}
graph_client_options with(const char* secret) {
  graph_client_options options;
  options.secret = cluster_secret(secret);
  return options;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_client_exchanges_values_plain_and_with_tags) {
  server_options tags;
  tags.authenticate = true;
  graph_client_options client_wants, no_checksum;
  client_wants.authenticate = true;
  no_checksum.checksum = false;
  for (const server_options& each : {server_options{}, tags}) {
    const cluster tasks(each);
    BOOST_TEST(tasks.served({}) == "");
    BOOST_TEST(tasks.served(client_wants) == "");
    BOOST_TEST(tasks.served(no_checksum) == "");
  }
}

BOOST_AUTO_TEST_CASE(a_client_proves_the_secret) {
  server_options options;
  options.secret = cluster_secret("the secret of the cluster");
  for (const bool authenticate : {false, true}) {
    options.authenticate = authenticate;
    const cluster tasks(options);
    BOOST_TEST(tasks.served(with("the secret of the cluster")) == "");
    CHECK_SAYS(tasks.served(with("the secret of somebody")), "does not have this client's secret");
    CHECK_SAYS(tasks.served({}), "does not have this client's secret");
    BOOST_TEST(tasks.served(with("the secret of the cluster")) == "");
  }
}

BOOST_AUTO_TEST_CASE(a_client_shows_a_certificate) {
  const test::authority here, unknown("another authority");
  server_options options;
  options.tls = here.credentials("tasks", "URI:weft:/job:worker");
  const auto good = here.credentials("client", "URI:weft:/job:client/task:0");
  {
    const cluster tasks(options);
    BOOST_TEST(tasks.served(with(good)) == "");
    BOOST_TEST(tasks.served(with(here.credentials("all", "URI:weft:/job:client"))) == "");
    CHECK_SAYS(tasks.served(with(here.credentials("task", "URI:weft:/job:worker"))),
               "a client presents a certificate of weft:/job:worker; the certificate of a client must name "
               "weft:/job:client/task:0");
    CHECK_SAYS(tasks.served(with(here.credentials("old", "URI:weft:/job:client", -1))), "certificate expired");
    CHECK_SAYS(tasks.served(with(unknown.credentials("foreign", "URI:weft:/job:client", 1, &here))), "unknown CA");
    CHECK_SAYS(tasks.served(with(unknown.credentials("doubts", "URI:weft:/job:client"))), "certificate is rejected");
    CHECK_SAYS(tasks.served({}), "the peer uses TLS, but this task has no certificate");
    BOOST_TEST(tasks.served(with(good)) == "");
  }
  {  // with a secret, too
    options.secret = cluster_secret("a secret within TLS");
    const cluster tasks(options);
    graph_client_options both = with("a secret within TLS");
    both.tls = good;
    BOOST_TEST(tasks.served(both) == "");
    CHECK_SAYS(tasks.served(with(good)), "does not have this client's secret");
  }
  const cluster plain({});
  CHECK_SAYS(plain.served(with(good)), "the peer does not use TLS, but this task has a certificate");
}

#endif
