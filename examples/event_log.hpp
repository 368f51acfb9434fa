// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <weft/weft.hpp>

/// The log that TensorBoard shows of a run, in the folder of --log_dir; without a folder nothing is written. Compiled
/// in event_log.cpp alone.
class event_log {
 public:
  /// Throws weft::error where the folder cannot be written.
  explicit event_log(const std::string& folder);
  ~event_log();
  event_log(const event_log&) = delete;
  event_log& operator=(const event_log&) = delete;

  explicit operator bool() const { return writer_ != nullptr; }

  /// The run begins, or goes on, at this step: TensorBoard forgets what an earlier one has said of later steps.
  void begin(std::int64_t step, const weft::graph& g);
  void scalar(const char* tag, double value, std::int64_t step);
  /// Images [count, height, width, channels] with pixels from 0 to 1.
  void images(const char* tag, const float* pixels, const weft::shape& extents, std::int64_t step);
  /// A histogram of each variable that is trained.
  void weights(weft::session& s, std::int64_t step);
  /// Waits until what was logged is in the file, so that it has what a checkpoint has if the run is killed. Events that
  /// cannot be written are kept: close() says why.
  void flush();
  /// Throws weft::error for what could not be written.
  void close();

 private:
  struct state;
  std::unique_ptr<state> writer_;
};
