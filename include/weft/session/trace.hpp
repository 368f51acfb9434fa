// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/error.hpp>
#include <weft/session/session.hpp>
#include <weft/tensor/sequence.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// During its lifetime, records when and on which device each kernel of a session's steps runs (tf.RunMetadata's
/// step_stats). Without a trace, a session measures nothing. With a trace, steps on GPUs launch each kernel separately
/// and wait for it.
///
///     {
///       trace t(s);
///       step(x, y);
///       t.write("step.json");  // for chrome://tracing, or ui.perfetto.dev
///     }
class trace final : private step_observer {
 public:
  /// Throws failed_precondition if another trace is recording this session.
  explicit trace(session& s) : session_(s) {
    if (s.observer())
      throw error(error_code::failed_precondition, "trace",
                  "another trace records this session already: destroy that one first");
    s.observe(this);
  }
  trace(const trace&) = delete;
  trace& operator=(const trace&) = delete;
  ~trace() { session_.observe(nullptr); }

  /// The number of recorded kernels.
  std::size_t kernels() const { return events_.size(); }

  /// Returns Chrome's trace event format: for each kernel, its node, description, step and time in microseconds. Each
  /// lane of a device is a row.
  std::string json() const {
    std::string text = "[";
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      append(text, {(l ? ",\n" : "\n"), R"({"ph":"M","pid":0,"tid":)", l, R"(,"name":"thread_name","args":{"name":)"});
      quote(text, lanes_[l]);
      text += "}}";
    }
    const std::uint64_t start = events_.empty() ? 0 : events_[0].began;
    for (const event& e : events_) {
      append(text, {",\n", R"({"ph":"X","pid":0,"tid":)", e.lane, R"(,"ts":)"});
      microseconds(text, e.began - start);
      text += R"(,"dur":)";
      microseconds(text, e.ended - e.began);
      text += R"(,"cat":"kernel","name":)";
      quote(text, e.node);
      text += R"(,"args":{"kernel":)";
      quote(text, e.kernel);
      append(text, {R"(,"step":)", e.step, "}}"});
    }
    return text + "\n]\n";
  }

  /// Writes json() to a file. Throws not_found or unavailable.
  void write(const std::string& path) const {
    const std::string text = json();
    std::FILE* const file = std::fopen(path.c_str(), "w");
    if (!file) throw error(error_code::not_found, "trace", {"cannot open ", path, ": ", std::strerror(errno)});
    const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if (std::fclose(file) != 0 || !written)
      throw error(error_code::unavailable, "trace", {"cannot write ", path, ": ", std::strerror(errno)});
  }

 private:
  struct event {
    std::string node, kernel;
    std::uint32_t lane;
    std::uint64_t step, began, ended;
  };

  void kernel_ran(const std::string& device, const std::string& node, const std::string& kernel, std::uint64_t began,
                  std::uint64_t ended) override {
    std::uint32_t lane = 0;
    while (lane < lanes_.size() && lanes_[lane] != device) ++lane;
    if (lane == lanes_.size()) lanes_.push_back(device);
    events_.push_back({node, kernel, lane, steps_, began, ended});
  }
  void step_ended() override { ++steps_; }

  static void microseconds(std::string& text, std::uint64_t ns) {
    const std::uint64_t rest = ns % 1000;
    append(text, {ns / 1000, ".", (rest < 10 ? "00" : rest < 100 ? "0" : ""), rest});
  }
  static void quote(std::string& text, const std::string& s) {
    text += '"';
    for (const char c : s) {
      if (c == '"' || c == '\\') text += '\\';
      text += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
    text += '"';
  }

  session& session_;
  sequence<std::string> lanes_;
  sequence<event> events_;
  std::uint64_t steps_ = 0;
};

}  // namespace weft

WEFT_COLD_END
