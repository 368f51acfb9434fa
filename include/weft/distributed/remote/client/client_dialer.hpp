// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/distributed/cluster/handshake.hpp>
#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/cluster/secret.hpp>
#include <weft/distributed/membership/task_identity.hpp>
#include <weft/distributed/remote/graph_client_options.hpp>
#include <weft/error.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/framing.hpp>
#include <weft/transport/random_bytes.hpp>
#include <weft/transport/tls.hpp>
#include <weft/transport/waiter.hpp>

namespace weft::detail {

/// Opens the connections of a client to the tasks of a cluster and performs the handshake. Blocks the calling thread.
class client_dialer {
 public:
  using stream = any_transport::stream;

  /// A connection, and the introduction of the task that answered.
  struct opened {
    stream to;
    introduction of;
  };

  client_dialer(any_transport& network, const graph_client_options& options)
      : network_(network), options_(options), secret_(usual_secret()) {
    fill_random(network_, std::as_writable_bytes(std::span(&incarnation_, 1)));
    incarnation_ |= 1u;
    if (secret_.is_given() || options_.tls) network_.allow_other_hosts();
    if (options_.tls) network_.use_tls(*options_.tls);
  }

  std::uint64_t incarnation() const { return incarnation_; }
  waiter idle() const { return {network_, wait_policy::for_tasks(2)}; }

  /// The task that a client expects at an address.
  struct expected {
    const cluster_spec& cluster;
    const task_id& task;
  };

  /// `who`: null for any task of any cluster. `channel`: client_hears or client_asks. Throws the errors of
  /// graph_client's constructor.
  opened dial(const endpoint& where, const expected* who, const char* channel, deadline until) {
    const attempt one{where, who, channel, until,
                      str_cat({"connect to ", who ? to_string(who->task) : to_string(where)})};
    for (;;) try {
        return dial_once(one);
      } catch (const error& problem) {
        // No process listens there yet, or too many unauthenticated connections are open there.
        if (problem.code() != error_code::unavailable) throw;
        if (until.expired())
          throw error(error_code::deadline_exceeded, one.operation,
                      {problem.sentence(), who ? ""
                                               : "; name the address of a task that is running, or raise "
                                                 "graph_client_options::answer_timeout"});
        detail::sleep(std::chrono::milliseconds(20));
      }
  }

 private:
  struct attempt {
    const endpoint& where;
    const expected* who;
    const char* channel;
    deadline until;
    std::string operation;

    error fails(error_code code, std::initializer_list<piece> why) const { return error(code, operation, why); }
    std::string name() const { return who ? to_string(who->task) : std::string(); }
  };

  cluster_secret usual_secret() const {
    if (options_.secret) return *options_.secret;
    if (!options_.tls) return detail::usual_secret(network_);
    if (auto given = cluster_secret::from_environment()) return *given;
    return cluster_secret("tasks that have certificates");
  }

  opened dial_once(const attempt& one) {
    if (!has_openssl && authenticates(network_, options_, is_loopback(one.where.host)))
      throw one.fails(error_code::failed_precondition, {"the task is on another host, and authentication between hosts "
                                                        "requires OpenSSL, but this program was built without it; ",
                                                        build_with_openssl});
    handshake_nonce nonce;
    fill_random(network_, nonce);
    stream fresh = network_.connect(one.where);
    handshake talk = one.who ? handshake::dialling(std::move(fresh), secret_.proof(), nonce)
                             : handshake::dialling_anyone(std::move(fresh), secret_.proof(), nonce);
    // An attempt takes at least 500 ms, so that a running task can answer even if less time is left.
    const deadline ends(
        std::max<deadline::duration>(one.until.remaining(options_.answer_timeout), std::chrono::milliseconds(500)));
    waiter waits = idle();
    for (;;) {
      std::size_t moved = talk.advance();
      if (talk.at() == handshake::phase::challenged) {
        introduce(talk, one);
        moved = 1;
      }
      if (talk.at() == handshake::phase::over) break;
      if (ends.expired()) throw late(talk, one);
      if (moved > 0) {
        waits.moved();
        continue;
      }
      any_transport::wait_item item{&talk.stream(), true, talk.is_sending()};
      waits.pause({&item, 1}, ends);
    }
    if (const std::optional<error>& why = talk.refusal()) throw error(why->code(), one.operation, why->sentence());
    if (!talk.stream().certifies(to_string(talk.other()->from)))
      throw one.fails(error_code::permission_denied,
                      {"the task there presents a certificate of ", talk.stream().certified_names()});
    return {std::move(talk.stream()), *talk.other()};
  }
  /// Checks the proof of the process that listens, and introduces this client.
  void introduce(handshake& talk, const attempt& one) {
    if (!talk.knows_secret())
      throw one.fails(error_code::unauthenticated,
                      {"the process listening at ", to_string(one.where), " does not have this client's secret (",
                       secret_.origin(), "); give both the same secret"});
    if (!talk.proves(one.name()))
      throw one.fails(error_code::failed_precondition, {"the process listening at ", to_string(one.where), " is not ",
                                                        one.name(), "; give every task the same addresses"});
    talk.introduce({distributed_version,
                    one.who ? one.who->cluster.hash() : 0,
                    {},
                    {},
                    one.who ? one.who->task : task_id{},
                    incarnation_,
                    0,
                    one.until.remaining_us(),
                    one.channel,
                    authenticates(network_, options_, talk.stream().stays_on_host())});
  }
  /// Returns the error of a late answer. A process that has not been reached may still be starting, so dial() tries
  /// again.
  error late(const handshake& talk, const attempt& one) const {
    return one.fails(
        talk.is_sending() ? error_code::unavailable : error_code::deadline_exceeded,
        {"the process listening at ", to_string(one.where), " has not answered the handshake within ",
         options_.answer_timeout.count(), " ms: it is paused or overloaded (graph_client_options::answer_timeout)"});
  }

  any_transport& network_;
  const graph_client_options& options_;
  cluster_secret secret_;
  std::uint64_t incarnation_ = 0;
};

}  // namespace weft::detail
