// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include <weft/error.hpp>

namespace weft {

/// The address of a listening task: a host (name, IPv4, or IPv6 without brackets) and a port. Port 0 requests any free
/// port.
struct endpoint {
  std::string host;
  std::uint16_t port = 0;

  friend bool operator==(const endpoint&, const endpoint&) = default;
};

/// Returns true for a numeric IPv6 address, with or without a zone: "::1", "fe80::1%eth0".
inline bool is_ipv6_address(std::string_view host) {
  in6_addr address{};
  return ::inet_pton(AF_INET6, std::string(host.substr(0, host.find('%'))).c_str(), &address) == 1;
}

/// Returns "host:port", with brackets around an IPv6 host.
inline std::string to_string(const endpoint& where) {
  const bool ipv6 = where.host.find(':') != std::string::npos;
  return str_cat({(ipv6 ? str_cat({"[", where.host, "]"}) : where.host), ":", where.port});
}

/// Parses "host:port" or "[ipv6]:port". Throws weft::error (invalid_argument), which quotes the text.
inline endpoint parse_endpoint(std::string_view text) {
  const auto fail = [&](const std::string& why) {
    throw error(error_code::invalid_argument, "address",
                {"'", std::string(text), "' is not host:port: ", why, " (example: 127.0.0.1:2222)"});
  };
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) fail("the port is missing");
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
    if (!is_ipv6_address(host)) fail("only an IPv6 address can be in brackets");
  } else if (host.find(':') != std::string_view::npos) {
    fail("write an IPv6 host in brackets");
  }
  if (host.empty()) fail("the host is missing");
  const auto acceptable = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
           c == '_' || c == ':' || c == '%';
  };
  if (!std::all_of(host.begin(), host.end(), acceptable))
    fail("the host contains a character that host names cannot contain");
  endpoint result{std::string(host), 0};
  const auto [end, problem] = std::from_chars(port.data(), port.data() + port.size(), result.port);
  if (port.empty() || problem != std::errc{} || end != port.data() + port.size())
    fail("the port must be a number from 0 to 65535");
  return result;
}

/// Returns true if `host` names this machine's loopback interface: localhost, 127.x.y.z or ::1. Examines only the text.
inline bool is_loopback(std::string_view host) {
  if (host == "localhost" || host == "::1") return true;
  if (!host.starts_with("127.")) return false;
  int parts = 0;
  for (std::size_t at = 0; at <= host.size();) {
    const auto end = std::min(host.find('.', at), host.size());
    unsigned value = 0;
    const auto [stop, problem] = std::from_chars(host.data() + at, host.data() + end, value);
    if (problem != std::errc{} || stop != host.data() + end || value > 255) return false;
    if (end - at > 1 && host[at] == '0') return false;  // octal on some systems, an error on others
    ++parts;
    at = end + 1;
  }
  return parts == 4;
}

}  // namespace weft
