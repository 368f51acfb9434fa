// SPDX-License-Identifier: BSL-1.0
// Clusters that trust no network: certificates and TLS, tags on frames; and whom they reject, in which words.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>
#include <vector>
#include <weft/distributed/collective/all_reduce.hpp>
#include <weft/distributed/parameter/parameter_server.hpp>

#include "local_cluster.hpp"

using namespace weft;
using namespace std::chrono_literals;
using test::contains;

#if defined(WEFT_HAS_OPENSSL)

  #include "certificates.hpp"

namespace {

const std::string everyone = "URI:weft:/job:ps,URI:weft:/job:worker";

/// Trains on one parameter server and two workers; the values at the end.
std::vector<float> trained(const server_options& options) {
  constexpr std::size_t elements = 150'000;  // many records of TLS
  std::vector<std::vector<float>> last(2);
  const auto problems = test::run_tasks(
      1, 2, tcp{},
      [&](server& here) {
        parameter_client client(here, {{"w", element_type::float32, elements, 0, {"adam", {0.01, 0.9, 0.999, 1e-8}}}},
                                consistency::synchronous, 7, 20s);
        std::vector<float> w(elements), g(elements);
        for (std::size_t i = 0; i < elements; ++i) w[i] = static_cast<float>(i % 1001) * 1e-3f;
        const const_bytes gradient = std::as_bytes(std::span(g)), first = std::as_bytes(std::span(w));
        const mutable_bytes out = std::as_writable_bytes(std::span(w));
        client.initialise({&first, 1}, 20s);
        client.pull({&out, 1}, 20s);
        for (int step = 0; step < 5; ++step) {
          for (std::size_t i = 0; i < elements; ++i)
            g[i] = w[i] - static_cast<float>(here.index()) * 0.7f - static_cast<float>(i % 7) * 0.1f;
          client.push_pull(step, {&gradient, 1}, {&out, 1}, 20s);
        }
        client.done(10s);
        last[static_cast<std::size_t>(here.index())] = w;
      },
      options);
  for (const std::string& each : problems) BOOST_TEST(each == "");
  BOOST_TEST((last[0] == last[1]));
  return last[0];
}

/// Sums of three ranks by each algorithm, a broadcast and what is gathered, one after the other: rank 0's.
std::vector<float> sums_and_copies(const server_options& options) {
  std::vector<std::vector<float>> results(3);
  const auto problems = test::run_tasks(
      0, 3, tcp{},
      [&](server& here) {
        all_reduce group(here, 0, {}, 20s);
        std::vector<float>& all = results[group.rank()];
        std::vector<float> data(100'003);  // several messages, and many records of TLS
        const auto next = [&](auto call) {
          std::mt19937 random(static_cast<unsigned>(group.rank() + 1));
          for (float& each : data) each = static_cast<float>(random()) * 1e-3f;
          call();
          all.insert(all.end(), data.begin(), data.end());
        };
        for (const auto algorithm :
             {reduce_algorithm::automatic, reduce_algorithm::segmented_ring, reduce_algorithm::recursive_doubling,
              reduce_algorithm::halving_doubling, reduce_algorithm::tree})
          next([&] { group.sum(std::span(data), 20s, algorithm); });
        next([&] { group.broadcast(std::span(data), 2, 20s); });
        next([&] { group.all_gather(std::span(data), 20s); });
      },
      options);
  for (const std::string& each : problems) BOOST_TEST(each == "");
  BOOST_TEST((results[0] == results[1]));
  BOOST_TEST((results[0] == results[2]));
  return results[0];
}

/// The texts of the parameter server and of the worker that wait for each other: errors, or "met".
std::pair<std::string, std::string> meet(server_options ps, server_options worker) {
  const auto cluster = test::local_cluster(1, 1);
  std::pair<std::string, std::string> said;
  std::atomic<int> decided{0};
  const auto wait = [&](const char* job, server_options& options, std::string& text) {
    try {
      server here(cluster, job, 0, std::move(options));
      bool waits = true;
      for (const deadline until = 5s; waits && !until.expired();) {
        const bool other_has = decided > 0;
        try {
          here.wait_ready(100ms);
          text = "met";
          waits = false;
        } catch (const error& problem) {
          text = problem.what();
          waits = problem.code() == error_code::deadline_exceeded && !other_has;
        }
      }
      for (++decided; decided < 2;) std::this_thread::sleep_for(1ms);
    } catch (const error& problem) {
      text = problem.what();
      ++decided;
    }
  };
  std::thread other([&] { wait("ps", ps, said.first); });
  wait("worker", worker, said.second);
  other.join();
  return said;
}

server_options with(const std::optional<tls_credentials>& tls) {
  server_options options;
  options.tls = tls;
  return options;
}

/// Both ends of a connection within this process.
struct connection {
  tcp network;
  tcp::stream dials, listens;

  explicit connection(const tls_credentials& of_dialler, const tls_credentials& of_listener) {
    tcp other;
    network.use_tls(of_dialler);
    other.use_tls(of_listener);
    tcp::listener door = other.listen({"127.0.0.1", 0});
    dials = network.connect(door.address());
    for (const deadline until = 5s; !door.accept(listens) && !until.expired();) {
    }
    BOOST_REQUIRE(listens.is_open());
  }
};

/// Copies bytes from one plain stream to another; returns how many, with `change` done to them.
template <typename Change>
std::size_t pass_on(tcp::stream& from, tcp::stream& to, Change change) {
  std::array<std::byte, 4096> room;
  const mutable_bytes into(room);
  const std::size_t n = from.read_some({&into, 1});
  change(mutable_bytes(room).first(n));
  for (const_bytes rest = const_bytes(room).first(n); !rest.empty();) rest = rest.subspan(to.write_some({&rest, 1}));
  return n;
}

/// The errors of two ranks in a sum on whose way to rank 0 a byte is changed; without the change they sum well.
std::vector<std::string> summed_over_a_bad_link(const server_options& options, bool changes) {
  const std::string addresses = test::free_addresses(tcp{}, 3);
  const std::size_t first = addresses.find(','), second = addresses.find(',', first + 1);
  const endpoint real = parse_endpoint(addresses.substr(0, first));
  const endpoint between = parse_endpoint(addresses.substr(first + 1, second - first - 1));
  const cluster_spec cluster{{"worker", to_string(between) + addresses.substr(second)}};
  std::atomic<bool> bad{false}, ends{false};
  std::vector<std::string> said(2);
  std::vector<std::thread> threads;
  threads.emplace_back([&] {  // rank 1 dials rank 0
    tcp plain;
    tcp::listener door = plain.listen(between);
    std::vector<std::pair<tcp::stream, tcp::stream>> links;
    while (!ends) {
      try {
        tcp::stream came;
        if (door.accept(came)) links.emplace_back(std::move(came), plain.connect(real));
      } catch (const error&) {  // rank 0 does not listen yet, and rank 1 dials once more
      }
      for (auto& [near, far] : links) {
        if (!near.is_open()) continue;
        try {
          pass_on(near, far, [&](mutable_bytes all) {  // changes a byte among many, and so no sign of life
            if (all.size() == 4096 && bad.exchange(false)) all[2000] ^= std::byte{4};
          });
          pass_on(far, near, [](mutable_bytes) {});
        } catch (const error&) {
          near.close();
          far.close();
        }
      }
    }
  });
  std::atomic<int> met{0};
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      try {
        server_options own = options;
        if (rank == 0) own.bind = real;
        server here(cluster, "worker", rank, own);
        all_reduce group(here, 0, {}, 20s);
        std::vector<float> data(100'000, 1.0f);
        group.sum(std::span(data), 20s);
        if (++met == 2) bad = changes;
        while (met < 2) std::this_thread::sleep_for(1ms);
        for (int i = 0; i < 3; ++i) group.sum(std::span(data), 20s);
        test::require_in_task(data.back() == 16, "the sum of sums");
      } catch (const error& problem) {
        said[static_cast<std::size_t>(rank)] = problem.what();
      }
    });
  for (std::size_t i = 1; i < threads.size(); ++i) threads[i].join();
  ends = true;
  threads[0].join();
  return said;
}

}  // namespace

