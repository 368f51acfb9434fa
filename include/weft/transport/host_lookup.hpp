#pragma once

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/error.hpp>

namespace weft {

/// Looks up the addresses of hosts. The system's lookup waits for as long as its configuration says, half a minute
/// where no server of names answers; so it runs on a thread of its own, and nobody waits longer than asked.
class host_lookup {
 public:
  using address = boost::asio::ip::address;

  /// The host's addresses in the system's order (RFC 6724): at once where the text is one, or localhost. The addresses
  /// that were found are remembered for half a minute, and count while they are looked up again.
  /// Throws weft::error: not_found where no host has the name; unavailable where no server of names answers, or not
  /// within `time`. The lookup then goes on, and a caller that asks again gets its answer.
  std::vector<address> find(const std::string& host, std::chrono::milliseconds time) {
    boost::system::error_code no_address;
    const address literal = boost::asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, no_address);
    if (!no_address) return {literal};
    const std::shared_ptr<answer> awaited = ask(host);
    const deadline until = time;
    std::unique_lock lock(awaited->mutex);
    while (!awaited->now && !until.expired())
      detail::sleep(awaited->changed, lock, until.remaining(std::chrono::milliseconds(50)));
    const std::optional<result>& known = awaited->now ? awaited->now : awaited->before;
    if (!known)
      throw error(error_code::unavailable, "lookup",
                  {"the addresses of ", host,
                   " are still looked up; look at the configuration of names (resolv.conf) "
                   "if that goes on"});
    if (known->found.empty()) {
      if (awaited->now) awaited->outdated = true;
      throw error(known->passing ? error_code::unavailable : error_code::not_found, "lookup",
                  {"no address is known for the host ", host, " (", known->problem,
                   "); correct the name, or write its address"});
    }
    return known->found;
  }

  /// It did not lead to anybody: the next caller that asks has it looked up again.
  void forget(const std::string& host) {
    std::lock_guard lock(mutex_);
    const auto kept = answers_.find(host);
    if (kept == answers_.end()) return;
    std::lock_guard its_lock(kept->second->mutex);
    if (kept->second->now) kept->second->outdated = true;
  }

 private:
  static constexpr std::chrono::seconds lasts{30};
  static constexpr std::size_t max_remembered = 1 << 16;

  struct result {
    std::vector<address> found = {};
    std::string problem = {};
    bool passing = false;  // whether it may be otherwise soon
  };

  struct answer {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<result> before, now;  // that of the lookup before this one, and its own
    bool outdated = false;              // the next caller that asks has it looked up again
    std::chrono::steady_clock::time_point asked = std::chrono::steady_clock::now();

    void conclude(result found) {
      std::lock_guard lock(mutex);
      now = std::move(found);
      changed.notify_all();
    }
  };

  std::shared_ptr<answer> ask(const std::string& host) {
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
      std::thread(look_up, host, kept).detach();  // it holds all that it needs, however long it takes
    } catch (const std::system_error&) {
      kept->conclude({.problem = "there are too many threads", .passing = true});
    }
    return kept;
  }

  static void look_up(const std::string& host, const std::shared_ptr<answer>& to) {
    result here;
    try {
      boost::asio::io_context context;
      boost::system::error_code problem;
      const auto results = boost::asio::ip::tcp::resolver(context).resolve(
          host, "0", boost::asio::ip::tcp::resolver::numeric_service, problem);
      for (const auto& each : results)
        if (std::find(here.found.begin(), here.found.end(), each.endpoint().address()) == here.found.end())
          here.found.push_back(each.endpoint().address());
      here.passing = problem && problem != boost::asio::error::host_not_found;
      here.problem = problem ? problem.message() : "it has none";
    } catch (const std::exception& e) {
      here.problem = e.what();
    }
    to->conclude(std::move(here));
  }

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<answer>> answers_;
};

}  // namespace weft
