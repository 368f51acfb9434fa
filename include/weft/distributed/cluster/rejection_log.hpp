// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <weft/error.hpp>
#include <weft/transport/any_transport.hpp>

namespace weft::detail {

/// Reports rejected connections to a handler or to stderr immediately, while the task continues to wait: a stranger
/// must not stop it. Reports each reason once, and at most 16 reasons, because strangers control the number of
/// connections.
class rejection_log {
 public:
  using handler = std::function<void(const error&)>;

  /// `name`: the task's name, used as the operation of the errors.
  rejection_log(std::string name, handler to) : name_(std::move(name)), to_(std::move(to)) {}

  void report(error_code code, const std::string& why) {
    if (reported_.size() >= max_reports || std::find(reported_.begin(), reported_.end(), why) != reported_.end())
      return;
    reported_.push_back(why);
    const error rejected(code, name_, why);
    if (to_)
      to_(rejected);
    else
      std::fprintf(stderr, "weft: %s\n", rejected.what());
  }

 private:
  static constexpr std::size_t max_reports = 16;

  std::string name_;
  handler to_;
  std::vector<std::string> reported_;
};

/// Returns " from 10.0.0.2" if the transport knows the remote host, or else an empty text.
inline std::string coming_from(const any_transport::stream& stream) {
  const std::string host = stream.remote_host();
  return host.empty() ? host : str_cat({" from ", host});
}

}  // namespace weft::detail