BOOST_AUTO_TEST_CASE(training_has_the_same_bits_plain_with_tags_and_encrypted) {
  const test::authority here;
  server_options plain;
  plain.shared_memory = false;
  server_options with_tags = plain, encrypted = plain, checked = plain;
  with_tags.authenticate = true;
  encrypted.tls = here.credentials("all", everyone);
  const std::vector<float> expected = trained(plain);
  BOOST_TEST((expected == trained(with_tags)));
  BOOST_TEST((expected == trained(encrypted)));
  encrypted.secret = cluster_secret("a secret within TLS");
  encrypted.shared_memory = true;
  BOOST_TEST((expected == trained(encrypted)));
}

BOOST_AUTO_TEST_CASE(all_reduce_has_the_same_bits_plain_with_tags_and_encrypted) {
  const test::authority here;
  server_options plain;
  plain.shared_memory = false;
  server_options with_tags = plain, encrypted = plain;
  with_tags.authenticate = true;
  encrypted.tls = here.credentials("all", everyone);
  const std::vector<float> expected = sums_and_copies(plain);
  BOOST_TEST((expected == sums_and_copies(with_tags)));
  BOOST_TEST((expected == sums_and_copies(encrypted)));
  for (const server_options& each : {plain, with_tags, encrypted}) {
    for (const std::string& said : summed_over_a_bad_link(each, false)) BOOST_TEST(said == "");
    const std::vector<std::string> said = summed_over_a_bad_link(each, true);
    CHECK_SAYS(said[0], each.tls ? "changed in transit" : each.authenticate ? "tag does not match" : "checksum");
    BOOST_TEST(said[1] != "");
  }
}

