// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weft/checkpoint/folder_lock.hpp>
#include <weft/distributed/cluster/message_fields.hpp>
#include <weft/distributed/parameter/replay_window.hpp>
#include <weft/encoding/crc32c.hpp>
#include <weft/encoding/endian.hpp>
#include <weft/encoding/file.hpp>
#include <weft/error.hpp>
#include <weft/transport/aligned_bytes.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// A run and its epoch. A run begins when parameter servers start and find no shards to restore. Its epochs are
/// numbered: each restoration, of shards or of a checkpoint of the chief, begins another. 0: none yet.
struct run_epoch {
  std::uint64_t bits = 0;

  static run_epoch of(std::uint32_t run, std::uint32_t epoch) { return {std::uint64_t{run} << 32 | epoch}; }
  std::uint32_t run() const { return static_cast<std::uint32_t>(bits >> 32); }
  std::uint32_t epoch() const { return static_cast<std::uint32_t>(bits); }
  run_epoch next() const { return of(run(), epoch() + 1); }
  explicit operator bool() const { return bits != 0; }

  /// Rejects 0, and epochs so large that later ones could wrap around.
  void fields(message_fields& io) {
    io.number(bits, 1);
    io.must_hold(epoch() >> 31 == 0);
  }

  friend bool operator==(const run_epoch&, const run_epoch&) = default;
};

/// A worker that makes no more steps.
struct finished_worker {
  bool is_done = false;
  std::uint64_t process = 0;  // the incarnation that finished; 0: the worker still sends requests

  void fields(message_fields& io) {
    io.flag(is_done).number(process);
    io.must_hold(is_done || process == 0);
  }

  friend bool operator==(const finished_worker&, const finished_worker&) = default;
};

/// The beginning of the file of one parameter server's shard, up to the values; see docs/reference/formats.md.
struct shard_header {
  std::uint64_t file_bytes = 0;
  run_epoch at;
  std::int64_t step = 0;  // the next step; in asynchronous training the number of updates in the values
  std::uint32_t task = 0, servers = 0;
  std::int64_t global_step = 0, last_step = -1;
  std::uint32_t unit = 0;              // number of examples in gradients of weight 1; 0: not known yet
  std::vector<replay_window> applied;  // of each worker
  std::vector<finished_worker> done;   // of each worker, in asynchronous training
  std::vector<std::byte> variables;    // enroll_message without the loss policy
  std::vector<double> scalars;         // scalar slots
  std::uint64_t state_bytes = 0;       // size of the values and array slots, which follow
  const_bytes state = {};              // view of the file that was read

  void fields(message_fields& io);
};

inline constexpr std::uint64_t shard_magic = 0x4452414853544657u;     // "WFTSHARD"
inline constexpr std::uint64_t manifest_magic = 0x5453464e4d544657u;  // "WFTMNFST"
inline constexpr std::uint32_t shard_version = 3;
/// Maximum size of a shard's file without its values and slots, in bytes.
inline constexpr std::uint64_t max_shard_overhead = std::uint64_t{256} << 20;

/// Writes a whole shard to `to`, except its checksum, which seal() writes. `state`: the pieces of values and slots,
/// `head.state_bytes` in total.
inline void write_shard(const shard_header& head, std::span<const const_bytes> state, aligned_bytes& to,
                        std::size_t& size) {
  std::vector<std::byte> front = write_message(head);
  size = front.size() + static_cast<std::size_t>(head.state_bytes) + 4;
  put_little(front.data() + 12, std::uint64_t{size});
  if (to.size() < size) to = aligned_bytes(size);
  std::byte* at = to.data();
  std::memcpy(at, front.data(), front.size());
  at += front.size();
  for (const const_bytes piece : state) {
    if (!piece.empty()) std::memcpy(at, piece.data(), piece.size());
    at += piece.size();
  }
}

/// Writes the checksum of a file to its last 4 bytes. Returns it.
inline std::uint32_t seal(mutable_bytes file) {
  const std::uint32_t crc = crc32c(file.first(file.size() - 4));
  put_little(file.data() + file.size() - 4, crc);
  return crc;
}

[[noreturn]] inline void damaged(const std::string& path, const char* how) {
  throw error(error_code::data_loss, "restore", {path, " is damaged: ", how});
}

