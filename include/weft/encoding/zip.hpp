// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/encoding/crc32.hpp>
#include <weft/encoding/file.hpp>
#include <weft/encoding/file_section.hpp>
#include <weft/error.hpp>

namespace weft::detail {

// PKWARE's APPNOTE 6.3. All numbers are little-endian.

inline std::uint64_t zip_number(const unsigned char* at, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value |= std::uint64_t{at[i]} << 8 * i;
  return value;
}

inline constexpr std::uint32_t zip_local = 0x04034b50, zip_central = 0x02014b50, zip_end = 0x06054b50,
                               zip64_end = 0x06064b50, zip64_locator = 0x07064b50;
inline constexpr std::uint64_t zip_more_16 = 0xffff, zip_more_32 = 0xffffffff;  // the real number is in a zip64 field

struct zip_entry {
  std::string name;
  std::uint64_t header = 0;  ///< offset of its local header
  std::uint64_t stored = 0, bytes = 0;
  std::uint32_t crc = 0;
  unsigned method = 0;  ///< 0: stored, 8: deflated
  bool encrypted = false;
};

/// Reads the entries of a zip archive from the directory at its end.
class zip_reader {
 public:
  explicit zip_reader(const std::string& path) : file_(path) {
    const directory where = find_directory();
    // A record has at least 46 bytes, which limits the number of entries.
    if (where.offset > file_.bytes() || where.bytes > file_.bytes() - where.offset || where.count > where.bytes / 46)
      damaged("has a directory beyond the end of the file", where.offset);
    std::vector<unsigned char> records(static_cast<std::size_t>(where.bytes));
    file_.read(where.offset, records.data(), records.size());
    for (std::size_t at = 0; entries_.size() < where.count;) {
      const std::size_t left = records.size() - at;
      const unsigned char* const record = records.data() + at;
      if (left < 46 || zip_number(record, 4) != zip_central) damaged("has a damaged directory", where.offset + at);
      const std::size_t name = zip_number(record + 28, 2), extra = zip_number(record + 30, 2),
                        size = 46 + name + extra + zip_number(record + 32, 2);
      if (left < size) damaged("has a damaged directory", where.offset + at);
      entries_.push_back(read_entry(record, name, extra, where.offset + at));
      at += size;
    }
  }

  const std::string& path() const { return file_.path(); }
  const std::vector<zip_entry>& entries() const { return entries_; }
  const input_file& file() const { return file_; }

  section_place place_of(const zip_entry& entry) const {
    const std::string name = str_cat({file_.path(), ": entry ", entry.name});
    if (entry.encrypted) throw error(error_code::unimplemented, "read", name + " is encrypted; unpack it first");
    if (entry.method != 0 && entry.method != 8)
      throw error(error_code::unimplemented, "read",
                  {name, " is compressed by method ", entry.method,
                   ", but only stored (0) and deflated (8) are supported: save it with numpy.savez"});
    if (entry.header > file_.bytes() || file_.bytes() - entry.header < 30)
      damaged("has an entry beyond the end of the file", entry.header);
    unsigned char local[30];
    file_.read(entry.header, local, sizeof local);
    if (zip_number(local, 4) != zip_local) damaged("has no entry at the offset in its directory", entry.header);
    return {name,
            entry.header + 30 + zip_number(local + 26, 2) + zip_number(local + 28, 2),
            entry.stored,
            entry.bytes,
            entry.method == 8,
            entry.crc};
  }

 private:
  struct directory {
    std::uint64_t offset, bytes, count;
  };

  [[noreturn]] void damaged(const char* how, std::uint64_t at) const {
    throw error(error_code::data_loss, "read_zip",
                {file_.path(), " ", how, ", at byte ", at, ": it is damaged; fetch the file again"});
  }