BOOST_AUTO_TEST_CASE(certificates_need_a_transport_that_encrypts) {
  const test::authority here;
  server_options options;
  options.tls = here.credentials("all", everyone);
  const std::string said = test::failure(error_code::invalid_argument, [&] {
    basic_server<in_process>(cluster_spec{{"ps", "127.0.0.1:0"}}, "ps", 0, options);
  });
  CHECK_SAYS(said, "server_options::tls is set, but the transport has no use_tls()");
}

// Clients' certificates name /job:client/task:0.
BOOST_AUTO_TEST_CASE(no_job_has_the_name_of_clients_certificates) {
  const test::authority here;
  server_options options;
  options.tls = here.credentials("all", everyone);
  const cluster_spec cluster{{"client", test::free_addresses(tcp(), 1)}, {"ps", test::free_addresses(tcp(), 1)}};
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { server(cluster, "ps", 0, options); }),
             "a job must not be named 'client', because its certificates would admit clients of the cluster");
  server(cluster, "ps", 0, {});
}

BOOST_AUTO_TEST_CASE(one_task_that_wants_tags_is_enough) {
  server_options wants;
  wants.authenticate = true;
  const auto [ps, worker] = meet(wants, {});
  BOOST_TEST(ps == "met");
  BOOST_TEST(worker == "met");
}

BOOST_AUTO_TEST_CASE(another_secret) {
  server_options one, other;
  one.authenticate = other.authenticate = true;
  one.secret = cluster_secret("the secret of the first");
  other.secret = cluster_secret("the secret of the other");
  const auto [ps, worker] = meet(one, other);
  CHECK_SAYS(ps, "a task with a secret other than this task's (from the program) was rejected");
  CHECK_SAYS(worker, "does not have this task's secret");
  // Within TLS, too.
  const test::authority here;
  one.tls = other.tls = here.credentials("all", everyone);
  const auto [ps_in_tls, worker_in_tls] = meet(one, other);
  CHECK_SAYS(ps_in_tls, "does not have this task's secret");
  CHECK_SAYS(worker_in_tls, "does not have this task's secret");
}

