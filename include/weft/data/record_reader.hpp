// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <weft/data/file_reader.hpp>
#include <weft/encoding/tfrecord.hpp>
#include <weft/error.hpp>
#include <weft/text.hpp>

namespace weft::data {

/// Options of records and record_reader.
struct record_reader_options {
  /// The maximum size of a record. It protects against small compressed files that expand to exhaust memory.
  std::size_t max_record_bytes = std::size_t{1} << 28;
  /// If true, damaged records are skipped and counted: those whose data has another checksum, and all bytes between a
  /// damaged length and the next valid one.
  bool skip_damaged = false;
  /// Counts the damaged places that are skipped, over all readers that share this counter.
  std::shared_ptr<std::atomic<std::uint64_t>> damaged = nullptr;
};

/// Reads a file of records (encoding/tfrecord.hpp), such as TFRecords or TensorBoard's events, one by one; the file can
/// be compressed with gzip or zlib:
///
///     data::record_reader file(path);
///     for (std::string record; file.next(record);) ...
class record_reader {
 public:
  /// Throws the errors of file_reader.
  explicit record_reader(std::string path, record_reader_options options = {})
      : file_(std::move(path)), options_(std::move(options)) {}

  /// Reads the next record; returns false at the end of the file. Throws data_loss, with the file, the record's number
  /// and its offset, if the file ends within a record, a checksum differs or decompression fails, and
  /// resource_exhausted if a record is too long. Further calls throw the same error.
  bool next(std::string& record);

  const std::string& path() const { return file_.path(); }
  /// The number of decompressed bytes read so far, which is the offset of the next record.
  std::uint64_t offset() const { return offset_; }
  /// The offset of the last record's data.
  std::uint64_t record_offset() const { return record_offset_; }
  /// The number of undamaged records read.
  std::uint64_t records() const { return records_; }
  /// The number of damaged places skipped.
  std::uint64_t damaged() const { return damaged_; }

 private:
  /// Throws an error for the record at offset_, or counts the damage.
  void damage(const char* how) {
    const std::string& unpacking = file_.failure();
    if (!options_.skip_damaged) {
      const std::string why = unpacking.empty() ? how : str_cat({"cannot be read, because the file ", unpacking});
      fail(error_code::data_loss, why + (records_ > 0 ? "; the records before it are undamaged" : ""));
    }
    if (!unpacking.empty() && std::exchange(told_, true)) return;
    ++damaged_;
    if (options_.damaged) options_.damaged->fetch_add(1, std::memory_order_relaxed);
  }
  [[noreturn]] void fail(error_code code, const std::string& why) {
    failure_ = error(code, "read", {file_.path(), ": record ", records_, " at offset ", offset_, " ", why});
    throw *failure_;
  }
  /// Returns true if a file begins in zlib's format and not with a record.
  static bool is_zlib(const char* head, std::size_t size) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(head[i])); };
    if (size < 2 || (byte(0) & 15u) != 8 || (256 * byte(0) + byte(1)) % 31 != 0) return false;
    // In a record, the upper half of the length is 0.
    if (size >= 8 && weft::detail::get_little<std::uint32_t>(head + 4) == 0) return false;
    return size < weft::detail::record_head ||
           weft::detail::get_little<std::uint32_t>(head + 8) != weft::detail::masked_crc32c(head, 8);
  }
  bool read_head(char* head);
  bool read_data(std::string& record, std::uint64_t size);

  file_reader file_;
  record_reader_options options_;
  std::uint64_t offset_ = 0, record_offset_ = 0, records_ = 0, damaged_ = 0;
  bool told_ = false;  ///< decompression failed, and was counted
  std::optional<error> failure_;
};

inline bool record_reader::next(std::string& record) {
  if (failure_) throw *failure_;
  char head[weft::detail::record_head], tail[weft::detail::record_tail];
  while (read_head(head)) {
    const auto size = weft::detail::get_little<std::uint64_t>(head);
    if (!read_data(record, size)) return false;
    if (file_.read_available(tail, sizeof tail) < sizeof tail) return damage("ends inside its checksum"), false;
    const std::uint64_t begin = offset_ + sizeof head;
    const bool whole =
        weft::detail::get_little<std::uint32_t>(tail) == weft::detail::masked_crc32c(record.data(), record.size());
    if (!whole) damage("has data with a wrong checksum");
    offset_ = begin + size + sizeof tail;
    if (!whole) continue;
    record_offset_ = begin;
    ++records_;
    return true;
  }
  return false;
}

/// Reads the next length with a valid checksum; returns false at the end of the file.
inline bool record_reader::read_head(char* head) {
  std::size_t got = file_.read_available(head, weft::detail::record_head);
  if (offset_ == 0 && records_ == 0 && is_zlib(head, got)) {
    file_.unpack_zlib();
    got = file_.read_available(head, weft::detail::record_head);
  }
  if (got == 0 && file_.failure().empty()) return false;
  if (got < weft::detail::record_head) return damage("ends inside its length"), false;
  for (bool passing = false;; passing = true) {
    // A checksum does not authenticate a length, so limit it by the size of the file before memory is allocated.
    const std::uint64_t begin = offset_ + weft::detail::record_head;
    const bool right = weft::detail::get_little<std::uint32_t>(head + 8) == weft::detail::masked_crc32c(head, 8);
    const bool fits =
        weft::detail::get_little<std::uint64_t>(head) <= file_.max_bytes() - std::min(file_.max_bytes(), begin);
    if (right && fits) return true;
    if (!passing)
      damage(right ? "is longer than the file"
                   : "has a length with a wrong checksum: the file is damaged, or is not a TFRecord file");
    std::memmove(head, head + 1, weft::detail::record_head - 1);
    if (file_.read_available(head + weft::detail::record_head - 1, 1) == 0) {
      if (!file_.failure().empty()) damage("ends");
      return false;
    }
    ++offset_;
  }
}

inline bool record_reader::read_data(std::string& record, std::uint64_t size) {
  if (size > options_.max_record_bytes)
    fail(error_code::resource_exhausted,
         str_cat({"has ", size, " bytes, but max_record_bytes is ", options_.max_record_bytes,
                  ": increase it, or fetch the file again"}));
  // A compressed file can expand a thousandfold, so memory grows with the decoded bytes.
  record.clear();
  while (record.size() < size) {
    const std::size_t done = record.size(), more = std::min<std::uint64_t>(size - done, std::uint64_t{1} << 24);
    record.resize(done + more);
    if (file_.read_available(record.data() + done, more) < more) return damage("ends inside its data"), false;
  }
  return true;
}

}  // namespace weft::data
