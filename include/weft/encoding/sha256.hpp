// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>

#include <weft/config.hpp>

namespace weft {

using sha256_digest = std::array<std::byte, 32>;

/// SHA-256 (FIPS 180-4), for the few hundred bytes of a handshake; later traffic is not hashed. A library would be
/// faster for gigabytes, but every program would depend on it.
class sha256 {
 public:
  sha256& update(std::span<const std::byte> bytes) {
    length_ += bytes.size();
    while (!bytes.empty()) {
      const std::size_t n = bytes.size() < block_.size() - filled_ ? bytes.size() : block_.size() - filled_;
      std::memcpy(block_.data() + filled_, bytes.data(), n);
      filled_ += n;
      bytes = bytes.subspan(n);
      if (filled_ == block_.size()) compress();
    }
    return *this;
  }

  /// Returns the digest of all bytes given. The object must not be used afterwards.
  sha256_digest finish() {
    const std::uint64_t bits = 8 * length_;
    block_[filled_++] = std::byte{0x80};
    if (filled_ > 56) {
      std::memset(block_.data() + filled_, 0, block_.size() - filled_);
      compress();
    }
    std::memset(block_.data() + filled_, 0, 56 - filled_);
    for (std::size_t i = 0; i < 8; ++i) block_[56 + i] = static_cast<std::byte>(bits >> (56 - 8 * i));
    compress();
    sha256_digest digest;
    for (std::size_t i = 0; i < digest.size(); ++i)
      digest[i] = static_cast<std::byte>(state_[i / 4] >> (24 - 8 * (i % 4)));
    return digest;
  }

  static constexpr std::size_t block_size = 64;

 private:
  static constexpr std::array<std::uint32_t, 64> constants{
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
      0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
      0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
      0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
      0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
      0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
      0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

  void compress() {
    std::array<std::uint32_t, 64> w;
    for (std::size_t i = 0; i < 16; ++i) {
      w[i] = 0;
      for (std::size_t k = 0; k < 4; ++k) w[i] = w[i] << 8 | std::to_integer<std::uint32_t>(block_[4 * i + k]);
    }
    for (std::size_t i = 16; i < 64; ++i) {
      const std::uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) + w[i - 7] +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (std::size_t i = 0; i < 64; ++i) {
      const std::uint32_t first =
          h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + constants[i] + w[i];
      const std::uint32_t second =
          (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
    }
    const std::array<std::uint32_t, 8> sum{a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < 8; ++i) state_[i] += sum[i];
    filled_ = 0;
  }

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, block_size> block_{};
  std::size_t filled_ = 0;
  std::uint64_t length_ = 0;
};

/// HMAC-SHA-256 (RFC 2104) with one key: a digest that only holders of the key can compute.
class hmac_sha256 {
 public:
  explicit hmac_sha256(std::span<const std::byte> key) {
    std::array<std::byte, sha256::block_size> padded{};
    if (key.size() > padded.size()) {
      const sha256_digest shorter = sha256().update(key).finish();
      std::memcpy(padded.data(), shorter.data(), shorter.size());
    } else if (!key.empty()) {
      std::memcpy(padded.data(), key.data(), key.size());
    }
    for (std::byte& each : padded) each ^= std::byte{0x36};
    inner_.update(padded);
    for (std::byte& each : padded) each ^= std::byte{0x36 ^ 0x5c};
    outer_.update(padded);
  }

  /// Returns the HMAC of the concatenated pieces.
  sha256_digest operator()(std::initializer_list<std::span<const std::byte>> pieces) const {
    sha256 inner = inner_, outer = outer_;
    for (const auto& piece : pieces) inner.update(piece);
    return outer.update(inner.finish()).finish();
  }

 private:
  sha256 inner_, outer_;  // hash states after the padded key
};

/// Compares two digests in constant time, so that the time does not reveal the position of the first difference.
inline bool same_digest(std::span<const std::byte> a, std::span<const std::byte> b) {
  if (a.size() != b.size()) return false;
  std::byte different{0};
  for (std::size_t i = 0; i < a.size(); ++i) {
    different |= a[i] ^ b[i];
    asm volatile("" : "+r"(different));  // keeps the compiler from leaving the loop early
  }
  return different == std::byte{0};
}

}  // namespace weft
