// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/handshake.hpp>
#include <weft/distributed/cluster/launchers/host_list.hpp>
#include <weft/distributed/cluster/rendezvous_host.hpp>
#include <weft/distributed/cluster/secret.hpp>
#include <weft/distributed/cluster/wait_log.hpp>
#include <weft/encoding/file.hpp>
#include <weft/error.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/message_stream.hpp>
#include <weft/transport/owned_descriptor.hpp>
#include <weft/transport/tcp.hpp>
#include <weft/transport/waiter.hpp>

namespace weft {

/// A rendezvous: tasks that know only their ranks exchange their addresses.
struct rendezvous {
  int rank = 0, size = 1;
  std::string host;       ///< this host's name or address for other tasks
  cluster_secret secret;  ///< the secret that all tasks prove to know, for through_first()
  deadline until = std::chrono::minutes(1);
  std::function<void(const wait_change&)> on_wait = {};  ///< default: a line on stderr

  /// The addresses of all tasks, by rank, and this task's listening socket.
  struct result {
    std::vector<endpoint> tasks;
    std::shared_ptr<const owned_descriptor> listening;
  };

  /// Uses files in a folder that all tasks can access, such as a cluster's /home; `job` distinguishes runs that share
  /// the folder. Creates a subfolder, which must belong to this user alone, and removes it after the rendezvous.
  ///
  /// Files of an earlier run do no harm: each task has a random number, rank 0 repeats the numbers that it has read,
  /// and the other tasks confirm the number of rank 0 before it completes the list. Throws weft::error:
  /// deadline_exceeded with the missing ranks, permission_denied if other users can write to the folder, unavailable if
  /// this process cannot.
  result through_folder(const std::string& folder, const std::string& job) const;

  /// Uses the task of rank 0, which listens at `first`; all tasks prove that they know the secret. Throws weft::error:
  /// deadline_exceeded with the missing ranks, unauthenticated if the process at `first` has another secret,
  /// permission_denied beyond loopback without a given secret, failed_precondition if tasks disagree about their
  /// number.
  result through_first(const endpoint& first) const;
};

namespace detail {

/// A socket that listens at a free port of `host`.
struct fresh_socket {
  tcp::listener listener;
  std::shared_ptr<const owned_descriptor> descriptor;
  endpoint address;

  fresh_socket(tcp& network, const std::string& host) : listener(network.listen({host, 0})) {
    descriptor = std::make_shared<owned_descriptor>(::fcntl(listener.descriptor(), F_DUPFD_CLOEXEC, 0));
    if (descriptor->get() < 0)
      throw error(error_code::resource_exhausted, "rendezvous", {"cannot open a socket: ", std::strerror(errno)});
    address = listener.address();
    listener.close();
  }
};

inline tcp network_of(const rendezvous& meeting) {
  tcp network;
  if (meeting.secret.is_given()) network.allow_other_hosts();
  return network;
}

inline std::string random_word() {
  std::array<std::byte, 16> bytes;
  fill_random(bytes);
  return hexadecimal(bytes);
}

inline start_report report_of(const rendezvous& meeting) {
  return {str_cat({"rank ", meeting.rank}), meeting.on_wait, meeting.until};
}

[[noreturn]] inline void fail_to_meet(const std::vector<int>& missing, const std::string& where, int size) {
  throw error(error_code::deadline_exceeded, "rendezvous",
              {names_of_ranks(missing), " of ", size, " did not write to ", where,
               " in time; start them, or check their logs if they ended"});
}

/// A folder with one text file for each rank. Files are replaced atomically.
class rendezvous_folder {
 public:
  rendezvous_folder(const std::string& parent, const std::string& job) {
    path_ = parent + "/weft-" + as_file_name(job);
    if (::mkdir(path_.c_str(), S_IRWXU) != 0 && errno != EEXIST) fail_on_file("write", path_, errno);
    struct stat status{};
    if (::lstat(path_.c_str(), &status) != 0) fail_on_file("read", path_, errno);
    if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
      throw error(error_code::permission_denied, "rendezvous",
                  {path_, " must be a folder that this user owns and nobody else can write to; remove it"});
  }

