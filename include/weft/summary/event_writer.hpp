// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <weft/encoding/tfrecord.hpp>
#include <weft/error.hpp>
#include <weft/summary/events.hpp>
#include <weft/text.hpp>

namespace weft {

class graph;
class summary;
struct hparam;

/// Options of an event_writer.
struct event_writer_options {
  /// Maximum delay before an added event is written to the file.
  std::chrono::nanoseconds flush_interval = std::chrono::seconds(5);
  /// Maximum number of waiting events, and maximum size of the tensors in them. Further events are dropped, so that
  /// training does not wait for a slow disk.
  std::size_t max_queue = 10'000;
  std::size_t max_queue_bytes = std::size_t{256} << 20;
  /// Appended to the file's name.
  std::string suffix = {};
};

/// The start or the end of a run. At a start, TensorBoard discards the data of this step and later ones from other
/// files in the folder, because a resumed run recomputes these steps.
enum class session_status : unsigned char { start = 1, stop = 2 };

/// The outcome of a run in TensorBoard's HParams dashboard.
enum class run_status : unsigned char { success = 1, failure = 2 };

/// Writes an event file for TensorBoard (tf.summary.FileWriter). Its name is
/// `events.out.tfevents.<seconds>.<host>.<process>.<n>`.
///
///     event_writer log("runs/1");
///     log.add_scalar("loss", loss, step);
///
/// `tensorboard --logdir runs` shows it. Adding an event takes less than a microsecond: tensors are shared, and a
/// background thread converts them to histograms and images and writes the file. Adding is thread-safe. Several writers
/// can write to one folder; each has its own file.
///
/// If a write fails, for example on a full disk, the writer keeps up to max_queue_bytes of events and retries.
/// `failure` returns the reason; `flush` and `close` throw it.
class event_writer {
 public:
  using duration = std::chrono::nanoseconds;

  /// Creates the folder and its parents if they do not exist. Throws not_found, permission_denied or unavailable if the
  /// file cannot be created.
  explicit event_writer(const std::string& folder, event_writer_options options = {});
  template <class = void>
  event_writer(const std::string&, ...) = delete;  // event_writer_options: flush_interval, max_queue, ...
  event_writer() = delete;                         // event_writer log("runs/1");
  event_writer(const event_writer&) = delete;
  event_writer& operator=(const event_writer&) = delete;
  /// Closes the file within ten seconds. Prints an error that close() would throw to standard error.
  ~event_writer();

  /// Adds a number. It is written as a float, the type that TensorBoard plots.
  void add_scalar(std::string_view tag, double value, std::int64_t step);

  template <class = void>
  auto add_scalar(...) WEFT_DELETED;  // a tag, a number and the step: log.add_scalar("loss", 0.25, 100)

  /// Adds the distribution of a tensor's elements, in TensorFlow's buckets. Infinities and NaN are left out; their
  /// number is added as a scalar, `<tag>/not_finite`.
  template <class T, class D>
  void add_histogram(std::string_view tag, const tensor<T, D>& values, std::int64_t step) {
    add({std::string(tag), summary_kind::histogram, 0, detail::elements_of(values), 1}, step);
  }

  /// Adds an image [height, width, channels] of 1, 3 or 4 channels, or the first `max_images` of a batch, as
  /// `<tag>/image/0` and so on. Bytes are shown unchanged. Other numbers are scaled for each image: the largest becomes
  /// 255 or, if any element is negative, 0 becomes 128. Throws invalid_argument for other extents.
  template <class T, class D>
  void add_image(std::string_view tag, const tensor<T, D>& image, std::int64_t step, std::size_t max_images = 3) {
    detail::check_image(std::string(tag), image.extents());
    add({std::string(tag), summary_kind::image, 0, detail::elements_of(image), max_images}, step);
  }

  /// Adds text in Markdown.
  void add_text(std::string_view tag, std::string_view text, std::int64_t step);

  /// Adds the fetched value of `merge_summaries(...)`.
  void add(const summary& fetched, std::int64_t step);

  /// Adds the graph, for TensorBoard's graph dashboard (summary/graph_def.hpp).
  void add_graph(const graph& g);