BOOST_AUTO_TEST_CASE(certificates_that_are_rejected) {
  const test::authority here, unknown("another authority"), of_same_name;
  const auto good_ps = here.credentials("ps", "URI:weft:/job:ps/task:0"),
             good_worker = here.credentials("worker", "URI:weft:/job:worker/task:0");
  {
    const auto [ps, worker] = meet(with(good_ps), with(good_worker));
    BOOST_TEST(ps == "met");
    BOOST_TEST(worker == "met");
  }
  {  // expired, of the side that dials and of the side that is dialled
    const auto old = here.credentials("old", everyone, -1);
    const auto [ps, worker] = meet(with(good_ps), with(old));
    CHECK_SAYS(
        ps,
        "certificate is rejected: certificate has expired (a certificate of weft:/job:ps, weft:/job:worker, valid "
        "until ");
    CHECK_SAYS(worker, "/old.pem): certificate expired");
    const auto [old_ps, good] = meet(with(old), with(good_worker));
    CHECK_SAYS(old_ps, "/old.pem) is rejected by others: it has expired, valid until ");
    CHECK_SAYS(good, "certificate is rejected: certificate has expired");
  }
  {  // the certificate of another task
    const auto other = here.credentials("other", "URI:weft:/job:worker/task:1,DNS:worker-0");
    const auto [ps, worker] = meet(with(good_ps), with(other));
    for (const std::string& each : {ps, worker})
      CHECK_SAYS(each, "a task that claims to be /job:worker/task:0 presents a certificate of weft:/job:worker/task:1");
    const auto [other_ps, good] = meet(with(other), with(good_worker));
    CHECK_SAYS(other_ps,
               "a task that connected to /job:ps/task:0 rejects this task's certificate, which names another");
    CHECK_SAYS(good,
               "presents a certificate of weft:/job:worker/task:1; the certificate of /job:ps/task:0 must name "
               "weft:/job:ps/task:0");
  }
  {  // that name a task as it is not meant
    for (const char* const names : {"", "URI:weft:/job:p", "URI:weft:/job:ps/task", "URI:weft:", "URI:weft:/job:ps/",
                                    "URI:https:/job:ps", "DNS:weft"}) {
      const auto almost = here.credentials("almost", names);
      connection both(good_worker, almost);
      const std::byte any{1};
      std::byte came{};
      const const_bytes out(&any, 1);
      const mutable_bytes in(&came, 1);
      for (std::size_t n = 0; n == 0;) {
        both.listens.read_some({&in, 1});
        both.listens.write_some({&out, 1});
        n = both.dials.read_some({&in, 1});
      }
      BOOST_CHECK_MESSAGE(!both.dials.certifies("/job:ps/task:0"), names);
      BOOST_TEST(both.listens.certifies("/job:worker/task:0"));
      BOOST_TEST(!both.listens.certifies("/job:worker/task:01"));
      BOOST_TEST(!both.listens.certifies("/job:worker"));
    }
  }
  {  // by an authority that the other does not know
    const auto foreign = unknown.credentials("foreign", everyone, 1, &here);
    const auto [ps, worker] = meet(with(good_ps), with(foreign));
    CHECK_SAYS(ps,
               "certificate is rejected: unable to get local issuer certificate (a certificate of weft:/job:ps, "
               "weft:/job:worker; this task's authority: " +
                   here.file() + ")");
    CHECK_SAYS(worker, "foreign.pem): unknown CA");
    const auto [good, similar] = meet(with(good_ps), with(of_same_name.credentials("similar", everyone, 1, &here)));
    CHECK_SAYS(good, "certificate is rejected: certificate signature failure (a certificate of ");
    CHECK_SAYS(similar, "the peer rejects this task's certificate (");
  }
  {  // none
    const auto [ps, worker] = meet(with(good_ps), {});
    CHECK_SAYS(ps, "the peer does not use TLS, but this task has a certificate (");
    CHECK_SAYS(worker, "the peer uses TLS, but this task has no certificate");
    const auto [plain_ps, good] = meet({}, with(good_worker));
    CHECK_SAYS(plain_ps, "the peer uses TLS, but this task has no certificate");
    CHECK_SAYS(good, "the peer does not use TLS, but this task has a certificate (");
  }
}

