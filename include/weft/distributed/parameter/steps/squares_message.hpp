// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <weft/distributed/cluster/message_fields.hpp>
#include <weft/distributed/parameter/parameter_spec.hpp>
#include <weft/transport/separate.hpp>

namespace weft::detail {

/// Sums of the squares of mean gradients. A parameter server sends the sums of its variables to parameter server 0,
/// which answers with a sum for each group of gradients that share a norm.
struct squares_message {
  std::int64_t step = -1;
  std::uint64_t attempt = 0;  // as in held_message
  bool is_finite = true;      // the mean is finite
  std::vector<double> squares{};

  bool is_of(std::int64_t a_step, std::uint64_t an_attempt) const { return step == a_step && attempt == an_attempt; }

  void fields(message_fields& io);
  std::vector<std::byte> bytes() const { return write_message(*this); }
  static squares_message read(const_bytes from) { return read_message<squares_message>(from); }
};

#if WEFT_DISTRIBUTED_DEFINITIONS
WEFT_DISTRIBUTED_DECL void squares_message::fields(message_fields& io) {
  io.number(step, 0).number(attempt).flag(is_finite);
  io.list(squares, max_parameters, [&](double& each) {
    io.real(each);
    io.must_hold(!is_finite || each >= 0);
  });
}
#endif

}  // namespace weft::detail