  /// Adds the run's hyperparameters, and the tags of the scalars that compare runs. Without tags, TensorBoard uses all
  /// scalars (summary/hparams.hpp):
  ///
  ///     log.add_hyperparameters({{"learning_rate", 0.1}, {"optimizer", "adam"}}, {"test/accuracy"});
  ///
  /// With tags, TensorBoard takes the columns of its page from one of the runs, so all runs must have the same names.
  /// Without tags, it collects the names and texts of all runs and filters by them.
  void add_hyperparameters(std::initializer_list<hparam> values, std::initializer_list<std::string> metrics = {});
  /// Adds the outcome of the run.
  void end_hyperparameters(run_status status);

  void add_session_log(session_status status, std::int64_t step, std::string_view message = {});

  /// Waits until all earlier events are in the file. Throws deadline_exceeded after `within`, resource_exhausted if the
  /// disk is full, and unavailable for other write errors.
  void flush(duration within = std::chrono::seconds(10));

  /// Attempts once to write the waiting events, and closes the file. Throws as flush() does, and resource_exhausted if
  /// events were dropped because the queue was full. No events can be added afterwards.
  void close(duration within = std::chrono::seconds(10));

  const std::string& path() const { return state_->path; }
  /// The reason why the last write failed; empty if it succeeded.
  std::string failure() const;
  /// The number of events that were dropped because the queue was full or they could not be written.
  std::uint64_t dropped() const;

 private:
  /// A waiting event: one value of a summary, several values, or an encoded message.
  struct event {
    double wall_time;
    std::int64_t step;
    detail::summary_value value;
    std::shared_ptr<const std::vector<detail::summary_value>> more;
    detail::event_field field = detail::event_field::summary;
    std::string message;

    std::size_t bytes() const;
    std::string encode() const;
  };

  /// The state that the writer shares with its thread, which outlives the writer if the disk does not respond.
  struct shared_state {
    std::string path;
    event_writer_options options;
    int file = -1;

    std::mutex mutex;
    std::condition_variable asked, answered;
    std::vector<event> waiting;
    std::size_t waiting_bytes = 0;
    std::uint64_t added = 0, settled = 0, dropped = 0;  ///< numbers of events; settled: written or dropped
    std::uint64_t attempts_begun = 0, attempts_made = 0;
    bool hurry = false, closing = false, ended = false;
    int reason = 0;  ///< errno of the last attempt to write
    std::string failure;

    ~shared_state() {
      if (file >= 0) ::close(file);
    }
  };

  static double now() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  }
  void add(detail::summary_value value, std::int64_t step) {
    enqueue({now(), step, std::move(value), nullptr, detail::event_field::summary, {}});
  }
  void add_message(detail::event_field field, std::string message, std::int64_t step) {
    enqueue({now(), step, {}, nullptr, field, std::move(message)});
  }
  void enqueue(event e);
  static int open(const std::string& folder, const std::string& suffix, std::string& path);
  static void write_events(const std::shared_ptr<shared_state>& state);
  static int write_all(int file, const std::string& bytes, std::int64_t offset);
  [[noreturn]] static void fail(const shared_state& s, const char* remedy);

  std::shared_ptr<shared_state> state_;
  std::thread thread_;
};

// ---- adding ----

inline void event_writer::add_scalar(std::string_view tag, double value, std::int64_t step) {
  add({std::string(tag), summary_kind::scalar, value, {}, 1}, step);
}

inline void event_writer::add_text(std::string_view tag, std::string_view text, std::int64_t step) {
  data::protobuf_writer summary;
  summary.add_message(1, detail::plugin_value(std::string(tag), "text", {}, detail::text_tensor(std::string(text))));
  add_message(detail::event_field::summary, summary.bytes(), step);
}

inline void event_writer::add_session_log(session_status status, std::int64_t step, std::string_view message) {
  data::protobuf_writer log;
  log.add_integer(1, static_cast<std::int64_t>(status));
  if (!message.empty()) log.add_text(3, message);
  add_message(detail::event_field::session_log, log.bytes(), step);
}

