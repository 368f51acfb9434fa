// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/checkpoint/archive.hpp>
#include <weft/checkpoint/checkpoint.hpp>
#include <weft/checkpoint/folder_lock.hpp>
#include <weft/checkpoint/restore.hpp>
#include <weft/session/session.hpp>

/// Saves the complete state of training: variables of all kinds, the random position, and a program's own objects.
WEFT_COLD_BEGIN
namespace weft {

/// Options of a saver.
struct saver_options {
  /// Number of files for the variables. Restoring works with any number.
  int shards = 1;
  /// Number of recent checkpoints to keep in a folder; 0: all.
  int max_to_keep = 5;
  /// Interval at which an older checkpoint is kept permanently; 0: none (keep_checkpoint_every_n_hours).
  std::chrono::nanoseconds keep_every{0};
  /// If true, `save` returns when the values are copied, and a thread writes the file.
  bool background = true;
  /// How long `save` and the destructor wait for a write to end.
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);
  /// Checkpoints are the folders NAME-STEP.
  std::string name = "checkpoint";
  /// Called for each damaged checkpoint that restore_latest() skips. If empty, a message is printed to standard error.
  std::function<void(const damaged_checkpoint&)> on_damaged = {};
};

/// The restored variables and, by their names, a program's objects.
struct restored_checkpoint : restore_report {
  std::int64_t step = 0;  ///< the checkpoint's step
  std::string path = {};  ///< the checkpoint's path
};

/// Saves and restores sessions (tf.train.Saver). Only one process at a time can write into a folder: the saver locks
/// NAME.lock from the first save() or lock() until its end. Use only one saver for a folder, and a saver only on one
/// thread, at a time.
///
///     saver keeper;
///     keeper.add("position", position);             // anything that Boost.Serialization serializes
///     const auto latest = keeper.restore_latest(s, "training");
///     ...
///     keeper.save(s, "training", step);
class saver {
 public:
  /// Throws invalid_argument unless shards is at least 1 and the other numbers are at least 0.
  explicit saver(saver_options options = {});
  template <class = void>
  explicit saver(...) = delete;  // saver_options: shards, max_to_keep, keep_every, background, timeout, ...
  saver(const saver&) = delete;
  saver& operator=(const saver&) = delete;
  /// Waits up to options.timeout until the last checkpoint is written, then abandons it, which leaves no checkpoint.
  /// Errors are printed to standard error; call wait() to catch them.
  ~saver();

  /// Adds an object that is saved and restored with each checkpoint under this name. It must outlive the saver.
  /// Copyable objects are assigned together, after everything has been read. Throws already_exists if the name is in
  /// use.
  template <class T>
  void add(const std::string& name, T& object);
  template <class...>
  auto add(...) WEFT_DELETED;  // keeper.add("position", position), a variable of the program

  /// Saves all variables, the session's random position and the added objects as the folder NAME-STEP in `folder`, and
  /// returns its path. The checkpoint appears only when it is complete, even if the process is killed, and then
  /// replaces an earlier one of the same step. Then removes older checkpoints according to the options.
  ///
  /// In the background, the saved values are those at the time of the call. First waits for the previous checkpoint;
  /// throws its error, or deadline_exceeded after options.timeout, and saves nothing then. Otherwise throws
  /// resource_exhausted if the disk is full, permission_denied or unavailable if the folder cannot be written, and
  /// invalid_argument if the step is negative.
  ///
  /// `beside`: archives of higher layers, whose names begin with "weft/"; restore() ignores them.
  std::string save(session& s, const std::string& folder, std::int64_t step,
                   const std::vector<std::pair<std::string, std::string>>& beside = {});
  template <class = void>
  auto save(...) WEFT_DELETED;  // keeper.save(session, "folder", step)

  /// Creates the folder and locks it against other processes, as save() does. Throws failed_precondition, with the
  /// holder's host and process, if another process has the lock, and permission_denied or unavailable if the folder
  /// cannot be written.
  void lock(const std::string& folder);
  /// Waits until the last checkpoint is written and releases the lock. The next save() locks the folder again.
  void unlock();