namespace {

/// What a parameter server that joins and a worker that gets ready say, and after how many seconds; and what the server
/// has reported by then.
struct reports {
  std::string ps, worker;
  double ps_after = 0, worker_after = 0;
  std::vector<std::string> reported;
};

/// The parameter server ends with the worker where nothing ends it before.
reports rejections(server_options ps, const server_options& worker) {
  const auto cluster = test::local_cluster(1, 1);
  reports all;
  ps.on_rejected = [&](const error& why) { all.reported.push_back(why.what()); };
  server serves(cluster, "ps", 0, ps);
  const auto start = std::chrono::steady_clock::now();
  std::atomic<bool> ended{false};
  std::thread joins([&] {
    test::code_of([&] { serves.join(20s); }, &all.ps);
    all.ps_after = test::seconds_since(start);
    ended = true;
  });
  server works(cluster, "worker", 0, worker);
  test::code_of([&] { works.wait_ready(20s); }, &all.worker);
  all.worker_after = test::seconds_since(start);
  for (const deadline until = 2s; !ended && !until.expired();) std::this_thread::sleep_for(10ms);
  serves.stop();
  joins.join();
  return all;
}

}  // namespace

// A stranger can do no more than have it reported; nothing ends a task that could still be met.
BOOST_AUTO_TEST_CASE(rejections_are_reported_on_both_sides_at_once) {
  server_options one, other;
  one.secret = cluster_secret("the secret of the first");
  other.secret = cluster_secret("the secret of the other");
  const reports secrets = rejections(one, other);
  CHECK_SAYS(secrets.worker, "does not have this task's secret");
  BOOST_TEST(secrets.worker_after < 5);
  BOOST_REQUIRE(secrets.reported.size() == 1u);
  BOOST_TEST(secrets.reported[0] ==
             "/job:ps/task:0: a task with a secret other than this task's (from the program) was rejected; it "
             "connected from 127.0.0.1");
  BOOST_TEST(secrets.ps == "");

  const test::authority here;
  const auto good = here.credentials("good", everyone), old = here.credentials("old", everyone, -1);
  const reports of_dialler = rejections(with(good), with(old));
  CHECK_SAYS(of_dialler.worker, "/old.pem): certificate expired");
  BOOST_TEST(of_dialler.worker_after < 5);
  BOOST_REQUIRE(of_dialler.reported.size() == 1u);
  CHECK_SAYS(of_dialler.reported[0], "certificate is rejected: certificate has expired");
  BOOST_TEST(of_dialler.ps == "");
  // Nobody will ever accept the parameter server's own: it ends.
  const reports of_listener = rejections(with(old), with(good));
  CHECK_SAYS(of_listener.worker, "certificate is rejected: certificate has expired");
  CHECK_SAYS(of_listener.ps, "/old.pem) is rejected by others: it has expired, valid until ");
  BOOST_TEST(of_listener.worker_after < 5);
  BOOST_TEST(of_listener.ps_after < 5);
}

