// SPDX-License-Identifier: BSL-1.0
// Frames with tags: what arrives is what was sent, in that order, or an error.
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <memory>
#include <random>
#include <vector>
#include <weft/transport/framing.hpp>

#include "errors.hpp"

using namespace weft;

namespace {

/// One end of a connection that is a list of bytes. Reads and writes stop short at random places.
struct wire {
  std::vector<std::byte> bytes;
  std::size_t at = 0;
  std::size_t most = 1u << 20;  // in one call
  std::mt19937 random{1};
  std::unique_ptr<detail::frame_authentication> keys;

  detail::frame_authentication* authentication() const { return keys.get(); }
  std::size_t limit() { return most <= 1 ? most : 1 + random() % most; }

  std::size_t write_some(std::span<const const_bytes> from) {
    std::size_t room = limit(), moved = 0;
    for (const const_bytes piece : from) {
      const std::size_t n = std::min(room, piece.size());
      bytes.insert(bytes.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(n));
      moved += n, room -= n;
    }
    return moved;
  }
  std::size_t read_some(std::span<const mutable_bytes> into) {
    std::size_t room = std::min(limit(), bytes.size() - at), moved = 0;
    for (const mutable_bytes piece : into) {
      const std::size_t n = std::min(room, piece.size());
      if (n > 0) std::memcpy(piece.data(), bytes.data() + at, n);
      at += n, moved += n, room -= n;
    }
    return moved;
  }
  bool is_open() const { return true; }
  void close() {}
};

std::array<std::byte, 20> key(unsigned char first) {
  std::array<std::byte, 20> made{};
  made[0] = std::byte{first};
  return made;
}

/// With keys, unless one of them is 0.
wire with_keys(unsigned char sends, unsigned char receives) {
  wire made;
  if (sends && receives) made.keys = std::make_unique<detail::frame_authentication>(key(sends), key(receives));
  return made;
}

std::vector<std::byte> text(std::size_t size, unsigned salt) {
  std::vector<std::byte> made(size);
  for (std::size_t i = 0; i < size; ++i) made[i] = static_cast<std::byte>(i * 31 + salt);
  return made;
}

void send(wire& by, const std::vector<std::byte>& payload, std::size_t pieces, std::uint64_t request) {
  frame_writer out;
  frame_header header;
  header.kind = frame_kind::values;
  header.request = request;
  std::vector<const_bytes> parts;
  for (std::size_t i = 0; i < pieces; ++i) {
    const std::size_t from = payload.size() * i / pieces, to = payload.size() * (i + 1) / pieces;
    parts.push_back(const_bytes(payload).subspan(from, to - from));
  }
  out.start(header, parts);
  for (int turns = 0; !out.idle(); ++turns) {
    out.advance(by);
    if (turns == 3) {
      frame_writer moved = std::move(out);  // in the middle
      moved.detach();
      out = std::move(moved);
    }
  }
}

std::vector<std::byte> receive(wire& by, bool exactly = false, std::size_t size = 0, std::uint64_t* request = nullptr) {
  std::vector<std::byte> payload(size);
  frame_reader in;
  mutable_bytes whole(payload);
  if (exactly)
    in.expect({&whole, 1});
  else
    in.expect(std::uint64_t{1} << 30);
  for (int idle = 0; !in.complete();) {
    if (in.advance(by) == 0 && !in.needs_destination() && ++idle > 3)
      throw error(error_code::unavailable, "test", "ends");
    if (!in.needs_destination()) continue;
    payload.resize(static_cast<std::size_t>(in.header().payload_length));
    in.payload_to(mutable_bytes(payload));
  }
  if (request) *request = in.header().request;
  return payload;
}

}  // namespace

#if defined(WEFT_HAS_OPENSSL)

BOOST_AUTO_TEST_CASE(frames_of_all_sizes_pieces_and_short_writes) {
  for (const std::size_t most : {1u, 7u, 1000u, 3u << 20})
    for (const std::size_t size : {0u, 1u, 15u, 16u, 17u, 300u,
                                   most < 1000    ? 2000u
                                   : most == 1000 ? 50'000u
                                                  : 2'500'000u})
      for (const std::size_t pieces : {1u, 15u, 16u, 40u}) {
        wire sender = with_keys(1, 2), receiver = with_keys(2, 1);
        sender.most = receiver.most = most;
        for (unsigned salt : {1u, 2u}) send(sender, text(size, salt), pieces, salt);
        receiver.bytes = sender.bytes;
        std::uint64_t request = 0;
        BOOST_TEST((receive(receiver, true, size, &request) == text(size, 1)));
        BOOST_TEST(request == 1u);
        BOOST_TEST((receive(receiver) == text(size, 2)));
        BOOST_TEST(receiver.at == receiver.bytes.size());
        BOOST_TEST(receiver.bytes.size() == 2 * (frame_header_size + size + sizeof(frame_tag)));
      }
}

