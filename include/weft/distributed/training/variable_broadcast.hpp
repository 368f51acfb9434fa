// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/graph/variables.hpp>
#include <weft/session/session.hpp>

namespace weft::detail {

/// Copies the bytes of rank `source` to all ranks. A group that can only sum gets numbers of 48 bits, to which the
/// other ranks add 0.
template <class Group>
void broadcast_bytes(Group& group, std::span<std::byte> bytes, std::size_t source, deadline until) {
  if constexpr (requires { group.broadcast(bytes, source, until); }) {
    group.broadcast(bytes, source, until);
  } else {
    constexpr std::size_t in_one = 6;
    std::vector<double> words((bytes.size() + in_one - 1) / in_one, 0.0);
    const auto piece = [&](std::size_t k) {
      return bytes.subspan(k * in_one, std::min(in_one, bytes.size() - k * in_one));
    };
    for (std::size_t k = 0; group.rank() == source && k < words.size(); ++k) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, piece(k).data(), piece(k).size());
      words[k] = static_cast<double>(bits);
    }
    group.sum(std::span<double>(words), until);
    for (std::size_t k = 0; k < words.size(); ++k) {
      const auto bits = static_cast<std::uint64_t>(words[k]);
      std::memcpy(piece(k).data(), &bits, piece(k).size());
    }
  }
}

/// Copies the variables of rank `source` to all ranks, one after the other. `read(variable, to)` reads the value on the
/// source; `take(variable, bytes)` is called on every rank. The last byte is 1 if the variable is initialized.
template <class Group, class Read, class Take>
void broadcast_variables(Group& group, session& local, const graph& g, std::size_t source, deadline until, Read read,
                         Take take) {
  std::vector<std::byte> bytes;
  for (std::uint32_t n = 0; n < g.size(); ++n) {
    if (!is_operation<variable_op>(g[n].def.op)) continue;
    bytes.assign(local.variable_info(n).bytes() + 1, {});
    if (group.rank() == source) {
      read(n, bytes.data());
      bytes.back() = static_cast<std::byte>(local.state_of(n).initialized);
    }
    broadcast_bytes(group, bytes, source, until);
    take(n, bytes);
  }
}

inline void write_variable(session& local, std::uint32_t variable, const std::vector<std::byte>& bytes) {
  local.write_variable(variable, bytes.data());
  local.state_of(variable).initialized = bytes.back() != std::byte{0};
}

}  // namespace weft::detail
