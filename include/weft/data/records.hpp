// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weft/data/dataset.hpp>
#include <weft/data/file_stream.hpp>
#include <weft/data/record_reader.hpp>
#include <weft/encoding/tfrecord.hpp>
#include <weft/error.hpp>

#ifdef WEFT_HAS_ZLIB
  #include <zlib.h>
#endif

namespace weft::data {

/// Reads the records of TFRecord files (tf.data.TFRecordDataset), which can be compressed with gzip or zlib. Throws the
/// errors of record_reader; with `skip_damaged`, damaged records are skipped, and `damaged` counts them:
///
///     auto damaged = std::make_shared<std::atomic<std::uint64_t>>(0);
///     auto all = data::records(paths, {.skip_damaged = true, .damaged = damaged});
inline dataset<std::string> records(std::vector<std::string> paths, record_reader_options options = {});

template <class...>
auto records(...) WEFT_DELETED;  // a path or several; record_reader_options: max_record_bytes, skip_damaged, damaged
/// Reads the records of one file.
inline dataset<std::string> records(std::string path, record_reader_options options = {}) {
  return records(std::vector<std::string>{std::move(path)}, std::move(options));
}

/// The compression of a TFRecord file.
enum class compression : unsigned char { none, gzip, zlib };

/// Writes a TFRecord file (tf.io.TFRecordWriter). The file is complete when `close` returns. The destructor also closes
/// it, but does not report errors. Throws unavailable if the file cannot be written, and unimplemented for compression
/// in a program built without zlib.
class record_writer {
 public:
  explicit record_writer(std::string path, compression packing = compression::none);
  record_writer(const record_writer&) = delete;
  record_writer& operator=(const record_writer&) = delete;
  ~record_writer() {
    try {
      close();
    } catch (const error&) {
    }
  }

  void add(std::string_view record) {
    append_record(waiting_, record);
    if (waiting_.size() >= (std::size_t{1} << 18)) write(false);
  }
  void close() {
    if (!file_) return;
    write(true);
    if (std::fclose(std::exchange(file_, nullptr)) != 0) fail("written", errno);
  }

 private:
  void write(bool last);
  void put(const void* bytes, std::size_t size) {
    if (std::fwrite(bytes, 1, size, file_) != size) fail("written", errno);
  }
  [[noreturn]] void fail(const char* what, int reason) {
    if (file_) std::fclose(std::exchange(file_, nullptr));
    throw error(error_code::unavailable, "write", {path_, " cannot be ", what, ": ", std::strerror(reason)});
  }

  std::string path_, waiting_;
  std::FILE* file_ = nullptr;
#ifdef WEFT_HAS_ZLIB
  struct end_deflate {
    void operator()(z_stream* z) const {
      ::deflateEnd(z);
      delete z;
    }
  };
  std::unique_ptr<z_stream, end_deflate> packing_;
#endif
};

namespace detail {

class record_text_reader {
 public:
  record_text_reader(const std::string& path, const record_reader_options& options) : file_(path, options) {}
  bool next(element& to) { return file_.next(text_of(to)); }

 private:
  record_reader file_;
};

}  // namespace detail

inline dataset<std::string> records(std::vector<std::string> paths, record_reader_options options) {
  using stage = detail::file_stage<detail::record_text_reader, record_reader_options>;
  return dataset<std::string>(
      detail::stage_ptr(new stage(dataset<std::string>::features(), std::move(paths), std::move(options))));
}

inline record_writer::record_writer(std::string path, compression packing) : path_(std::move(path)) {
  if (packing != compression::none) {
#ifdef WEFT_HAS_ZLIB
    auto state = std::make_unique<z_stream>();
    std::memset(state.get(), 0, sizeof *state);
    if (::deflateInit2(state.get(), Z_DEFAULT_COMPRESSION, Z_DEFLATED, packing == compression::gzip ? 31 : 15, 8,
                       Z_DEFAULT_STRATEGY) != Z_OK)
      throw error(error_code::resource_exhausted, "write", "out of memory for zlib's state");
    packing_.reset(state.release());
#else
    throw error(error_code::unimplemented, "write",
                {path_, " cannot be compressed, because this program was built without zlib: link weft::data"});
#endif
  }
  file_ = std::fopen(path_.c_str(), "wbe");
  if (!file_) fail("opened", errno);
}

inline void record_writer::write(bool last) {
#ifdef WEFT_HAS_ZLIB
  if (packing_) {
    z_stream& z = *packing_;
    z.next_in = reinterpret_cast<Bytef*>(waiting_.data());
    std::size_t left = waiting_.size();
    unsigned char packed[1u << 15];
    do {
      if (z.avail_in == 0) {
        z.avail_in = static_cast<unsigned>(left < (1u << 30) ? left : 1u << 30);
        left -= z.avail_in;
      }
      do {
        z.next_out = packed;
        z.avail_out = sizeof packed;
        ::deflate(&z, last && left == 0 ? Z_FINISH : Z_NO_FLUSH);
        put(packed, sizeof packed - z.avail_out);
      } while (z.avail_out == 0);
    } while (left > 0);
    waiting_.clear();
    return;
  }
#endif
  static_cast<void>(last);
  put(waiting_.data(), waiting_.size());
  waiting_.clear();
}

}  // namespace weft::data
