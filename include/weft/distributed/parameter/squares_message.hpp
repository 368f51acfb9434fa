#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <weft/distributed/cluster/messages.hpp>

namespace weft::detail {

/// Sums of the squares of mean gradients. A parameter server sends those of its variables to parameter server 0, which
/// answers with those of all gradients that share a norm.
struct squares_message {
  std::int64_t step = -1;
  /// How many means of this step were refused because they were not finite. The workers then send other gradients.
  std::uint64_t attempt = 0;
  bool is_finite = true;  // the mean is
  std::vector<double> squares{};

  bool is_of(std::int64_t a_step, std::uint64_t an_attempt) const { return step == a_step && attempt == an_attempt; }

  std::vector<std::byte> bytes() const {
    message_writer out;
    out.number(step).number(attempt).number(static_cast<std::uint8_t>(is_finite));
    out.number(static_cast<std::uint32_t>(squares.size()));
    for (const double each : squares) out.real(each);
    return out.take();
  }
  static squares_message read(const_bytes bytes) {
    message_reader in(bytes);
    squares_message said;
    said.step = in.number<std::int64_t>();
    said.attempt = in.number<std::uint64_t>();
    said.is_finite = in.flag();
    const auto count = in.number<std::uint32_t>();
    if (said.step < 0 || count != in.left() / 8) message_reader::malformed();
    for (std::uint32_t k = 0; k < count; ++k) said.squares.push_back(in.real());
    in.end();
    return said;
  }
};

}  // namespace weft::detail
