// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weft/encoding/crc32c.hpp>
#include <weft/encoding/file.hpp>
#include <weft/encoding/snappy.hpp>
#include <weft/error.hpp>

namespace weft::detail {

/// Reads a whole table in LevelDB's format (google/leveldb, doc/table_format.md): sorted keys and their values. Blocks
/// are uncompressed or compressed with Snappy, and each has a CRC-32C.
///
/// Throws invalid_argument if the file is not a table, data_loss if it is damaged, and unimplemented if it uses another
/// compression. Allocated memory is bounded by a multiple of the file's size.
class sorted_table {
 public:
  static std::map<std::string, std::vector<std::byte>, std::less<>> read(const std::string& path) {
    sorted_table table(path);
    return std::move(table.entries_);
  }

 private:
  using bytes = std::vector<std::byte>;

  explicit sorted_table(const std::string& path) : file_(path) {
    // The footer: the handles of the metaindex, which Weft ignores, and of the index, padding, and a magic number.
    constexpr std::size_t footer_size = 48;
    constexpr std::uint64_t magic = 0xdb4775248b80fb57;
    std::byte footer[footer_size];
    if (file_.bytes() < footer_size) not_a_table();
    const std::uint64_t at = file_.bytes() - footer_size;
    file_.read(at, footer, footer_size);
    std::uint64_t found = 0;
    for (std::size_t i = 0; i < 8; ++i) found |= std::to_integer<std::uint64_t>(footer[40 + i]) << 8 * i;
    if (found != magic) not_a_table();
    cursor places{this, {footer, 40}, at};
    places.place();
    const place index = places.place();
    std::uint64_t end = 0;
    for_each_entry(index, [&](std::string_view, std::span<const std::byte> value, std::uint64_t offset) {
      cursor where{this, value, offset};
      const place block = where.place();
      if (block.offset < end) damaged("overlapping blocks", offset);
      end = block.offset + block.size;
      for_each_entry(block, [&](std::string_view key, std::span<const std::byte> content, std::uint64_t here) {
        if (!entries_.empty() && key <= entries_.rbegin()->first) damaged("keys in wrong order", here);
        // Keys share prefixes, so a few bytes can encode a long key; but writers restart every 16 keys.
        key_bytes_ += key.size();
        if (key_bytes_ > 64 * block_bytes_) damaged("implausibly long keys", here);
        entries_.emplace_hint(entries_.end(), std::string(key), bytes(content.begin(), content.end()));
      });
    });
  }

  struct place {
    std::uint64_t offset, size;
  };

  [[noreturn]] void not_a_table() const {
    throw error(error_code::invalid_argument, "read_table",
                {file_.path(), " must be a checkpoint's .index, but is not a LevelDB table"});
  }
  [[noreturn]] void damaged(const char* what, std::uint64_t offset) const {
    throw error(error_code::data_loss, "read_table",
                {file_.path(), " has ", what, " at byte ", offset, ": it is damaged; fetch the file again"});
  }

  // Parses numbers and slices of a block, with bounds checks.
  struct cursor {
    const sorted_table* table;
    std::span<const std::byte> rest;
    std::uint64_t offset;  // of the block in the file, for errors

    std::uint64_t varint() {
      std::uint64_t value = 0;
      for (unsigned shift = 0; shift < 64 && !rest.empty(); shift += 7) {
        const auto byte = std::to_integer<std::uint64_t>(rest[0]);
        rest = rest.subspan(1);
        value |= (byte & 127u) << shift;
        if (byte < 128) return value;
      }
      table->damaged("a block with a damaged number", offset);
    }
    std::span<const std::byte> take(std::uint64_t size) {
      if (size > rest.size()) table->damaged("a truncated block", offset);
      const auto taken = rest.first(size);
      rest = rest.subspan(taken.size());
      return taken;
    }
    sorted_table::place place() {
      const std::uint64_t where = varint();
      return {where, varint()};
    }
  };

  // A block contains entries, then the offsets of its restart points, and their number.
  template <class Action>
  void for_each_entry(const place& where, Action action) {
    const bytes block = read_block(where);
    std::uint64_t restarts = 0;
    if (block.size() < 4) damaged("a block without entries", where.offset);
    for (std::size_t i = 0; i < 4; ++i)
      restarts |= std::to_integer<std::uint64_t>(block[block.size() - 4 + i]) << 8 * i;
    if (restarts > (block.size() - 4) / 4) damaged("a truncated block", where.offset);
    cursor in{this, {block.data(), block.size() - 4 - 4 * restarts}, where.offset};
    std::string key;
    while (!in.rest.empty()) {
      const std::uint64_t shared = in.varint(), more = in.varint(), size = in.varint();
      if (shared > key.size()) damaged("a key with an invalid prefix length", where.offset);
      key.resize(static_cast<std::size_t>(shared));
      const auto end = in.take(more);
      key.append(reinterpret_cast<const char*>(end.data()), end.size());
      action(std::string_view(key), in.take(size), where.offset);
    }
  }

  bytes read_block(const place& where) {
    constexpr std::size_t trailer = 5;  // the compression type and the CRC-32C
    if (where.offset > file_.bytes() || file_.bytes() - where.offset < trailer ||
        where.size > file_.bytes() - where.offset - trailer)
      damaged("a block beyond the end of the file", where.offset);
    bytes block(static_cast<std::size_t>(where.size) + trailer);
    file_.read(where.offset, block.data(), block.size());
    std::uint32_t crc = 0;
    for (std::size_t i = 0; i < 4; ++i) crc |= std::to_integer<std::uint32_t>(block[block.size() - 4 + i]) << 8 * i;
    block.resize(block.size() - 4);
    if (masked_crc32c(block.data(), block.size()) != crc) damaged("a block with a wrong CRC-32C", where.offset);
    const auto packed_by = std::to_integer<unsigned>(block.back());
    block.pop_back();
    if (packed_by > 1)
      throw error(error_code::unimplemented, "read_table",
                  {file_.path(), " has a block compressed by method ", packed_by, " at byte ", where.offset,
                   ", but only none (0) and Snappy (1) are supported: save the checkpoint again with TensorFlow 2"});
    if (packed_by == 1) {
      bytes unpacked;
      if (!data::unpack_snappy(block, unpacked)) damaged("a block that Snappy cannot decompress", where.offset);
      block = std::move(unpacked);
    }
    block_bytes_ += block.size();
    return block;
  }

  input_file file_;
  std::map<std::string, bytes, std::less<>> entries_;
  std::uint64_t key_bytes_ = 0, block_bytes_ = 0;
};

}  // namespace weft::detail