/// Checks magic number, version and checksum. Throws weft::error (data_loss, failed_precondition) that names the file.
inline void check_sealed(const_bytes file, const std::string& path, std::uint64_t magic, bool has_length) {
  constexpr std::size_t least = 8 + 4 + 4;
  if (file.size() < least) damaged(path, "it is too short");
  if (get_little<std::uint64_t>(file.data()) != magic) damaged(path, "its magic number does not match");
  if (crc32c(file.first(file.size() - 4)) != get_little<std::uint32_t>(file.data() + file.size() - 4)) {
    if (has_length && file.size() >= 20 && get_little<std::uint64_t>(file.data() + 12) > file.size())
      damaged(path, "its end is missing");
    damaged(path, "its checksum does not match");
  }
  if (const auto version = get_little<std::uint32_t>(file.data() + 8); version != shard_version)
    throw error(error_code::failed_precondition, "restore",
                {path, " has version ", version, " of the format, but this program reads version ", shard_version});
}

/// Reads the contents of a file whose checksum has been checked.
template <typename Contents>
Contents read_sealed(const_bytes file, const std::string& path) {
  try {
    return read_message<Contents>(file.first(file.size() - 4));
  } catch (const error&) {
    damaged(path, "its contents contradict each other");
  }
}

/// Reads a shard that may be damaged or forged. `state` is a part of `file`. Throws weft::error that names the file.
inline shard_header read_shard(const_bytes file, const std::string& path, const_bytes& state) {
  check_sealed(file, path, shard_magic, true);
  auto head = read_sealed<shard_header>(file, path);
  if (head.file_bytes != file.size()) damaged(path, "its length does not match");
  state = head.state;
  return head;
}

/// The size and checksum by which a manifest identifies a shard.
struct shard_digest {
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;

  void fields(message_fields& io) { io.number(bytes).number(crc); }

  friend bool operator==(const shard_digest&, const shard_digest&) = default;
};

/// Lists the shards that make one step; see docs/reference/formats.md.
struct shard_manifest {
  run_epoch at;                      // the newest epoch that has begun
  std::int64_t step = 0;             // the next step
  std::vector<shard_digest> shards;  // of each parameter server
  std::vector<finished_worker> done;

  void fields(message_fields& io);
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> all = write_message(*this);
    all.resize(all.size() + 4);
    seal(all);
    return all;
  }
  /// Throws weft::error that names the file.
  static shard_manifest read(const_bytes file, const std::string& path) {
    check_sealed(file, path, manifest_magic, false);
    return read_sealed<shard_manifest>(file, path);
  }
};

#if WEFT_DISTRIBUTED_DEFINITIONS

WEFT_DISTRIBUTED_DECL void shard_header::fields(message_fields& io) {
  constexpr std::int64_t far = std::int64_t{1} << 62;
  std::uint64_t magic = shard_magic;
  std::uint32_t version = shard_version;
  io.number(magic).number(version).number(file_bytes);
  at.fields(io);
  io.number(step, 0, far).number(task).number(servers);
  io.number(global_step, 0, far).number(last_step, -1, far).number(unit);
  io.repeat(applied.size(), max_shard_overhead, [&](std::size_t worker) {
    replay_window& updates = io.at(applied, worker);
    std::int64_t newest = updates.newest();
    std::uint64_t seen = updates.seen();
    io.number(newest, -1, far).number(seen);
    io.must_hold(newest < 0 ? seen == 0 : (seen & 1u) != 0);
    updates = replay_window::of(newest, seen);
    io.at(done, worker).fields(io);
  });
  io.bytes(variables, max_shard_overhead, 8);
  io.list(scalars, max_shard_overhead, [&](double& x) { io.real(x); }, 8);
  io.number(state_bytes).rest(state);
  io.must_hold(state.size() == state_bytes);
}

WEFT_DISTRIBUTED_DECL void shard_manifest::fields(message_fields& io) {
  std::uint64_t magic = manifest_magic;
  std::uint32_t version = shard_version;
  io.number(magic).number(version);
  at.fields(io);
  io.number(step, 0);
  const std::size_t servers = io.count(shards.size(), max_shard_overhead);
  const std::size_t workers = io.count(done.size(), max_shard_overhead);
  for (std::size_t k = 0; k < servers; ++k) io.at(shards, k).fields(io);
  for (std::size_t k = 0; k < workers; ++k) io.at(done, k).fields(io);
}