inline std::size_t event_writer::event::bytes() const {
  std::size_t all = message.size() + value.elements.bytes();
  if (more)
    for (const detail::summary_value& v : *more) all += v.elements.bytes();
  return all;
}

inline std::string event_writer::event::encode() const {
  if (!message.empty()) return detail::event_message(wall_time, step, field, message).bytes();
  data::protobuf_writer summary;
  if (more)
    for (const detail::summary_value& v : *more) detail::add_value(summary, v);
  else
    detail::add_value(summary, value);
  return detail::event_message(wall_time, step, field, summary.bytes()).bytes();
}

inline void event_writer::enqueue(event e) {
  const std::size_t bytes = e.bytes();
  shared_state& s = *state_;
  bool wake = false;
  {
    const std::lock_guard lock(s.mutex);
    if (s.closing)
      throw error(error_code::failed_precondition, s.path, "the writer is closed: add events before close()");
    // A single event may exceed max_queue_bytes.
    const bool full = s.waiting.size() >= s.options.max_queue ||
                      (!s.waiting.empty() && s.waiting_bytes + bytes > s.options.max_queue_bytes);
    if (full) {
      ++s.dropped;
    } else {
      s.waiting.push_back(std::move(e));
      s.waiting_bytes += bytes;
      ++s.added;
    }
    // Waking the thread costs more than adding. It wakes after flush_interval unless the queue is half full.
    wake = !s.hurry && (2 * s.waiting.size() >= s.options.max_queue || 2 * s.waiting_bytes > s.options.max_queue_bytes);
    if (wake) s.hurry = true;
  }
  if (wake) s.asked.notify_one();
}

// ---- the file ----

inline event_writer::event_writer(const std::string& folder, event_writer_options options)
    : state_(std::make_shared<shared_state>()) {
  if (options.max_queue < 1 || options.flush_interval <= duration::zero())
    throw error(error_code::invalid_argument, "event_writer", "max_queue and flush_interval must be positive");
  state_->file = open(folder, options.suffix, state_->path);
  state_->options = std::move(options);
  enqueue({now(), 0, {}, nullptr, detail::event_field::file_version, "brain.Event:2"});
  thread_ = std::thread(write_events, state_);
}

inline int event_writer::open(const std::string& folder, const std::string& suffix, std::string& path) {
  const auto fail_to_make = [](const std::string& what, int reason) {
    throw error(reason == EACCES || reason == EPERM || reason == EROFS ? error_code::permission_denied
                : reason == ENOENT || reason == ENOTDIR                ? error_code::not_found
                                                                       : error_code::unavailable,
                "event_writer", {what, " cannot be created: ", std::strerror(reason)});
  };
  for (std::size_t end = 1; end <= folder.size(); ++end) {
    if (end < folder.size() && folder[end] != '/') continue;
    const std::string part(folder, 0, end);
    struct stat status{};
    if (::mkdir(part.c_str(), 0777) == 0 || (::stat(part.c_str(), &status) == 0 && S_ISDIR(status.st_mode))) continue;
    const int reason = ::stat(part.c_str(), &status) == 0 ? ENOTDIR : errno;
    fail_to_make(part, reason);
  }
  char host[256] = "localhost";
  ::gethostname(host, sizeof host - 1);
  char seconds[24];
  std::snprintf(seconds, sizeof seconds, "%010lld", static_cast<long long>(now()));
  static std::atomic<int> writers{0};
  for (;;) {
    path = str_cat({folder.empty() ? "." : folder, "/events.out.tfevents.", seconds, ".", host, ".", ::getpid(), ".",
                    writers++, suffix});
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0) return file;
    if (errno != EEXIST) fail_to_make(path, errno);
  }
}

/// Returns 0 or an errno.
inline int event_writer::write_all(int file, const std::string& bytes, std::int64_t offset) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t got = ::pwrite(file, bytes.data() + done, bytes.size() - done, offset + static_cast<off_t>(done));
    if (got >= 0) {
      done += static_cast<std::size_t>(got);
    } else if (errno != EINTR) {
      const int reason = errno;
      // Remove a partial record: it would make all later records unreadable.
      if (::ftruncate(file, offset) != 0) return reason;
      return reason;
    }
  }
  return 0;
}