  /// Waits until the last checkpoint is written. Throws its error, or deadline_exceeded.
  void wait(std::chrono::nanoseconds timeout);
  void wait() { wait(options_.timeout); }

  /// Restores a session's state from a checkpoint, by name. First compares the whole checkpoint with its checksums.
  /// Throws data_loss if they differ, and invalid_argument if a record is missing, extra or of other extents and
  /// `partial` is not set; nothing has changed then.
  restored_checkpoint restore(session& s, const std::string& path, const restore_options& options = {});

  template <class = void>
  auto restore(...) WEFT_DELETED;  // keeper.restore(session, *latest_checkpoint("folder"), {.partial = true})

  /// Restores the newest undamaged checkpoint of a folder, like restore(); returns nothing if the folder has no
  /// checkpoint. Skips damaged checkpoints and those of other versions, and calls options.on_damaged for each. Throws
  /// data_loss if all are damaged.
  std::optional<restored_checkpoint> restore_latest(session& s, const std::string& folder,
                                                    const restore_options& options = {});

  const saver_options& options() const { return options_; }

 private:
  struct added_object {
    std::function<std::string()> save;
    /// Deserializes the bytes; the returned function assigns the object.
    std::function<std::function<void()>(const std::string& bytes, const std::string& where)> restore;
  };

  /// A checkpoint to write. Owns all of its data.
  struct snapshot {
    struct variable {
      std::string name;
      value_info info;
      const char* kind;
      storage data;
    };
    std::string folder, path;
    std::int64_t step = 0;
    std::vector<variable> variables;
    std::vector<std::string> without_value;
    std::vector<std::pair<std::string, std::string>> states;
  };

  /// The state that the saver shares with its thread, which can outlive it.
  struct shared {
    explicit shared(saver_options how) : options(std::move(how)) {}
    const saver_options options;
    std::mutex mutex;
    std::condition_variable changed;
    snapshot values;
    bool has_work = false, ends = false;
    std::exception_ptr problem;
    bool cleaned = false;
    std::optional<detail::folder_lock> lock;
  };

  static void write_all(shared& s);
  static void write(shared& s);
  static void lock_folder(shared& s, const std::string& folder);
  static std::vector<detail::checkpoint_shard> write_files(const shared& s);
  static void remove_old(const std::string& folder, const saver_options& options,
                         std::chrono::system_clock::time_point keep_after);
  void take(session& s);

  saver_options options_;
  std::map<std::string, added_object> objects_;
  std::shared_ptr<shared> shared_;
  std::thread thread_;
};

namespace detail {

/// The session's state apart from variables.
struct session_state {
  static constexpr const char* name = "weft/session";
  std::int64_t random_step = 0, random_stream = 0;

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive & random_step & random_stream;
  }
};

inline std::string names_of_records(const std::vector<std::string>& names) {
  std::string text;
  append_names(text, "", names);
  return text;
}

}  // namespace detail

template <class T>
void saver::add(const std::string& name, T& object) {
  static_assert(!std::is_const_v<T>, "saver::add: the object must not be const, because restoring assigns to it");
  if (name.compare(0, 5, "weft/") == 0 || objects_.count(name))
    throw error(error_code::already_exists, name,
                "the saver already has an object of this name, or it begins with weft/, which is reserved: choose "
                "another name");
  added_object added;
  added.save = [&object] { return detail::to_archive(object); };
  added.restore = [&object](const std::string& bytes, const std::string& where) -> std::function<void()> {
    if constexpr (std::is_copy_constructible_v<T> && std::is_move_assignable_v<T>) {
      auto read = std::make_shared<T>(object);
      detail::from_archive(bytes, *read, where);
      return [&object, read] { object = std::move(*read); };
    } else {
      return [&object, bytes, where] { detail::from_archive(bytes, object, where); };
    }
  };
  objects_.emplace(name, std::move(added));
}