  directory find_directory() const {
    // The end record is the last part of the file, except for a comment.
    constexpr std::uint64_t record = 22, comment = 65535;
    const std::uint64_t size = std::min(file_.bytes(), record + comment), begin = file_.bytes() - size;
    std::vector<unsigned char> tail(static_cast<std::size_t>(size));
    file_.read(begin, tail.data(), tail.size());
    std::size_t at = tail.size();
    const auto is_end = [&](std::size_t i) {
      return zip_number(tail.data() + i, 4) == zip_end &&
             zip_number(tail.data() + i + 20, 2) == tail.size() - i - record;
    };
    if (at >= record)
      for (at -= record; at > 0 && !is_end(at);) --at;
    if (tail.size() < record || !is_end(at)) {
      unsigned char first[4] = {};
      if (file_.bytes() >= 4) file_.read(0, first, 4);
      if (zip_number(first, 4) == zip_local) damaged("has no directory at its end", file_.bytes());
      throw error(error_code::invalid_argument, "read_zip",
                  {file_.path(), " must be an .npz file, but is not a zip archive"});
    }
    const unsigned char* const end = tail.data() + at;
    directory found{zip_number(end + 16, 4), zip_number(end + 12, 4), zip_number(end + 10, 2)};
    if (found.offset == zip_more_32 || found.bytes == zip_more_32 || found.count == zip_more_16)
      read_zip64(begin + at, found);
    return found;
  }

  // The locator immediately precedes the end record.
  void read_zip64(std::uint64_t end, directory& found) const {
    if (end < 20) return;
    unsigned char locator[20], large[56];
    file_.read(end - 20, locator, sizeof locator);
    if (zip_number(locator, 4) != zip64_locator) return;  // not zip64: the maxima are the real numbers
    const std::uint64_t at = zip_number(locator + 8, 8);
    if (at > file_.bytes() || file_.bytes() - at < sizeof large) damaged("has no zip64 directory", at);
    file_.read(at, large, sizeof large);
    if (zip_number(large, 4) != zip64_end) damaged("has no zip64 directory", at);
    found = {zip_number(large + 48, 8), zip_number(large + 40, 8), zip_number(large + 32, 8)};
  }

  zip_entry read_entry(const unsigned char* record, std::size_t name, std::size_t extra, std::uint64_t at) const {
    zip_entry entry;
    entry.encrypted = zip_number(record + 8, 2) & 1u;
    entry.method = static_cast<unsigned>(zip_number(record + 10, 2));
    entry.crc = static_cast<std::uint32_t>(zip_number(record + 16, 4));
    entry.stored = zip_number(record + 20, 4);
    entry.bytes = zip_number(record + 24, 4);
    entry.header = zip_number(record + 42, 4);
    entry.name.assign(reinterpret_cast<const char*>(record + 46), name);
    // The zip64 field contains only the numbers that did not fit, in this order.
    const unsigned char* field = record + 46 + name;
    for (const unsigned char* const end = field + extra; end - field >= 4;) {
      const std::size_t size = zip_number(field + 2, 2);
      if (size > static_cast<std::size_t>(end - field) - 4) damaged("has a damaged directory", at);
      if (zip_number(field, 2) == 1) {
        std::size_t taken = 0;
        for (std::uint64_t* number : {&entry.bytes, &entry.stored, &entry.header})
          if (*number == zip_more_32 && taken + 8 <= size) {
            *number = zip_number(field + 4 + taken, 8);
            taken += 8;
          }
      }
      field += 4 + size;
    }
    return entry;
  }

  input_file file_;
  std::vector<zip_entry> entries_;
};

/// Writes a zip archive with uncompressed entries. Uses zip64 if an entry, an offset or the number of entries requires
/// it.
class zip_writer {
 public:
  explicit zip_writer(const std::string& path) : path_(path), file_(path) {}

  const std::string& path() const { return path_; }

