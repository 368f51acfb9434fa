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

  /// The host's addresses in the system's order (RFC 6724): at once where the text is one, or localhost. What was found
  /// is remembered for half a minute.
  /// Throws weft::error: not_found where no host has the name; unavailable where no server of names answers, or not
  /// within `time`. The lookup then goes on, and whoever asks again gets its answer.
  std::vector<address> find(const std::string& host, std::chrono::milliseconds time) {
    boost::system::error_code no_address;
    const address literal = boost::asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, no_address);
    if (!no_address) return {literal};
    const std::shared_ptr<answer> awaited = ask(host);
    const deadline until = time;
    std::unique_lock lock(awaited->mutex);
    while (!awaited->done) {
      if (until.expired())
        throw error(error_code::unavailable, "lookup",
                    {"the addresses of ", host,
                     " are still looked up; look at the configuration of names (resolv.conf) "
                     "if that goes on"});
      detail::sleep(awaited->changed, lock, until.remaining(std::chrono::milliseconds(50)));
    }
    if (awaited->found.empty()) {
      forget(host, awaited);
      throw error(awaited->passing ? error_code::unavailable : error_code::not_found, "lookup",
                  {"no address is known for the host ", host, " (", awaited->problem,
                   "); correct the name, or write its address"});
    }
    return awaited->found;
  }

  /// It did not lead to anybody: the next who asks has it looked up again.
  void forget(const std::string& host) { forget(host, nullptr); }

 private:
  static constexpr std::chrono::seconds lasts{30};
  static constexpr std::size_t max_remembered = 1 << 16;

  struct answer {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false, passing = false;  // whether it may be otherwise soon
    std::vector<address> found;
    std::string problem;
    std::chrono::steady_clock::time_point asked = std::chrono::steady_clock::now();

    void conclude(std::vector<address> addresses, std::string why, bool may_change) {
      std::lock_guard lock(mutex);
      passing = may_change;
      found = std::move(addresses);
      problem = std::move(why);
      done = true;
      changed.notify_all();
    }
  };

  std::shared_ptr<answer> ask(const std::string& host) {
    std::lock_guard lock(mutex_);
    if (answers_.size() > max_remembered) answers_.clear();
    std::shared_ptr<answer>& kept = answers_[host];
    if (kept && (std::chrono::steady_clock::now() - kept->asked < lasts || !is_done(*kept))) return kept;
    kept = std::make_shared<answer>();
    try {
      std::thread(look_up, host, kept).detach();  // it holds all that it needs, however long it takes
    } catch (const std::system_error&) {
      kept->conclude({}, "there are too many threads", true);
    }
    return kept;
  }

  void forget(const std::string& host, const std::shared_ptr<answer>& only) {
    std::lock_guard lock(mutex_);
    const auto kept = answers_.find(host);
    if (kept != answers_.end() && (only ? kept->second == only : is_done(*kept->second))) answers_.erase(kept);
  }

  static bool is_done(answer& each) {
    std::lock_guard lock(each.mutex);
    return each.done;
  }

  static void look_up(const std::string& host, const std::shared_ptr<answer>& to) {
    std::vector<address> found;
    std::string why;
    bool passing = false;
    try {
      boost::asio::io_context context;
      boost::system::error_code problem;
      const auto results = boost::asio::ip::tcp::resolver(context).resolve(
          host, "0", boost::asio::ip::tcp::resolver::numeric_service, problem);
      for (const auto& each : results)
        if (std::find(found.begin(), found.end(), each.endpoint().address()) == found.end())
          found.push_back(each.endpoint().address());
      passing = problem && problem != boost::asio::error::host_not_found;
      why = problem ? problem.message() : "it has none";
    } catch (const std::exception& e) {
      why = e.what();
    }
    to->conclude(std::move(found), std::move(why), passing);
  }

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<answer>> answers_;
};

}  // namespace weft