inline saver::saver(saver_options options) : options_(std::move(options)), shared_(std::make_shared<shared>(options_)) {
  if (options_.shards < 1 || options_.shards > 99999 || options_.max_to_keep < 0 || options_.keep_every.count() < 0 ||
      options_.name.empty() || options_.name.find('/') != std::string::npos)
    throw error(error_code::invalid_argument, "saver",
                {"shards must be from 1 to 99999, max_to_keep and keep_every at least 0, and the name without '/', but "
                 "shards = ",
                 options_.shards, ", max_to_keep = ", options_.max_to_keep,
                 ", keep_every = ", options_.keep_every.count(), " ns, name = '", options_.name, "'"});
}

inline saver::~saver() {
  if (!thread_.joinable()) return;
  try {
    wait();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "weft: a checkpoint was not written: %s\n", e.what());
  }
  bool busy;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->ends = true;
    busy = shared_->has_work;
  }
  shared_->changed.notify_all();
  // A thread that is blocked by a disk must not block the end of the program.
  if (busy)
    thread_.detach();
  else
    thread_.join();
}

inline void saver::wait(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(shared_->mutex);
  const std::chrono::nanoseconds span = std::min<std::chrono::nanoseconds>(timeout, std::chrono::hours(24 * 365));
  const bool done = shared_->changed.wait_for(lock, span, [&] { return !shared_->has_work; });
  if (!done)
    throw error(error_code::deadline_exceeded, "save",
                {shared_->values.path, " was not written within ",
                 std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count(),
                 " ms: the disk is slow or not responding; wait longer, or save less often"});
  if (shared_->problem) std::rethrow_exception(std::exchange(shared_->problem, nullptr));
}

inline std::string saver::save(session& s, const std::string& folder, std::int64_t step,
                               const std::vector<std::pair<std::string, std::string>>& beside) {
  if (step < 0)
    throw error(error_code::invalid_argument, "save", {"the step of a checkpoint must be at least 0, but is ", step});
  wait();
  snapshot& values = shared_->values;
  values.folder = folder;
  values.step = step;
  values.path = str_cat({folder, "/", options_.name, "-", step});
  take(s);
  values.states.insert(values.states.end(), beside.begin(), beside.end());
  const std::string path = values.path;
  if (!options_.background) {
    write(*shared_);
    return path;
  }
  if (!thread_.joinable()) thread_ = std::thread([shared = shared_] { write_all(*shared); });
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->has_work = true;
  }
  shared_->changed.notify_all();
  return path;
}

// Copies the values, into the memory of the last snapshot if the sizes match.
inline void saver::take(session& s) {
  snapshot& to = shared_->values;
  const graph& g = s.of();
  to.without_value.clear();
  to.states.clear();
  std::size_t count = 0;
  for (std::uint32_t n = 0; n < g.size(); ++n) {
    if (!detail::records_variable(g, n)) continue;
    if (!s.state_of(n).initialized) {
      to.without_value.push_back(g[n].name);
      continue;
    }
    if (count == to.variables.size()) to.variables.emplace_back();
    snapshot::variable& v = to.variables[count++];
    v.name = g[n].name;
    v.info = s.variable_info(n);
    v.kind = name(kind_of(g[n].def));
    if (v.data.bytes() != v.info.bytes()) v.data = storage(v.info.bytes());
    s.read_variable(n, v.data.data());
  }
  to.variables.resize(count);
  const plan::random_state& random = s.resources().random;
  to.states.emplace_back(detail::session_state::name,
                         detail::to_archive(detail::session_state{random.step(), random.stream()}));
  for (const auto& [name, object] : objects_) to.states.emplace_back(name, object.save());
}

inline void saver::write_all(shared& s) {
  std::unique_lock lock(s.mutex);
  for (;;) {
    s.changed.wait(lock, [&] { return s.has_work || s.ends; });
    if (!s.has_work) return;
    lock.unlock();
    std::exception_ptr problem;
    try {
      write(s);
    } catch (...) {
      problem = std::current_exception();
    }
    lock.lock();
    s.has_work = false;
    s.problem = problem;
    s.changed.notify_all();
  }
}