  /// Adds an entry whose content is the concatenated pieces.
  void add(const std::string& name, std::initializer_list<std::span<const std::byte>> pieces) {
    if (name.size() > 65535)
      throw error(error_code::invalid_argument, "write_zip",
                  {path(), ": a name must have at most 65535 bytes, but has ", name.size()});
    zip_entry entry{.name = name, .header = at_};
    for (const auto piece : pieces) {
      entry.crc = crc32(piece, entry.crc);
      entry.bytes += piece.size();
    }
    entry.stored = entry.bytes;
    const bool large = entry.bytes >= zip_more_32;
    std::string extra;
    if (large) put(extra, {{1, 2}, {16, 2}, {entry.bytes, 8}, {entry.stored, 8}});
    std::string header;
    put(header, {{zip_local, 4}, {large ? 45u : 20u, 2}});
    put_common(header, entry, extra);
    write(header + name + extra);
    for (const auto piece : pieces) write(piece);
    entries_.push_back(std::move(entry));
  }

  /// Writes the directory and commits the file. Without this call, no file is created.
  void close() {
    const std::uint64_t begin = at_;
    for (const zip_entry& entry : entries_) write_record(entry);
    const std::uint64_t end = at_, bytes = end - begin, count = entries_.size();
    std::string last;
    const bool large = begin >= zip_more_32 || bytes >= zip_more_32 || count >= zip_more_16;
    if (large)
      put(last, {{zip64_end, 4},
                 {44, 8},
                 {45, 2},
                 {45, 2},
                 {0, 4},
                 {0, 4},
                 {count, 8},
                 {count, 8},
                 {bytes, 8},
                 {begin, 8},
                 {zip64_locator, 4},
                 {0, 4},
                 {end, 8},
                 {1, 4}});
    const std::uint64_t shown = std::min(count, zip_more_16);
    put(last, {{zip_end, 4},
               {0, 2},
               {0, 2},
               {shown, 2},
               {shown, 2},
               {std::min(bytes, zip_more_32), 4},
               {std::min(begin, zip_more_32), 4},
               {0, 2}});
    write(last);
    file_.commit();
  }

 private:
  static constexpr std::uint64_t utf8 = 1u << 11;
  static constexpr std::uint64_t first_day = 1u << 5 | 1u;  // 1980-01-01: equal content yields equal files

  struct number {
    std::uint64_t value;
    unsigned bytes;
  };
  static void put(std::string& to, std::initializer_list<number> numbers) {
    for (const number& n : numbers)
      for (unsigned i = 0; i < n.bytes; ++i) to += static_cast<char>(n.value >> 8 * i & 255u);
  }

  /// The fields that an entry's local header and its directory record share.
  static void put_common(std::string& to, const zip_entry& entry, const std::string& extra) {
    const std::uint64_t size = std::min(entry.bytes, zip_more_32);
    put(to, {{utf8, 2},
             {0, 2},
             {0, 2},
             {first_day, 2},
             {entry.crc, 4},
             {size, 4},
             {size, 4},
             {entry.name.size(), 2},
             {extra.size(), 2}});
  }

  void write_record(const zip_entry& entry) {
    std::string extra;
    const bool large = entry.bytes >= zip_more_32, far = entry.header >= zip_more_32;
    if (large || far) put(extra, {{1, 2}, {(large ? 16u : 0u) + (far ? 8u : 0u), 2}});
    if (large) put(extra, {{entry.bytes, 8}, {entry.stored, 8}});
    if (far) put(extra, {{entry.header, 8}});
    std::string record;
    put(record, {{zip_central, 4},
                 {3u << 8 | 45u, 2},  // made on Unix: the attributes contain permissions
                 {extra.empty() ? 20u : 45u, 2}});
    put_common(record, entry, extra);
    put(record, {{0, 2}, {0, 2}, {0, 2}, {0644u << 16, 4}, {std::min(entry.header, zip_more_32), 4}});
    write(record + entry.name + extra);
  }

  void write(const std::string& text) { write(std::as_bytes(std::span(text))); }
  void write(std::span<const std::byte> bytes) {
    file_.write(bytes.data(), bytes.size());
    at_ += bytes.size();
  }

  std::string path_;
  atomic_file file_;
  std::uint64_t at_ = 0;
  std::vector<zip_entry> entries_;
};

}  // namespace weft::detail