/// Runs on the writer's thread.
inline void event_writer::write_events(const std::shared_ptr<shared_state>& state) {
  shared_state& s = *state;
  std::vector<event> taken;
  std::string bytes;         // records that are not in the file yet
  std::uint64_t events = 0;  // in these
  std::int64_t written = 0;  // bytes
  bool closing = false;
  while (!closing) {
    {
      std::unique_lock lock(s.mutex);
      s.asked.wait_for(lock, s.options.flush_interval, [&] { return s.hurry || s.closing; });
      taken.swap(s.waiting);
      s.waiting_bytes = 0;
      s.hurry = false;
      ++s.attempts_begun;
      closing = s.closing;
    }
    int reason = 0;
    std::uint64_t lost = 0;
    std::string failure;
    for (const event& e : taken) {
      const std::size_t whole = bytes.size();
      try {
        data::append_record(bytes, e.encode());
        ++events;
      } catch (const std::exception& why) {  // usually out of memory
        bytes.resize(whole);
        failure = why.what();
        ++lost;
      }
    }
    taken.clear();
    std::uint64_t settled = lost;
    if (!bytes.empty()) reason = write_all(s.file, bytes, written);
    if (reason != 0) failure = str_cat({events, " events were not written: ", std::strerror(reason)});
    const bool given_up = reason != 0 && bytes.size() > s.options.max_queue_bytes;
    if (reason == 0 || given_up) {
      if (given_up)
        lost += events;
      else
        written += static_cast<std::int64_t>(bytes.size());
      settled += events;
      events = 0;
      bytes.clear();
    }
    const std::lock_guard lock(s.mutex);
    s.settled += settled;
    s.dropped += lost;
    s.reason = reason;
    s.failure = std::move(failure);
    ++s.attempts_made;
    s.ended = closing;
    s.answered.notify_all();
  }
}

inline void event_writer::fail(const shared_state& s, const char* remedy) {
  throw error(s.reason == ENOSPC || s.reason == EDQUOT || s.reason == EFBIG || s.reason == 0
                  ? error_code::resource_exhausted
                  : error_code::unavailable,
              s.path, {s.failure, s.reason == 0 ? "" : remedy});
}

inline void event_writer::flush(duration within) {
  shared_state& s = *state_;
  std::unique_lock lock(s.mutex);
  if (s.closing) return;
  const std::uint64_t target = s.added, attempt = s.attempts_begun + 1;
  s.hurry = true;
  s.asked.notify_one();
  if (!s.answered.wait_for(lock, within, [&] { return s.settled >= target || s.attempts_made >= attempt; }))
    throw error(error_code::deadline_exceeded, s.path,
                {"flush: ", target - s.settled,
                 " events were not written before the deadline: wait longer, or check the disk"});
  if (!s.failure.empty()) fail(s, "; they are kept: make room and flush again");
}

inline void event_writer::close(duration within) {
  if (!thread_.joinable()) return;
  shared_state& s = *state_;
  std::unique_lock lock(s.mutex);
  s.closing = true;
  s.asked.notify_one();
  if (!s.answered.wait_for(lock, within, [&] { return s.ended; })) {
    thread_.detach();
    throw error(
        error_code::deadline_exceeded, s.path,
        {"close: ", s.added - s.settled,
         " events were not written before the deadline; they will be if the disk responds before the program ends"});
  }
  lock.unlock();
  thread_.join();
  if (!s.failure.empty()) fail(s, "; they are lost");
  if (s.dropped > 0)
    throw error(
        error_code::resource_exhausted, s.path,
        {s.dropped, " events were dropped, because ", s.options.max_queue, " events or ", s.options.max_queue_bytes,
         " bytes were waiting: add fewer, or increase max_queue or max_queue_bytes"});
}

inline event_writer::~event_writer() {
  try {
    close();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
}

inline std::string event_writer::failure() const {
  const std::lock_guard lock(state_->mutex);
  return state_->failure;
}

inline std::uint64_t event_writer::dropped() const {
  const std::lock_guard lock(state_->mutex);
  return state_->dropped;
}

}  // namespace weft