  const std::string& path() const { return path_; }

  void write(int rank, const std::string& text) const {
    atomic_file file(name(rank), text.size());
    file.write(text.data(), text.size());
    file.commit();
  }

  /// Returns the lines of a rank's file, each split into words; empty if there is no valid file.
  std::vector<std::vector<std::string>> read(int rank) const {
    const descriptor file(::open(name(rank).c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC));
    struct stat status{};
    if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != ::geteuid() ||
        status.st_size > max_bytes)
      return {};
    std::string text(static_cast<std::size_t>(status.st_size), '\0');
    const ssize_t size = ::read(file.get(), text.data(), text.size());
    if (size != static_cast<ssize_t>(text.size())) return {};
    std::vector<std::vector<std::string>> lines;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      lines.emplace_back();
      while (begin < end) {
        const std::size_t space = std::min(text.find(' ', begin), end);
        lines.back().push_back(text.substr(begin, space - begin));
        begin = space + 1;
      }
      begin = end + 1;
    }
    return lines;
  }

  bool has(int rank) const { return ::access(name(rank).c_str(), F_OK) == 0; }
  void remove(int rank) const { ::unlink(name(rank).c_str()); }
  void remove_folder() const { ::rmdir(path_.c_str()); }

 private:
  static constexpr off_t max_bytes = 64 << 20;

  std::string name(int rank) const { return str_cat({path_, "/", rank}); }

  static std::string as_file_name(const std::string& job) {
    std::string name;
    for (const char c : job.substr(0, 200))
      name +=
          (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ? c : '_';
    return name;
  }

  std::string path_;
};

/// The contents of a rank's file: its random number, its address, and the number of rank 0 that it has confirmed.
struct rendezvous_entry {
  std::string number, address, confirmed;

  std::string text(int size) const {
    return str_cat({"weft ", size, "\n", number, " ", address, " ", confirmed, "\n"});
  }
  static std::optional<rendezvous_entry> read(const std::vector<std::vector<std::string>>& lines, int size) {
    if (lines.size() != 2 || lines[0] != std::vector<std::string>{"weft", std::to_string(size)} || lines[1].size() != 3)
      return {};
    return rendezvous_entry{lines[1][0], lines[1][1], lines[1][2]};
  }
};

/// Pauses between polls, for longer while nothing changes.
class patience {
 public:
  void pause() {
    sleep(step_);
    if (step_ < std::chrono::milliseconds(200)) step_ += step_ / 4;
  }
  void reset() { step_ = std::chrono::milliseconds(2); }
  /// Returns true once a second. Writing to the folder makes an NFS client forget cached "file not found" results.
  bool to_be_repeated() {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::seconds(1)) return false;
    last_ = now;
    return true;
  }

