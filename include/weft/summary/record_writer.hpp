#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <weft/data/crc32c.hpp>
#include <weft/data/file_reader.hpp>
#include <weft/error.hpp>

/// Files of TensorFlow's records (TFRecord): each is its length in eight bytes, the masked CRC-32C of these, its bytes,
/// and their masked CRC-32C; numbers are little-endian.
namespace weft {

/// Appends one record to what is to be written to a file of them.
inline void append_record(std::string& to, std::string_view record);

/// Reads a file of records one by one, packed by gzip or not.
class record_reader {
 public:
  /// Throws as file_reader does.
  explicit record_reader(std::string path) : file_(std::move(path)) {}

  /// Reads the next record; false where the file ends. Throws data_loss, with the file, the number of the record and
  /// its offset, where the file ends in the middle of one or a checksum differs.
  bool next(std::string& record);

  /// How many bytes of whole records have been read: where the next one begins.
  std::uint64_t offset() const { return offset_; }

 private:
  [[noreturn]] void damaged(const char* how) const {
    throw error(error_code::data_loss, "read",
                {file_.path(), ": record ", records_, " at offset ", offset_, " ", how,
                 "; what stands before it is whole"});
  }

  data::file_reader file_;
  std::uint64_t offset_ = 0, records_ = 0;
};

namespace detail {

inline constexpr std::size_t record_head = 12, record_tail = 4;

template <class Word>
void append_little_endian(std::string& to, Word word) {
  for (std::size_t i = 0; i < sizeof word; ++i) to += static_cast<char>((word >> (8 * i)) & 0xff);
}
template <class Word>
Word little_endian(const char* from) {
  Word word = 0;
  for (std::size_t i = 0; i < sizeof word; ++i)
    word |= static_cast<Word>(static_cast<Word>(static_cast<unsigned char>(from[i])) << (8 * i));
  return word;
}

}  // namespace detail

inline void append_record(std::string& to, std::string_view record) {
  const std::size_t begin = to.size();
  detail::append_little_endian(to, std::uint64_t{record.size()});
  detail::append_little_endian(to, detail::masked_crc32c(to.data() + begin, 8));
  to.append(record);
  detail::append_little_endian(to, detail::masked_crc32c(record.data(), record.size()));
}

inline bool record_reader::next(std::string& record) {
  char head[detail::record_head], tail[detail::record_tail];
  const std::size_t got = file_.read(head, sizeof head);
  if (got == 0) return false;
  if (got < sizeof head) damaged("ends in its length");
  if (detail::little_endian<std::uint32_t>(head + 8) != detail::masked_crc32c(head, 8))
    damaged("has a length whose checksum differs: it is not a file of records, or is damaged");
  const auto size = detail::little_endian<std::uint64_t>(head);
  // The checksum of a length proves nothing about who wrote it: no more is allocated than the file can hold.
  const std::uint64_t behind = file_.max_bytes() - std::min(file_.max_bytes(), offset_ + sizeof head);
  if (size > behind) damaged("is longer than the file");
  // Of a packed file that is a thousand times its size: memory is taken as bytes come out of it.
  record.clear();
  while (record.size() < size) {
    const std::size_t done = record.size(), more = std::min<std::uint64_t>(size - done, std::uint64_t{1} << 24);
    record.resize(done + more);
    if (file_.read(record.data() + done, more) < more) damaged("ends in its data");
  }
  if (file_.read(tail, sizeof tail) < sizeof tail) damaged("ends in its checksum");
  if (detail::little_endian<std::uint32_t>(tail) != detail::masked_crc32c(record.data(), record.size()))
    damaged("has data whose checksum differs");
  offset_ += sizeof head + size + sizeof tail;
  ++records_;
  return true;
}

}  // namespace weft