#endif

/// The files of one parameter server in the folder server_options::shards: `shard-TASK-of-SERVERS-STEP`, and at
/// parameter server 0 `manifest-STEP`. Locks the files of its shards against other processes during its lifetime.
class shard_folder {
 public:
  /// Creates the folder if it is missing. Throws weft::error that names the folder.
  shard_folder(std::string path, int task, int servers)
      : path_(std::move(path)), prefix_(str_cat({"shard-", task, "-of-", servers, "-"})) {
    struct stat status{};
    if (::mkdir(path_.c_str(), 0777) == 0)
      sync_folder(folder_of(path_));
    else if (errno != EEXIST)
      fail_on_file("write", path_, errno);
    else if (::stat(path_.c_str(), &status) != 0)
      fail_on_file("write", path_, errno);
    else if (!S_ISDIR(status.st_mode))
      fail_on_file("write", path_, ENOTDIR);
    lock_.emplace(str_cat({path_, "/shard-", task, "-of-", servers, ".lock"}));
    for (const std::string& name : names())  // temporary files of a process that was killed
      if (name.starts_with(prefix_) && name.find(".tmp-") != std::string::npos)
        ::unlink(str_cat({path_, "/", name}).c_str());
  }

  const std::string& path() const { return path_; }
  std::string shard_at(std::int64_t step) const { return named(prefix_, step); }
  std::string manifest_at(std::int64_t step) const { return named(manifest, step); }

  /// The steps of this server's existing shards, and of existing manifests, ascending.
  std::vector<std::int64_t> shards() const { return steps_of(prefix_); }
  std::vector<std::int64_t> manifests() const { return steps_of(manifest); }

  /// Throws weft::error: not_found, or another error of the file system; resource_exhausted for a file of more than
  /// `max_bytes`.
  static aligned_bytes read(const std::string& path, std::uint64_t max_bytes) {
    const input_file file(path);
    if (file.bytes() > max_bytes)
      throw error(error_code::resource_exhausted, "restore",
                  {path, " has ", file.bytes(), " bytes, more than the expected ", max_bytes});
    file.will_be_read();
    aligned_bytes all(std::size_t{file.bytes()});
    file.read(0, all.data(), all.size());
    return all;
  }
  static void write(const std::string& path, const_bytes bytes) {
    atomic_file file(path, bytes.size());
    file.write(bytes.data(), bytes.size());
    file.commit();
  }

  /// Removes shards of steps below `kept`. A shard that cannot be removed only takes up space.
  void remove_shards_before(std::int64_t kept) const noexcept {
    try {
      for (const std::int64_t step : shards())
        if (step < kept) ::unlink(shard_at(step).c_str());
    } catch (const std::exception&) {
    }
  }
  template <typename Predicate>
  void remove_manifests(Predicate is_old) const {
    for (const std::int64_t step : manifests())
      if (is_old(step)) ::unlink(manifest_at(step).c_str());
  }

 private:
  static constexpr const char* manifest = "manifest-";
  static constexpr std::size_t digits = 19;

  std::string named(const std::string& prefix, std::int64_t step) const {
    std::string number = str_cat({step});
    if (number.size() < digits) number.insert(0, digits - number.size(), '0');
    return str_cat({path_, "/", prefix, number});
  }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    DIR* const folder = ::opendir(path_.c_str());
    if (!folder) fail_on_file("read", path_, errno);
    while (const dirent* each = ::readdir(folder)) all.emplace_back(each->d_name);
    ::closedir(folder);
    return all;
  }

  std::vector<std::int64_t> steps_of(std::string_view prefix) const {
    std::vector<std::int64_t> steps;
    for (const std::string& name : names()) {
      if (!name.starts_with(prefix) || name.size() != prefix.size() + digits) continue;
      std::int64_t step = 0;
      bool is_number = true;
      for (const char c : std::string_view(name).substr(prefix.size())) {
        is_number = is_number && c >= '0' && c <= '9' && step <= (std::int64_t{1} << 62) / 10;
        step = is_number ? step * 10 + (c - '0') : step;
      }
      if (is_number) steps.push_back(step);
    }
    std::sort(steps.begin(), steps.end());
    return steps;
  }

  std::string path_, prefix_;
  std::optional<folder_lock> lock_;
};

}  // namespace weft::detail
WEFT_COLD_END
