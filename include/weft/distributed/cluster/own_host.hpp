// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include <weft/distributed/cluster/environment_variable.hpp>
#include <weft/error.hpp>
#include <weft/transport/endpoint.hpp>
#include <weft/transport/owned_descriptor.hpp>

namespace weft::detail {

/// Returns a host name or address without a port; brackets around an IPv6 address are optional. `remedy`: appended to
/// the error for a host with a port.
inline std::string host_in(const environment_variable& from, const char* remedy) {
  const std::string_view host = from.value;
  const bool is_bare_ipv6 = is_ipv6_address(host);
  if (const std::size_t colon = host.rfind(':'); colon != std::string_view::npos && !is_bare_ipv6) {
    const std::string_view before = host.substr(0, colon), port = host.substr(colon + 1);
    const bool is_port = !port.empty() && port.find_first_not_of("0123456789") == std::string_view::npos;
    if (is_port && (before.find(':') == std::string_view::npos || before.ends_with(']')))
      from.fail({"has a port; write only the host", remedy});
  }
  try {
    return parse_endpoint(str_cat({is_bare_ipv6 ? "[" : "", from.value, is_bare_ipv6 ? "]" : "", ":0"})).host;
  } catch (const error&) {
    from.fail({"is not a host name or address"});
  }
}

/// Returns the host name or address that the user has set for this task; empty if there is none.
inline std::string given_host(const std::string& option = {}) {
  constexpr const char* remedy = "; tasks find free ports themselves";
  if (!option.empty()) return host_in({"environment_options::host", option}, remedy);
  if (const auto host = variable_of("WEFT_HOST")) return host_in(*host, remedy);
  return {};
}

/// Returns the name by which other tasks can reach this host.
inline std::string name_of_host() {
  if (std::string given = given_host(); !given.empty()) return given;
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// Returns true if this machine has the numeric address `text`.
inline bool has_address(const std::string& text) {
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  v4.sin_family = AF_INET, v6.sin6_family = AF_INET6;
  const bool is_v4 = ::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1;
  if (!is_v4 && ::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) != 1) return false;
  const owned_descriptor socket(::socket(is_v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return false;
  return (is_v4 ? ::bind(socket.get(), reinterpret_cast<sockaddr*>(&v4), sizeof v4)
                : ::bind(socket.get(), reinterpret_cast<sockaddr*>(&v6), sizeof v6)) == 0;
}

/// Returns true if `listed` is this host, named `own`. The names can differ by the domain.
inline bool is_this_host(const std::string& listed, const std::string& own) {
  const auto first_label = [](const std::string& name) { return name.substr(0, name.find('.')); };
  return listed == own || is_loopback(listed) || has_address(listed) || listed == first_label(own) ||
         first_label(listed) == own;
}

}  // namespace weft::detail
