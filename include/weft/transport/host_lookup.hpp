// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <weft/transport/separate.hpp>

#if WEFT_DISTRIBUTED_DEFINITIONS
  #include <algorithm>
  #include <boost/asio/ip/address.hpp>
  #include <boost/asio/ip/basic_resolver.hpp>
  #include <condition_variable>
  #include <exception>
  #include <optional>
  #include <system_error>
  #include <thread>
  #include <utility>

  #include <weft/deadline.hpp>
  #include <weft/error.hpp>
  #include <weft/transport/asio.hpp>
#endif

namespace weft {

/// Looks up the addresses of hosts. The system's lookup has its own time limit, half a minute if no name server
/// answers. It therefore runs on a separate thread, and no caller waits longer than requested.
class host_lookup {
 public:
  /// Returns the host's numeric addresses in the system's order (RFC 6724), immediately for a numeric address or
  /// localhost. Results are cached for half a minute, and used until a new lookup has finished.
  /// Throws weft::error: not_found if no host has the name; unavailable if no name server answers, or not within
  /// `time`. The lookup then continues, and a later call returns its result.
  std::vector<std::string> find(const std::string& host, std::chrono::milliseconds time);

  /// Marks the result as useless: the next call looks the host up again.
  void forget(const std::string& host);

 private:
  static constexpr std::chrono::seconds lasts{30};
  static constexpr std::size_t max_remembered = 1 << 16;

  struct result;
  struct answer;

  std::shared_ptr<answer> ask(const std::string& host);
  static void look_up(const std::string& host, const std::shared_ptr<answer>& to);

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<answer>> answers_;
};

#if WEFT_DISTRIBUTED_DEFINITIONS

struct host_lookup::result {
  std::vector<std::string> found = {};
  std::string problem = {};
  bool passing = false;  // the problem may be temporary
};

struct host_lookup::answer {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<result> before, now;  // results of the previous and of this lookup
  bool outdated = false;              // the next call looks the host up again
  std::chrono::steady_clock::time_point asked = std::chrono::steady_clock::now();

  void conclude(result found) {
    std::lock_guard lock(mutex);
    now = std::move(found);
    changed.notify_all();
  }
};

WEFT_DISTRIBUTED_DECL std::vector<std::string> host_lookup::find(const std::string& host,
                                                                 std::chrono::milliseconds time) {
  detail::asio_failure no_address;
  const auto literal = boost::asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, no_address);
  if (!no_address) return {literal.to_string()};
  const std::shared_ptr<answer> awaited = ask(host);
  const deadline until = time;
  std::unique_lock lock(awaited->mutex);
  while (!awaited->now && !until.expired())
    detail::sleep(awaited->changed, lock, until.remaining(std::chrono::milliseconds(50)));
  const std::optional<result>& known = awaited->now ? awaited->now : awaited->before;
  if (!known)
    throw error(
        error_code::unavailable, "lookup",
        {"the lookup of ", host, " has not finished yet; if this continues, check the name resolution (resolv.conf)"});
  if (known->found.empty()) {
    if (awaited->now) awaited->outdated = true;
    throw error(
        known->passing ? error_code::unavailable : error_code::not_found, "lookup",
        {"no address was found for the host ", host, " (", known->problem, "); correct the name, or give its address"});
  }
  return known->found;
}

WEFT_DISTRIBUTED_DECL void host_lookup::forget(const std::string& host) {
  std::lock_guard lock(mutex_);
  const auto kept = answers_.find(host);
  if (kept == answers_.end()) return;
  std::lock_guard its_lock(kept->second->mutex);
  if (kept->second->now) kept->second->outdated = true;
}

WEFT_DISTRIBUTED_DECL std::shared_ptr<host_lookup::answer> host_lookup::ask(const std::string& host) {
  std::lock_guard lock(mutex_);
  if (answers_.size() > max_remembered) answers_.clear();
  std::shared_ptr<answer>& kept = answers_[host];
  std::optional<result> before;
  if (kept) {
    std::lock_guard its_lock(kept->mutex);
    const bool is_old = kept->outdated || std::chrono::steady_clock::now() - kept->asked >= lasts;
    if (!kept->now || !is_old) return kept;
    before = kept->now;
  }
  kept = std::make_shared<answer>();
  kept->before = std::move(before);
  try {
    std::thread(look_up, host, kept).detach();  // owns all that it needs, for however long it takes
  } catch (const std::system_error&) {
    kept->conclude({.problem = "too many threads are running", .passing = true});
  }
  return kept;
}

WEFT_DISTRIBUTED_DECL void host_lookup::look_up(const std::string& host, const std::shared_ptr<answer>& to) {
  result here;
  try {
    using resolver = boost::asio::ip::basic_resolver<detail::asio_tcp, detail::asio_executor>;
    boost::asio::io_context context;
    detail::asio_failure problem;
    const auto results = resolver(context).resolve(host, "0", resolver::numeric_service, problem);
    for (const auto& each : results) {
      std::string address = each.endpoint().address().to_string();
      if (std::find(here.found.begin(), here.found.end(), address) == here.found.end())
        here.found.push_back(std::move(address));
    }
    here.passing = problem && problem != boost::asio::error::host_not_found;
    here.problem = problem ? problem.message() : "the name has no address";
  } catch (const std::exception& e) {
    here.passing = true;  // such as too little memory
    here.problem = e.what();
  }
  to->conclude(std::move(here));
}

#endif

}  // namespace weft
