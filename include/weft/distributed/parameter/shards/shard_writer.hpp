// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/distributed/parameter/shards/shard_file.hpp>
#include <weft/error.hpp>
#include <weft/transport/aligned_bytes.hpp>

namespace weft::detail {

/// Writes shards to files while training continues, one at a time, from its own copy. The serving thread calls it; a
/// second thread writes.
class shard_writer {
 public:
  struct result {
    run_epoch at;
    std::int64_t step = 0;
    shard_digest digest;
    std::optional<error> problem;
  };

  explicit shard_writer(task_server& here) : here_(here) {}
  shard_writer(const shard_writer&) = delete;
  shard_writer& operator=(const shard_writer&) = delete;
  ~shard_writer() {
    if (thread_.joinable()) thread_.join();
  }

  bool is_busy() const { return is_busy_; }

  /// Copies the state and starts to write it. The writer must not be busy.
  void start(const shard_header& head, std::span<const const_bytes> state, std::string path) {
    write_shard(head, state, copy_, size_);
    begin(head.at, head.step, std::move(path));
  }
  /// The same for the bytes of another file, which ends with 4 bytes for its checksum.
  void start(run_epoch at, std::int64_t step, const std::vector<std::byte>& file, std::string path) {
    size_ = file.size();
    if (copy_.size() < size_) copy_ = aligned_bytes(size_);
    std::memcpy(copy_.data(), file.data(), size_);
    begin(at, step, std::move(path));
  }

  /// Returns the result of the last write once it has ended.
  std::optional<result> take_result() {
    if (!is_busy_) return {};
    if (due_) {
      if (detail::now() < *due_) return {};
      write();
    } else {
      if (!has_ended_) return {};
      if (thread_.joinable()) thread_.join();
    }
    is_busy_ = false;
    return std::move(result_);
  }

 private:
  void begin(run_epoch at, std::int64_t step, std::string path) {
    result_ = {at, step, {}, {}};
    path_ = std::move(path);
    is_busy_ = true;
    // A network in virtual time determines how long writing takes. The serving thread then writes.
    if (const auto delay = here_.network().disk_delay()) {
      due_ = detail::now() + *delay;
    } else {
      if (thread_.joinable()) thread_.join();
      has_ended_ = false;
      try {
        thread_ = std::thread([this] {
          write();
          has_ended_ = true;
          here_.service_bell().notify();
        });
      } catch (const std::exception&) {  // the system provides no thread
        write();
        has_ended_ = true;
      }
    }
  }

  void write() {
    try {
      const mutable_bytes file = static_cast<mutable_bytes>(copy_).first(size_);
      result_.digest = {size_, seal(file)};
      shard_folder::write(path_, file);
    } catch (const error& problem) {
      result_.problem = problem;
    } catch (const std::exception& problem) {
      result_.problem = error(error_code::resource_exhausted, "write", {path_, ": ", problem.what()});
    }
  }

  task_server& here_;
  bool is_busy_ = false;
  aligned_bytes copy_;
  std::size_t size_ = 0;
  std::string path_;
  result result_;
  std::thread thread_;
  std::atomic<bool> has_ended_{false};
  std::optional<deadline::time_point> due_;
};

}  // namespace weft::detail