// Both ends read and write as it comes; pieces of all sizes, and one side that reads slowly for some time.
BOOST_AUTO_TEST_CASE(frames_of_all_sizes_arrive_encrypted) {
  const test::authority here;
  const auto mine = here.credentials("all", everyone);
  connection both(mine, mine);
  std::mt19937 random(5);
  for (const std::size_t size : {0u, 1u, 100u, 16320u, 16321u, 16384u, 100'000u, 5'000'000u}) {
    std::vector<std::byte> sent(size), received(size);
    for (std::byte& each : sent) each = static_cast<std::byte>(random());
    std::vector<const_bytes> pieces;
    for (std::size_t at = 0; at < size;) {
      const std::size_t n = std::min<std::size_t>(size - at, random() % 3 ? random() % 40'000 : random() % 10);
      pieces.push_back(const_bytes(sent).subspan(at, n));
      at += n;
    }
    frame_header header;
    header.kind = frame_kind::values;
    frame_writer out;
    out.start(header, pieces);
    frame_reader in;
    const mutable_bytes whole(received);
    in.expect({&whole, 1});
    bool detached = false;
    for (const deadline until = 10s; !in.complete() && !until.expired();) {
      out.advance(both.dials);
      if (!detached && size > 1'000'000) {  // the rest lies elsewhere, and the original changes
        BOOST_TEST(!out.idle());
        out.detach();
        const std::vector<std::byte> kept = sent;
        std::fill(sent.begin(), sent.end(), std::byte{0});
        detached = true;
        while (!in.complete() && !until.expired()) {
          out.advance(both.dials);
          in.advance(both.listens);
        }
        sent = kept;
      }
      in.advance(both.listens);
    }
    BOOST_TEST(out.idle());
    BOOST_TEST(in.complete());
    BOOST_TEST((in.header().flags & payload_checked) == 0u);  // TLS has done that
    BOOST_TEST((sent == received));
  }
}

// No poll() knows of the bytes that OpenSSL has taken from the socket.
BOOST_AUTO_TEST_CASE(a_wait_knows_what_is_decrypted) {
  const test::authority here;
  const auto mine = here.credentials("all", everyone);
  connection both(mine, mine);
  frame_header header;
  header.kind = frame_kind::heartbeat;
  frame_writer out;
  frame_reader in;
  std::size_t came = 0;
  in.expect(std::span<const mutable_bytes>{});
  for (int i = 0; i < 50; ++i) {
    out.start(header);
    for (const deadline until = 5s; !out.idle() && !until.expired();) {
      out.advance(both.dials);
      if (i == 0) in.advance(both.listens);  // shakes hands
    }
  }
  const auto start = std::chrono::steady_clock::now();
  while (came < 50 && test::seconds_since(start) < 5) {
    tcp::wait_item item{&both.listens, true, false};
    BOOST_TEST(both.network.wait({&item, 1}, 1s));
    in.advance(both.listens);
    if (!in.complete()) continue;
    ++came;
    in.expect(std::span<const mutable_bytes>{});
  }
  BOOST_TEST(came == 50u);
  BOOST_TEST(test::seconds_since(start) < 1 + test::slack);
  tcp::wait_item item{&both.listens, true, false};
  BOOST_TEST(!both.network.wait({&item, 1}, 1ms));
  // In the middle of a handshake a side that wants to write does not poll for that.
  connection fresh(mine, mine);
  out.start(header);
  out.advance(fresh.dials);
  BOOST_TEST(!out.idle());
  tcp::wait_item writes{&fresh.dials, true, true};
  BOOST_TEST(!fresh.network.wait({&writes, 1}, 1ms));
}

BOOST_AUTO_TEST_CASE(a_change_on_the_way_is_noticed) {
  const test::authority here;
  const auto mine = here.credentials("all", everyone);
  tcp encrypted, plain;
  encrypted.use_tls(mine);
  tcp::listener door = encrypted.listen({"127.0.0.1", 0}), between = plain.listen({"127.0.0.1", 0});
  tcp::stream dials = encrypted.connect(between.address()), near, far = plain.connect(door.address()), listens;
  for (const deadline until = 5s; !(near.is_open() || between.accept(near)) && !until.expired();) {
  }
  for (const deadline until = 5s; !door.accept(listens) && !until.expired();) {
  }
  std::vector<std::byte> said(1000, std::byte{7}), heard(1000);
  std::size_t sent = 0, received = 0;
  bool changes = false;
  const auto turn = [&] {
    const const_bytes from = const_bytes(said).subspan(sent);
    if (!from.empty()) sent += dials.write_some({&from, 1});
    pass_on(near, far, [&](mutable_bytes all) {
      if (changes && !all.empty()) all[all.size() / 2] ^= std::byte{4};
    });
    pass_on(far, near, [](mutable_bytes) {});
    const mutable_bytes into = mutable_bytes(heard).subspan(received);
    received += listens.read_some({&into, 1});
    std::byte none;
    const mutable_bytes nothing(&none, 1);
    dials.read_some({&nothing, 1});
  };
  for (const deadline until = 5s; received < 1000 && !until.expired();) turn();
  BOOST_TEST((heard == said));
  sent = received = 0;
  changes = true;
  BOOST_CHECK_EXCEPTION(for (const deadline until = 5s; !until.expired();) turn(), error,
                        test::says(error_code::data_loss, "changed in transit"));
  BOOST_TEST(received == 0u);
}

BOOST_AUTO_TEST_CASE(files_of_certificates) {
  const test::authority here, another;
  here.sign("a", everyone);
  here.sign("b", everyone);
  const std::string folder = here.folder();
  const auto load = [&](const std::string& certificate, const std::string& key, const std::string& authority) {
    return tls_credentials::from_files(folder + certificate, folder + key, folder + authority);
  };
  load("/a.pem", "/a.key", "/ca.pem");
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { load("/a.pem", "/b.key", "/ca.pem"); }),
             "/b.key is not the key of ");
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { load("/a.key", "/a.key", "/ca.pem"); }),
             "/a.key does not contain a PEM certificate");
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { load("/a.pem", "/a.pem", "/ca.pem"); }),
             "/a.pem does not contain a PEM key");
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { load("/a.pem", "/a.key", "/a.key"); }),
             "/a.key does not contain a PEM certificate of an authority");
  CHECK_SAYS(test::failure(error_code::not_found, [&] { load("/c.pem", "/a.key", "/ca.pem"); }), "/c.pem");
  CHECK_SAYS(test::failure(error_code::not_found, [&] { load("/a.pem", "/c.key", "/ca.pem"); }), "/c.key");
  ::chmod((folder + "/a.key").c_str(), 0640);
  CHECK_SAYS(test::failure(error_code::permission_denied, [&] { load("/a.pem", "/a.key", "/ca.pem"); }),
             "readable by nobody else (mode 0600)");
  ::chmod((folder + "/a.key").c_str(), 0600);

  BOOST_TEST(!tls_credentials::from_environment());
  ::setenv("WEFT_TLS_CERT", (folder + "/a.pem").c_str(), 1);
  CHECK_SAYS(test::failure(error_code::invalid_argument, [] { tls_credentials::from_environment(); }),
             "WEFT_TLS_CERT requires WEFT_TLS_KEY, WEFT_TLS_CA too");
  ::setenv("WEFT_TLS_KEY", (folder + "/a.key").c_str(), 1);
  ::setenv("WEFT_TLS_CA", here.file().c_str(), 1);
  const auto [ps, worker] = meet({}, {});
  for (const char* const name : {"WEFT_TLS_CERT", "WEFT_TLS_KEY", "WEFT_TLS_CA"}) ::unsetenv(name);
  BOOST_TEST(ps == "met");
  BOOST_TEST(worker == "met");
}

#else

BOOST_AUTO_TEST_CASE(without_openssl) {
  CHECK_SAYS(test::failure(error_code::failed_precondition, [] { tls_credentials::from_files("a", "b", "c"); }),
             "built without OpenSSL");
  server_options options;
  options.secret = cluster_secret("a secret of these");
  CHECK_SAYS(test::failure(error_code::failed_precondition,
                           [&] { server({{"worker", "127.0.0.1:2222,10.11.12.13:2222"}}, "worker", 0, options); }),
             "is on another host");
}

#endif