 private:
  std::chrono::microseconds step_{2000};
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

inline std::vector<endpoint> lead_through_folder(const rendezvous& meeting, const rendezvous_folder& folder,
                                                 const std::string& address) {
  const auto size = static_cast<std::size_t>(meeting.size);
  const std::string number = random_word();
  std::vector<rendezvous_entry> entries(size);
  entries[0] = {number, address, number};
  const auto publish = [&](bool complete) {
    std::string text = str_cat({"weft ", meeting.size, "\n", number, complete ? " complete\n" : " open\n"});
    for (const rendezvous_entry& each : entries)
      append(text, {each.number.empty() ? "-" : each.number, " ", each.address.empty() ? "-" : each.address, "\n"});
    folder.write(0, text);
  };
  publish(false);
  start_report report = report_of(meeting);
  for (patience idle;;) {
    bool changed = false;
    std::vector<int> missing;
    for (int rank = 1; rank < meeting.size; ++rank) {
      rendezvous_entry& known = entries[static_cast<std::size_t>(rank)];
      if (const auto read = rendezvous_entry::read(folder.read(rank), meeting.size); read) {
        changed |= read->number != known.number;
        known = *read;
      }
      if (known.confirmed != number) missing.push_back(rank);
    }
    if (missing.empty()) break;
    if (meeting.until.expired()) fail_to_meet(missing, folder.path(), meeting.size);
    report.look([&] { return str_cat({names_of_ranks(missing), " of ", meeting.size, " in ", folder.path()}); });
    if (changed) idle.reset();
    if (changed || idle.to_be_repeated()) publish(false);
    idle.pause();
  }
  publish(true);
  report.end();
  std::vector<endpoint> tasks;
  for (const rendezvous_entry& each : entries) tasks.push_back(parse_endpoint(each.address));
  // The other tasks remove their files when they have read the list. A task that has died in the meantime does not.
  const deadline briefly = std::chrono::seconds(2);
  for (int rank = 1; rank < meeting.size && !briefly.expired(); ++rank)
    for (patience idle; folder.has(rank) && !briefly.expired();) idle.pause();
  folder.remove(0);
  folder.remove_folder();
  return tasks;
}

inline std::vector<endpoint> follow_through_folder(const rendezvous& meeting, const rendezvous_folder& folder,
                                                   const std::string& address) {
  rendezvous_entry mine{random_word(), address, "-"};
  folder.write(meeting.rank, mine.text(meeting.size));
  const auto missing_ranks = [&] {
    std::vector<int> missing;
    for (int rank = 0; rank < meeting.size; ++rank)
      if (!folder.has(rank)) missing.push_back(rank);
    if (missing.empty()) missing.push_back(0);
    return missing;
  };
  start_report report = report_of(meeting);
  for (patience idle;;) {
    const auto lines = folder.read(0);
    const auto my_line = static_cast<std::size_t>(meeting.rank) + 2;
    const bool is_mine = lines.size() == static_cast<std::size_t>(meeting.size) + 2 && lines[1].size() == 2 &&
                         lines[my_line].size() == 2 && lines[my_line][0] == mine.number;
    if (is_mine && lines[1][1] == "complete" && lines[1][0] == mine.confirmed) {
      std::vector<endpoint> tasks;
      for (std::size_t i = 2; i < lines.size(); ++i)
        tasks.push_back(parse_endpoint(lines[i].size() == 2 ? lines[i][1] : ""));
      folder.remove(meeting.rank);
      report.end();
      return tasks;
    }
    const bool to_confirm = is_mine && lines[1][0] != mine.confirmed;
    if (to_confirm) mine.confirmed = lines[1][0];
    if (meeting.until.expired()) fail_to_meet(missing_ranks(), folder.path(), meeting.size);
    report.look(
        [&] { return str_cat({names_of_ranks(missing_ranks()), " of ", meeting.size, " in ", folder.path()}); });
    if (to_confirm || idle.to_be_repeated()) folder.write(meeting.rank, mine.text(meeting.size));
    if (to_confirm) idle.reset();
    idle.pause();
  }
}

inline constexpr std::size_t max_rendezvous_bytes = 64 << 20;

/// Returns the local address of the connection.
inline std::string local_host(const tcp::stream& stream) {
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  std::array<char, 256> host{};
  if (::getsockname(stream.descriptor(), reinterpret_cast<sockaddr*>(&local), &length) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&local), length, host.data(), host.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0)
    throw error(error_code::unavailable, "rendezvous", "the connection to rank 0 has no address of this host");
  return host.data();
}

/// Rejects the process that has answered, and waits until it has read the rejection.
inline void reject_host(handshake& words, const error& why) {
  try {
    words.reject(why);
    for (const deadline briefly = std::chrono::milliseconds(250); !briefly.expired(); words.advance())
      sleep(std::chrono::milliseconds(1));
  } catch (const error&) {
    // the other side has closed the connection
  }
}