inline void saver::write(shared& s) {
  const snapshot& values = s.values;
  lock_folder(s, values.folder);
  if (!std::exchange(s.cleaned, true))  // remove partial checkpoints of a killed process
    for (const std::string& path : detail::checkpoint_folders(values.folder, s.options.name))
      if (!detail::has_index(path)) detail::remove_checkpoint(path);
  checkpoint_info info;
  info.path = values.path;
  info.step = values.step;
  info.written = std::chrono::system_clock::now();
  const std::vector<checkpoint_info> before = list_checkpoints(values.folder, s.options.name);
  if (!before.empty()) info.sequence = before.back().sequence + 1;
  info.keep_after = before.empty() ? info.written : before.back().keep_after;
  for (const checkpoint_info& c : before)
    if (c.kept) info.keep_after = std::max(info.keep_after, c.written);

  detail::make_folder(values.path);
  const std::vector<detail::checkpoint_shard> files = write_files(s);
  detail::commit_checkpoint(info, files, values.without_value);
  detail::remove_files(values.path, files);
  remove_old(values.folder, s.options, info.keep_after);
}

inline void saver::lock_folder(shared& s, const std::string& folder) {
  detail::make_folder(folder);
  const std::string path = folder + "/" + s.options.name + ".lock";
  if (!s.lock || !s.lock->is_file_at(path)) s.lock.emplace(path);
}

inline void saver::lock(const std::string& folder) {
  wait();  // the thread also uses the lock
  lock_folder(*shared_, folder);
}

inline void saver::unlock() {
  wait();
  shared_->lock.reset();
}

inline std::vector<detail::checkpoint_shard> saver::write_files(const shared& s) {
  const snapshot& values = s.values;
  const auto shards = static_cast<std::size_t>(s.options.shards);
  // Largest first, each into the smallest file so far.
  std::vector<std::size_t> order(values.variables.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto bytes_of = [&](std::size_t i) { return values.variables[i].data.bytes(); };
  // Stable, as `order` is ascending. (With libstdc++ 12, clang 19 warns about std::stable_sort.)
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return std::pair(bytes_of(b), a) < std::pair(bytes_of(a), b); });
  std::vector<std::vector<detail::checkpoint_tensor>> content(shards + 1);
  std::vector<std::uint64_t> bytes(shards);
  for (const std::size_t i : order) {
    const snapshot::variable& v = values.variables[i];
    const auto least = static_cast<std::size_t>(std::min_element(bytes.begin(), bytes.end()) - bytes.begin());
    bytes[least] += v.data.bytes();
    content[least].push_back({{v.name, v.info.type, v.info.extents, v.data.data()}, v.kind});
  }
  for (const auto& [name, archive] : values.states)
    content[shards].push_back({{name, dtype::uint8, shape(archive.size()), archive.data()}, detail::state_kind});

  const std::string attempt = detail::new_attempt();
  std::vector<detail::checkpoint_shard> files;
  for (std::size_t i = 0; i <= shards; ++i) {
    const std::string name =
        i < shards ? detail::shard_name(attempt, i, shards) : attempt + "-" + detail::state_kind + ".safetensors";
    files.push_back(detail::write_shard(values.path, name, content[i]));
  }
  return files;
}

// Removes old checkpoints. Permanent ones are marked on disk, so that a restarted program recognizes them.
inline void saver::remove_old(const std::string& folder, const saver_options& options,
                              std::chrono::system_clock::time_point keep_after) {
  if (options.max_to_keep == 0) return;
  std::vector<checkpoint_info> counted;
  for (checkpoint_info& c : list_checkpoints(folder, options.name))  // leaves damaged ones for inspection
    if (!c.kept) counted.push_back(std::move(c));
  for (std::size_t i = 0; i + static_cast<std::size_t>(options.max_to_keep) < counted.size(); ++i) {
    const checkpoint_info& c = counted[i];
    if (options.keep_every.count() > 0 && c.written - keep_after >= options.keep_every) {
      detail::atomic_file(c.path + "/" + detail::kept_name).commit();
      keep_after = c.written;
    } else {
      detail::remove_checkpoint(c.path);
    }
  }
}

