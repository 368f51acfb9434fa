// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/distributed/cluster/handshake.hpp>
#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/cluster/secret.hpp>
#include <weft/distributed/cluster/server_options.hpp>
#include <weft/distributed/membership/membership.hpp>
#include <weft/error.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/frame.hpp>
#include <weft/transport/random_bytes.hpp>
#include <weft/transport/tls.hpp>

namespace weft {

/// Compared in handshakes: tasks of different versions reject each other.
inline constexpr const char* distributed_version = "0.3";

namespace detail {

/// The name of a client in introductions and, if it has one, in its certificate. A client is a process outside the
/// cluster that requests steps from tasks.
inline constexpr const char* client_name = "/job:client/task:0";
inline constexpr const char* client_asks = "client asks";      // a client's channel for requests
inline constexpr const char* client_hears = "client is told";  // a client's channel for answers
inline bool is_client(const introduction& its) { return its.from.job.empty(); }

/// The identity of a task in handshakes: its introductions, and its checks of other tasks. Thread-safe.
class task_identity {
 public:
  using handshake_type = handshake;

  task_identity(const cluster_spec& cluster, task_id self, membership& members, const server_options& options,
                any_transport& network)
      : cluster_(cluster),
        self_(std::move(self)),
        members_(members),
        options_(options),
        network_(network),
        secret_(options.secret ? *options.secret : usual_secret()),
        incarnation_(random_incarnation()) {}

  const task_id& self() const { return self_; }
  std::string name() const { return to_string(self_); }
  const cluster_secret& secret() const { return secret_; }
  std::uint64_t incarnation() const { return incarnation_; }
  endpoint address_of(std::size_t rank) const {
    const task_id& task = members_.task(rank);
    return cluster_.task_address(task.job, task.index);
  }
  std::optional<std::size_t> find(const task_id& task) const {
    if (!cluster_.has_task(task)) return {};
    return cluster_.rank(task);
  }

  /// Returns true if the addresses of the two tasks are on one host.
  bool is_on_this_host(std::size_t rank) const {
    return network_.same_host(cluster_.task_address(self_.job, self_.index), address_of(rank));
  }
  /// Returns true if the options and addresses require tags in frames to and from this task.
  bool authenticates(std::size_t rank) const {
    return detail::authenticates(network_, options_, is_on_this_host(rank));
  }
  /// The same for one connection, which can leave the host even if the addresses are equal.
  bool authenticates(std::size_t rank, const any_transport::stream& stream) const {
    return detail::authenticates(network_, options_, is_on_this_host(rank) && stream.stays_on_host());
  }
  bool authenticates_client(const any_transport::stream& client) const {
    return detail::authenticates(network_, options_, client.stays_on_host());
  }

  // ---- handshakes ----

  std::unique_ptr<handshake> dial(any_transport::stream stream) const {
    return handshake::make_dialling(std::move(stream), secret_.proof(), nonce());
  }
  handshake_type answer(any_transport::stream stream) const {
    return handshake_type::listening(std::move(stream), secret_.proof(), nonce(), name());
  }

  /// Returns this task's introduction to another task for a channel, or for a control connection ("").
  introduction introduction_to(std::size_t rank, const std::string& channel, std::uint64_t waits_us,
                               const any_transport::stream& stream) const {
    const std::uint64_t known = members_.incarnation(rank);
    return {distributed_version,
            cluster_.hash(),
            to_string(cluster_),
            self_,
            members_.task(rank),
            incarnation_,
            members_.is_given_up(rank, known) ? known : 0,
            waits_us,
            channel,
            authenticates(rank, stream)};
  }

  introduction introduction_to_client(const introduction& client, const any_transport::stream& stream) const {
    return {distributed_version,
            cluster_.hash(),
            to_string(cluster_),
            self_,
            client.from,
            incarnation_,
            0,
            0,
            client.channel,
            authenticates_client(stream)};
  }

  /// Returns true if the task with this rank has answered: it knows the secret, and its certificate, if any, names it.
  bool is_answered_by(std::size_t rank, handshake_type& talk) const {
    const std::string name = to_string(members_.task(rank));
    return talk.proves(name) && talk.stream().certifies(name);
  }

  /// Returns the reason why the answer is not from the task with this rank: another task of the cluster has answered, a
  /// task of another cluster with the same secret, or a stranger.
  error impostor_at(std::size_t rank, handshake_type& talk) const {
    const task_id& peer = members_.task(rank);
    const std::string operation = str_cat({"connect to ", to_string(peer)});
    const std::string where = to_string(address_of(rank));
    if (!talk.stream().certifies(to_string(peer)))
      return error(
          error_code::permission_denied, operation,
          {"the process listening at ", where, " presents a certificate of ", talk.stream().certified_names(),
           "; the certificate of ", to_string(peer), " must name weft:", to_string(peer), " in its subjectAltName"});
    for (std::size_t other = 0; other < members_.size(); ++other)
      if (talk.proves(to_string(members_.task(other))))
        return error(error_code::failed_precondition, operation,
                     {to_string(members_.task(other)), " listens at ", where,
                      "; give every task the same addresses, and each its own index"});
    if (talk.knows_secret())
      return error(error_code::failed_precondition, operation,
                   {"the process listening at ", where, " has this task's secret (", secret_.origin(),
                    "), but is not a task of '", to_string(cluster_),
                    "': its jobs or addresses differ; give every task the same cluster, with the same "
                    "parameter servers"});
    return error(error_code::unauthenticated, operation,
                 {"the process listening at ", where, " does not have this task's secret (", secret_.origin(),
                  "): it belongs to another user or another cluster; start all tasks as one user, or give them the "
                  "same secret"});
  }