// The tag of NIST's GCM for a header and payload, computed by another implementation of it: Python's cryptography,
// AESGCM(key).encrypt(nonce, b"", header + payload).
BOOST_AUTO_TEST_CASE(a_tag_is_that_of_aes_128_gmac) {
  std::array<std::byte, 20> known{};
  for (std::size_t i = 0; i < known.size(); ++i) known[i] = static_cast<std::byte>(i);
  detail::frame_authenticator by(known);
  by.begin_frame();
  by.finish_frame();
  by.begin_frame();
  const std::vector<std::byte> said = text(100, 3);
  by.add(const_bytes(said).first(33));
  by.add(const_bytes(said).subspan(33));
  const frame_tag tag = by.finish_frame();
  std::string hexadecimal;
  for (const std::byte each : tag) {
    constexpr const char* digits = "0123456789abcdef";
    hexadecimal += digits[std::to_integer<int>(each) >> 4];
    hexadecimal += digits[std::to_integer<int>(each) & 15];
  }
  BOOST_TEST(hexadecimal == "5dc2341b219c5d6e0987a6ba99d6e5f9");
}

BOOST_AUTO_TEST_CASE(a_change_of_any_bit_is_noticed) {
  wire sender = with_keys(1, 2);
  send(sender, text(50, 1), 3, 1);
  for (std::size_t bit = 0; bit < sender.bytes.size() * 8; ++bit) {
    wire receiver = with_keys(2, 1);
    receiver.bytes = sender.bytes;
    receiver.bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    BOOST_CHECK_THROW(receive(receiver), error);
  }
  // One who knows the header's checksum, which is no secret.
  for (const std::size_t at : {16u, 40u, 48u, 56u}) {
    wire receiver = with_keys(2, 1);
    receiver.bytes = sender.bytes;
    receiver.bytes[at] ^= std::byte{1};
    const std::uint32_t crc = crc32c(const_bytes(receiver.bytes).first(detail::header_crc_at));
    detail::put_little(receiver.bytes.data() + detail::header_crc_at, crc);
    BOOST_CHECK_EXCEPTION(receive(receiver), error, test::says(error_code::data_loss, "tag does not match"));
  }
}

BOOST_AUTO_TEST_CASE(a_frame_that_is_repeated_left_out_or_out_of_order_is_noticed) {
  wire sender = with_keys(1, 2);
  std::vector<std::vector<std::byte>> frames;
  for (unsigned i = 0; i < 3; ++i) {
    sender.bytes.clear();
    send(sender, text(50, 1), 1, 1);  // the same words each time
    frames.push_back(sender.bytes);
  }
  const auto arrives = [&](std::initializer_list<std::size_t> order) {
    wire receiver = with_keys(2, 1);
    for (const std::size_t i : order) receiver.bytes.insert(receiver.bytes.end(), frames[i].begin(), frames[i].end());
    std::size_t good = 0;
    try {
      for (; good < order.size(); ++good) receive(receiver);
    } catch (const error& e) {
      BOOST_TEST(test::says(error_code::data_loss, "tag does not match")(e));
    }
    return good;
  };
  BOOST_TEST(arrives({0, 1, 2}) == 3u);
  BOOST_TEST(arrives({0, 0}) == 1u);
  BOOST_TEST(arrives({1}) == 0u);
  BOOST_TEST(arrives({0, 2}) == 1u);
  BOOST_TEST(arrives({0, 1, 0}) == 2u);
}

BOOST_AUTO_TEST_CASE(other_keys_and_none) {
  for (const auto& [sends, receives] : {std::pair{1, 3}, std::pair{0, 1}, std::pair{1, 0}}) {
    wire sender = with_keys(static_cast<unsigned char>(sends), static_cast<unsigned char>(sends ? 9 : 0));
    send(sender, text(50, 1), 1, 1);
    wire receiver = with_keys(static_cast<unsigned char>(receives ? 9 : 0), static_cast<unsigned char>(receives));
    receiver.bytes = sender.bytes;
    BOOST_CHECK_EXCEPTION(receive(receiver), error, test::says(error_code::data_loss, "tag"));
  }
  // A message that this task has sent itself is no answer: each direction has its key.
  wire mirror = with_keys(1, 2);
  send(mirror, text(50, 1), 1, 1);
  BOOST_CHECK_EXCEPTION(receive(mirror), error, test::says(error_code::data_loss, "tag does not match"));
}

#else

BOOST_AUTO_TEST_CASE(without_openssl_there_are_no_tags) {
  BOOST_CHECK_EXCEPTION(with_keys(1, 2), error, test::says(error_code::failed_precondition, "built without OpenSSL"));
}

#endif