inline restored_checkpoint saver::restore(session& s, const std::string& path, const restore_options& options) {
  const checkpoint_reader checkpoint(path);
  std::vector<detail::restorable> tensors;
  for (const checkpoint_reader::record& r : checkpoint.variables()) tensors.push_back({r.file, r.entry});
  const std::vector<std::string>& without = checkpoint.without_value();
  const auto has_value = [&](std::uint32_t n) {
    return std::find(without.begin(), without.end(), s.of()[n].name) == without.end();
  };
  detail::restore_plan plan = detail::plan_restore(s, path, tensors, options, has_value);

  // Checks a program's objects before anything changes.
  restored_checkpoint report{std::move(plan.report), checkpoint.step(), path};
  std::vector<std::string> missing, extra;
  for (const auto& [name, object] : objects_)
    if (!checkpoint.find_state(name)) missing.push_back(name);
  for (const checkpoint_reader::record& r : checkpoint.states())
    if (r.entry->name.compare(0, 5, "weft/") != 0 && !objects_.count(r.entry->name)) extra.push_back(r.entry->name);
  if (!options.partial && !(missing.empty() && extra.empty()))
    throw error(error_code::invalid_argument, "restore",
                {path, " does not match the objects added to the saver: missing in the file: ",
                 missing.empty() ? "none" : detail::names_of_records(missing),
                 "; extra in the file: ", extra.empty() ? "none" : detail::names_of_records(extra),
                 "; saver::add() sets their names, restore_options{.partial = true} restores those that match"});
  checkpoint.verify();
  detail::session_state session_state;
  std::vector<std::function<void()>> changes;
  for (const checkpoint_reader::record& r : checkpoint.states()) {
    std::string bytes(static_cast<std::size_t>(r.entry->bytes), '\0');
    checkpoint.read(r, bytes.data());
    const std::string where = str_cat({r.file->path(), ": record '", r.entry->name, "' at byte ", r.entry->offset});
    if (r.entry->name == detail::session_state::name) {
      detail::from_archive(bytes, session_state, where);
    } else if (const auto object = objects_.find(r.entry->name); object != objects_.end()) {
      changes.push_back(object->second.restore(bytes, where));
      report.restored.push_back(r.entry->name);
    }
  }
  report.missing.insert(report.missing.end(), missing.begin(), missing.end());
  report.extra.insert(report.extra.end(), extra.begin(), extra.end());

  if (checkpoint.find_state(detail::session_state::name)) {
    s.set_step_number(session_state.random_step);
    s.set_random_stream(session_state.random_stream);
  }
  for (std::size_t i = 0; i < plan.variables.size(); ++i) {
    const detail::restored_variable& v = plan.variables[i];
    const checkpoint_reader::record* r = checkpoint.find_variable(v.from.entry->name);
    detail::restore_variable(s, v, [&](void* to) { checkpoint.read(*r, to); });
  }
  for (std::uint32_t n = 0; n < s.of().size(); ++n)
    if (detail::records_variable(s.of(), n) && !has_value(n)) s.state_of(n).initialized = false;
  for (const auto& change : changes) change();
  return report;
}

inline std::optional<restored_checkpoint> saver::restore_latest(session& s, const std::string& folder,
                                                                const restore_options& options) {
  std::optional<restored_checkpoint> report;
  const std::vector<damaged_checkpoint> damaged = detail::find_whole_checkpoint(
      folder, options_.name, [&](const std::string& path) { report = restore(s, path, options); });
  for (const damaged_checkpoint& d : damaged)
    if (options_.on_damaged)
      options_.on_damaged(d);
    else
      std::fprintf(stderr, "weft: a damaged checkpoint was skipped, and %s was restored: %s\n", report->path.c_str(),
                   d.why.c_str());
  return report;
}

}  // namespace weft
WEFT_COLD_END
