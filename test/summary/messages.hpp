// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <weft/data/record_reader.hpp>

namespace test {

/// A message of Protocol Buffers, taken apart by the format's rules alone: its fields in order.
struct message {
  struct field {
    std::uint32_t number;
    std::uint64_t word;  // varint, or the bits of a number
    std::string bytes;   // string, bytes, message
  };
  std::vector<field> fields;

  explicit message(const std::string& from) {
    std::size_t at = 0;
    const auto byte = [&]() -> std::uint64_t { return static_cast<unsigned char>(from.at(at++)); };
    const auto varint = [&] {
      std::uint64_t value = 0;
      for (int shift = 0;; shift += 7) {
        const std::uint64_t b = byte();
        value |= (b & 127) << shift;
        if (b < 128) return value;
      }
    };
    while (at < from.size()) {
      const std::uint64_t key = varint();
      field f{static_cast<std::uint32_t>(key >> 3), 0, {}};
      switch (key & 7) {
        case 0:
          f.word = varint();
          break;
        case 1:
          for (int i = 0; i < 64; i += 8) f.word |= byte() << i;
          break;
        case 5:
          for (int i = 0; i < 32; i += 8) f.word |= byte() << i;
          break;
        case 2: {
          const std::uint64_t size = varint();
          if (size > from.size() - at) throw std::runtime_error("a field is longer than its message");
          f.bytes = from.substr(at, size);
          at += size;
          break;
        }
        default:
          throw std::runtime_error("wire type");
      }
      fields.push_back(std::move(f));
    }
  }

  const field* find(std::uint32_t number) const {
    for (const field& f : fields)
      if (f.number == number) return &f;
    return nullptr;
  }
  std::string text(std::uint32_t number) const { return find(number) ? find(number)->bytes : std::string(); }
  message in(std::uint32_t number) const { return message(text(number)); }
  std::uint64_t word(std::uint32_t number) const { return find(number) ? find(number)->word : 0; }
  double real(std::uint32_t number) const { return std::bit_cast<double>(word(number)); }
  float single(std::uint32_t number) const { return std::bit_cast<float>(static_cast<std::uint32_t>(word(number))); }
  std::vector<double> reals(std::uint32_t number) const {
    const std::string packed = text(number);
    std::vector<double> all(packed.size() / 8);
    std::memcpy(all.data(), packed.data(), all.size() * 8);
    return all;
  }
};

/// The records of a file, as messages.
inline std::vector<message> events(const std::string& path) {
  std::vector<message> all;
  weft::data::record_reader file(path);
  for (std::string record; file.next(record);) all.emplace_back(record);
  return all;
}

}  // namespace test