  /// Returns the reason to reject a client that has proved the secret, if there is one.
  std::optional<error> objection_to_client(const introduction& its, const any_transport::stream& stream) const {
    const auto refuse = [](error_code code, std::initializer_list<piece> why) { return error(code, "handshake", why); };
    if (!stream.certifies(client_name))
      return refuse(error_code::permission_denied,
                    {"a client presents a certificate of ", stream.certified_names(),
                     "; the certificate of a client must name weft:", client_name, " in its subjectAltName"});
    if (its.library_version != distributed_version)
      return refuse(error_code::failed_precondition, {"a client runs Weft ", its.library_version, ", but ", name(),
                                                      " runs ", distributed_version, "; run the same build"});
    if (its.cluster_hash != 0 && its.cluster_hash != cluster_.hash())
      return refuse(error_code::failed_precondition,
                    {"a client uses the cluster '", its.cluster, "', but ", name(), " uses '", to_string(cluster_),
                     "'; give every task the same addresses"});
    if (!its.to.job.empty() && !(its.to == self_))
      return refuse(error_code::failed_precondition,
                    {"a client expected ", to_string(its.to), ", but ", name(), " listens here"});
    if (its.channel != client_asks && its.channel != client_hears)
      return refuse(error_code::invalid_argument, {"a client cannot open the channel '", its.channel, "'"});
    return {};
  }

  /// Returns the reason to reject a task that has proved the secret, if there is one.
  std::optional<error> objection_to(const introduction& its, const any_transport::stream& stream,
                                    const endpoint& here) {
    const std::string peer = to_string(its.from);
    const auto refuse = [](error_code code, std::initializer_list<piece> why) { return error(code, "handshake", why); };
    if (!stream.certifies(peer)) {
      const std::string why =
          str_cat({"a task that claims to be ", peer, " presents a certificate of ", stream.certified_names()});
      members_.set_note(why);
      return refuse(error_code::permission_denied,
                    {why, "; start every task with its own index and its own certificate"});
    }
    if (its.library_version != distributed_version)
      return refuse(error_code::failed_precondition,
                    {peer, " runs Weft ", its.library_version, ", but ", name(), " runs ", distributed_version,
                     "; run the same build on every task"});
    if (its.cluster_hash != cluster_.hash()) {
      if (const auto rank = find(its.from))
        members_.set_note(*rank, str_cat({"it uses another cluster, '", its.cluster, "'"}));
      return refuse(error_code::failed_precondition,
                    {peer, " and ", name(), " were given different clusters: '", its.cluster, "' and '",
                     to_string(cluster_), "'; give every task the same addresses"});
    }
    if (!(its.to == self_))
      return refuse(error_code::failed_precondition,
                    {peer, " expected ", to_string(its.to), " at ", to_string(here), ", but ", name(),
                     " listens there; give every task the same addresses"});
    const auto rank = find(its.from);
    if (!rank || *rank == members_.self())
      return refuse(error_code::failed_precondition, {peer, " is ",
                                                      rank ? "this task itself; start every task with its own index"
                                                           : "not in the cluster; give every task the same addresses"});
    if (its.given_up == incarnation_)  // the peer also notifies this task on their existing connection
      return refuse(error_code::aborted, {peer, " declared ", name(), " lost"});
    if (members_.state(*rank) == task_state::alive && members_.incarnation(*rank) != its.incarnation)
      return refuse(error_code::unavailable,
                    {"another process is already ", peer, "; stop it, or give this one its own index"});
    if (members_.is_given_up(*rank, its.incarnation))
      return refuse(error_code::aborted,
                    {peer, " was declared lost (it ", members_.reason(*rank, its.incarnation), "); start it again"});
    return {};
  }

 private:
  /// With certificates, a secret is not necessary, so the default is a public constant.
  cluster_secret usual_secret() const {
    if (!options_.tls) return detail::usual_secret(network_);
    if (auto given = cluster_secret::from_environment()) return *given;
    return cluster_secret("tasks that have certificates");
  }

  std::uint64_t random_incarnation() const {
    std::array<std::byte, 8> bytes;
    fill_random(network_, bytes);
    return get_little<std::uint64_t>(bytes.data()) | 1u;
  }

  handshake_nonce nonce() const {
    handshake_nonce random;
    fill_random(network_, random);
    return random;
  }

  const cluster_spec& cluster_;
  task_id self_;
  membership& members_;
  const server_options& options_;
  any_transport& network_;
  cluster_secret secret_;
  std::uint64_t incarnation_;
};

}  // namespace detail
}  // namespace weft
