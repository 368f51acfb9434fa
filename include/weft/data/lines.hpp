// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weft/data/dataset.hpp>
#include <weft/data/file_reader.hpp>
#include <weft/data/file_stream.hpp>
#include <weft/data/text_buffer.hpp>
#include <weft/error.hpp>

namespace weft::data {

/// Options of lines.
struct line_options {
  std::size_t skip = 0;                               ///< number of lines to skip at the beginning of each file
  std::size_t max_line_bytes = std::size_t{1} << 24;  ///< longer lines are an error
};

namespace detail {

class line_reader {
 public:
  line_reader(const std::string& path, const line_options& options)
      : text_(path, options.max_line_bytes), skip_(options.skip) {}

  bool next(element& to) {
    std::string_view line;
    for (; text_.next(line); --skip_) {
      if (skip_ > 0) continue;
      while (line.ends_with('\r')) line.remove_suffix(1);
      text_of(to).assign(line);
      return true;
    }
    return false;
  }

 private:
  text_buffer text_;
  std::size_t skip_;
};

}  // namespace detail

/// Reads the lines of text files, without line ends (tf.data.TextLineDataset). Throws the errors of file_reader, and
/// invalid_argument, with the file and the line, if a line is too long.
inline dataset<std::string> lines(std::vector<std::string> paths, line_options options = {}) {
  using stage = detail::file_stage<detail::line_reader, line_options>;
  return dataset<std::string>(
      detail::stage_ptr(new stage(dataset<std::string>::features(), std::move(paths), options)));
}
template <class...>
auto lines(...) WEFT_DELETED;  // a path or several; line_options: skip, max_line_bytes
/// Reads the lines of one file.
inline dataset<std::string> lines(std::string path, line_options options = {}) {
  return lines(std::vector<std::string>{std::move(path)}, options);
}

/// Options of fixed_records.
struct fixed_record_options {
  std::size_t header_bytes = 0;  ///< size of the header before the first record of each file
  std::size_t footer_bytes = 0;  ///< size of the footer after the last record
};

namespace detail {

/// Reads records of the feature's size.
template <class Record>
class fixed_record_reader {
 public:
  static constexpr std::size_t bytes = Record::dims_type::spec.elements() * sizeof(typename Record::value_type);

  fixed_record_reader(const std::string& path, const fixed_record_options& options)
      : file_(path), footer_(options.footer_bytes), ahead_(footer_, char()) {
    std::string header(options.header_bytes, '\0');
    if (file_.read(header.data(), header.size()) != header.size() || file_.read(ahead_.data(), footer_) != footer_)
      throw error(error_code::data_loss, "fixed_records",
                  {path, " is shorter than its header and footer, ", options.header_bytes + footer_, " bytes"});
    offset_ = options.header_bytes;
  }

  bool next(element& to) {
    // The bytes read ahead can be the footer.
    ahead_.resize(footer_ + bytes);
    const std::size_t got = file_.read(ahead_.data() + footer_, bytes);
    if (got == 0) return false;
    if (got != bytes)
      throw error(error_code::data_loss, "fixed_records",
                  {file_.path(), ": the record at offset ", offset_, " has ", got, " bytes, but must have ", bytes});
    to.resize(1);
    std::memcpy(to[0].reserve(Record::dims_type::spec, sizeof(typename Record::value_type)), ahead_.data(), bytes);
    ahead_.erase(0, bytes);
    offset_ += bytes;
    return true;
  }

 private:
  file_reader file_;
  std::size_t footer_;
  std::string ahead_;
  std::uint64_t offset_ = 0;
};

}  // namespace detail

/// A record must be a tensor of static extents.
template <class Record>
struct record_has_no_fixed_size;

/// Reads binary files of records of equal size (tf.data.FixedLengthRecordDataset). `Record` is a tensor of static
/// extents, `tensor<std::uint8_t, dims<3073>>`, in native byte order. Throws the errors of file_reader, and data_loss,
/// with the file and the offset, if a file ends within a record.
template <class Record>
dataset<Record> fixed_records(std::vector<std::string> paths, fixed_record_options options = {}) {
  static_assert(correct<record_has_no_fixed_size<Record>>,
                "fixed_records: the record must be a tensor with fixed extents");
  using stage = detail::file_stage<detail::fixed_record_reader<Record>, fixed_record_options>;
  return dataset<Record>(detail::stage_ptr(new stage(dataset<Record>::features(), std::move(paths), options)));
}
template <class...>
auto fixed_records(...) WEFT_DELETED;  // a path or several; fixed_record_options: header_bytes, footer_bytes
/// Reads the records of one file.
template <class Record>
dataset<Record> fixed_records(std::string path, fixed_record_options options = {}) {
  return fixed_records<Record>(std::vector<std::string>{std::move(path)}, options);
}

template <class Record>
struct record_has_no_fixed_size : mistake<true> {};
template <class T, class Dims>
struct record_has_no_fixed_size<tensor<T, Dims>> : mistake<!Dims::is_static || Dims::spec.elements() == 0> {};

}  // namespace weft::data