/// Returns nothing if the connection ends before a proof: rank 0 has not started yet, or is restarting.
inline std::optional<rendezvous::result> follow_through_first(const rendezvous& meeting, tcp& network,
                                                              const endpoint& first, start_report& report,
                                                              std::string& note) {
  using talk = handshake;
  tcp::stream stream;
  try {
    stream = network.connect(first, std::chrono::milliseconds(1000));
  } catch (const error& problem) {
    if (problem.code() != error_code::unavailable && problem.code() != error_code::not_found) throw;
    note = problem.sentence();
    return {};
  }
  const fresh_socket own(network, meeting.host.empty() ? local_host(stream) : meeting.host);
  handshake_nonce nonce;
  fill_random(nonce);
  talk words = talk::dialling(any_transport::stream::of<tcp>(std::move(stream)), meeting.secret.proof(), nonce);
  waiter idle(network, {});
  const auto wait = [&](const any_transport::stream& from, bool sends) {
    if (meeting.until.expired())
      throw error(error_code::deadline_exceeded, "rendezvous",
                  {"rank 0 at ", to_string(first),
                   " still waits for other tasks; start them, or check their logs if they ended"});
    report.look([&] { return str_cat({"rank 0 at ", to_string(first), ", which waits for others"}); });
    any_transport::wait_item item{&from, true, sends};
    idle.pause({&item, 1}, meeting.until);
  };
  try {
    while (words.at() != talk::phase::over) {
      if (words.advance() == 0) wait(words.stream(), words.is_sending());
      if (words.at() != talk::phase::challenged) continue;
      if (!words.proves(to_string(task_id{rendezvous_job, 0}))) {
        const std::string where = str_cat({"the process listening at ", to_string(first)});
        const error why =
            words.knows_secret()
                ? error(error_code::failed_precondition, "rendezvous",
                        {where,
                         " has already met its cluster and is not rank 0 of this run; give each run its own address"})
                : error(error_code::unauthenticated, "rendezvous",
                        {where, " does not have this task's secret (", meeting.secret.origin(),
                         "); give all tasks the same secret"});
        reject_host(words, why);
        throw why;
      }
      words.introduce(rendezvous_words(meeting.size, meeting.rank, 0, to_string(own.address)));
    }
    if (words.refusal()) throw error(words.refusal()->code(), "rendezvous", words.refusal()->sentence());
    message_stream list(std::move(words.stream()), max_rendezvous_bytes);
    while (!list.receive()) wait(list.stream(), false);
    const std::vector<std::byte>& bytes = list.payload();
    if (digest_of(bytes) != words.other()->cluster)
      throw error(error_code::data_loss, "rendezvous", "the list of tasks does not match the digest from rank 0");
    rendezvous::result found{{}, own.descriptor};
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      found.tasks.push_back(parse_endpoint(text.substr(at, end - at)));
      at = end + 1;
    }
    return found;
  } catch (const error& problem) {
    if (problem.code() != error_code::unavailable) throw;
    note = str_cat({"the process at ", to_string(first), " closed the connection"});
    return {};
  }
}

}  // namespace detail

inline rendezvous::result rendezvous::through_folder(const std::string& folder, const std::string& job) const {
  tcp network;
  network.allow_other_hosts();  // the server checks secrets or certificates before it accepts a connection
  const detail::fresh_socket own(network, host);
  const detail::rendezvous_folder files(folder, job);
  const std::string address = to_string(own.address);
  return {rank == 0 ? detail::lead_through_folder(*this, files, address)
                    : detail::follow_through_folder(*this, files, address),
          own.descriptor};
}

inline rendezvous::result rendezvous::through_first(const endpoint& first) const {
  tcp network = detail::network_of(*this);
  if (rank == 0) {
    const detail::fresh_socket own(network, host.empty() ? first.host : host);
    detail::start_report report = detail::report_of(*this);
    return {detail::rendezvous_host(any_transport(network), first, own.address, size, secret).run(until, report),
            own.descriptor};
  }
  std::string note;
  detail::start_report report = detail::report_of(*this);
  for (detail::patience idle; !until.expired(); idle.pause()) {
    if (auto found = detail::follow_through_first(*this, network, first, report, note)) {
      report.end();
      return *found;
    }
    report.look([&] { return str_cat({"rank 0 of ", size, " (", note, ")"}); });
  }
  throw error(error_code::deadline_exceeded, "rendezvous",
              {"rank 0 of ", size, " was not reached at ", to_string(first), " in time: ", note,
               "; start it, or correct the address"});
}

}  // namespace weft
