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
#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/parameter/replay_window.hpp>
#include <weft/encoding/crc32c.hpp>
#include <weft/encoding/endian.hpp>
#include <weft/encoding/file.hpp>
#include <weft/error.hpp>
#include <weft/transport/aligned_bytes.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// A run and its epoch. A run begins when the first worker gives the variables their first values, or restores a
/// checkpoint of its own; its epochs are numbered, and each restoration of shards begins another. 0: none yet.
struct run_epoch {
  std::uint64_t bits = 0;

  static run_epoch of(std::uint32_t run, std::uint32_t epoch) { return {std::uint64_t{run} << 32 | epoch}; }
  std::uint32_t run() const { return static_cast<std::uint32_t>(bits >> 32); }
  std::uint32_t epoch() const { return static_cast<std::uint32_t>(bits); }
  run_epoch next() const { return of(run(), epoch() + 1); }
  explicit operator bool() const { return bits != 0; }

  /// Reads the epoch of a file. Throws for none, and for one so large that later ones could wrap around.
  static run_epoch read(message_reader& in) {
    const run_epoch at{in.number<std::uint64_t>()};
    if (!at || at.epoch() >> 31 != 0) message_reader::malformed();
    return at;
  }

  friend bool operator==(const run_epoch&, const run_epoch&) = default;
};

/// A worker that makes no more steps.
struct finished_worker {
  bool is_done = false;
  std::uint64_t process = 0;  // the incarnation that finished; 0: it still asks the servers

  static constexpr std::size_t bytes = 9;
  void write(message_writer& out) const { out.number(static_cast<std::uint8_t>(is_done)).number(process); }
  static finished_worker read(message_reader& in) {
    finished_worker said;
    said.is_done = in.flag();
    said.process = in.number<std::uint64_t>();
    if (!said.is_done && said.process != 0) message_reader::malformed();
    return said;
  }

  friend bool operator==(const finished_worker&, const finished_worker&) = default;
};

/// What a file of one parameter server's shard says before the values: docs/reference/formats.md.
struct shard_header {
  run_epoch at;
  std::int64_t step = 0;  // the number of the next step; in asynchronous training the updates that are in the values
  std::uint32_t task = 0, servers = 0;
  std::int64_t global_step = 0, last_step = -1;
  std::uint32_t unit = 0;              // of how many examples what counts 1 is the mean; 0: not known yet
  std::vector<replay_window> applied;  // of each worker
  std::vector<finished_worker> done;   // of each worker, in asynchronous training
  std::vector<std::byte> variables;    // enroll_message, without the loss policy
  std::vector<double> scalars;         // slots that are one number each
  std::uint64_t state_bytes = 0;       // of values and slots, which follow
};

inline constexpr std::uint64_t shard_magic = 0x4452414853544657u;     // "WFTSHARD"
inline constexpr std::uint64_t manifest_magic = 0x5453464e4d544657u;  // "WFTMNFST"
inline constexpr std::uint32_t shard_version = 3;
/// Most bytes of a shard's file beside its values and slots.
inline constexpr std::uint64_t max_shard_overhead = std::uint64_t{256} << 20;

/// A whole shard, with its checksum at the end. `state`: the pieces of values and slots, `state_bytes` in all.
inline void write_shard(const shard_header& head, std::span<const const_bytes> state, aligned_bytes& to,
                        std::size_t& size) {
  message_writer out;
  out.number(shard_magic).number(shard_version).number(std::uint64_t{0});  // the file's length, set below
  out.number(head.at.bits).number(head.step).number(head.task).number(head.servers);
  out.number(head.global_step).number(head.last_step).number(head.unit);
  out.number(static_cast<std::uint32_t>(head.applied.size()));
  for (std::size_t w = 0; w < head.applied.size(); ++w) {
    out.number(head.applied[w].newest()).number(head.applied[w].seen());
    (w < head.done.size() ? head.done[w] : finished_worker()).write(out);
  }
  out.number(std::uint64_t{head.variables.size()});
  std::vector<std::byte> front = out.take();
  front.insert(front.end(), head.variables.begin(), head.variables.end());
  message_writer rest;
  rest.number(std::uint64_t{head.scalars.size()});
  for (const double x : head.scalars) rest.real(x);
  rest.number(head.state_bytes);
  const std::vector<std::byte> back = rest.take();
  front.insert(front.end(), back.begin(), back.end());
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

/// Computes the checksum at the end of a file, and writes it there. Returns it.
inline std::uint32_t seal(mutable_bytes file) {
  const std::uint32_t crc = crc32c(file.first(file.size() - 4));
  put_little(file.data() + file.size() - 4, crc);
  return crc;
}

[[noreturn]] inline void damaged(const std::string& path, const char* how) {
  throw error(error_code::data_loss, "restore", {path, " is damaged: ", how});
}

/// Checks magic number, version, length and checksum, and reads the rest by `read(message_reader&)`, which throws for
/// what cannot be. Throws weft::error (data_loss, failed_precondition) that names the file.
template <typename Read>
void read_sealed(const_bytes file, const std::string& path, std::uint64_t magic, bool has_length, Read read) {
  constexpr std::size_t least = 8 + 4 + 4;
  if (file.size() < least) damaged(path, "it is too short");
  if (get_little<std::uint64_t>(file.data()) != magic) damaged(path, "it begins with other bytes");
  if (crc32c(file.first(file.size() - 4)) != get_little<std::uint32_t>(file.data() + file.size() - 4)) {
    if (has_length && file.size() >= 20 && get_little<std::uint64_t>(file.data() + 12) > file.size())
      damaged(path, "its end is missing");
    damaged(path, "its checksum does not match");
  }
  if (const auto version = get_little<std::uint32_t>(file.data() + 8); version != shard_version)
    throw error(error_code::failed_precondition, "restore",
                {path, " has version ", version, " of the format, and this program reads version ", shard_version});
  try {
    message_reader in(file.first(file.size() - 4).subspan(12));
    read(in);
  } catch (const error&) {
    damaged(path, "its contents contradict each other");
  }
}

/// Reads a shard that nobody has vouched for; `state` lies in `file` then. Throws weft::error that names the file.
inline shard_header read_shard(const_bytes file, const std::string& path, const_bytes& state) {
  shard_header head;
  read_sealed(file, path, shard_magic, true, [&](message_reader& in) {
    constexpr std::int64_t max = std::int64_t{1} << 62;
    const auto up_to = [](std::int64_t x, std::int64_t least) {
      if (x < least || x > max) message_reader::malformed();
      return x;
    };
    if (in.number<std::uint64_t>() != file.size()) message_reader::malformed();
    head.at = run_epoch::read(in);
    head.step = up_to(in.number<std::int64_t>(), 0);
    head.task = in.number<std::uint32_t>();
    head.servers = in.number<std::uint32_t>();
    head.global_step = up_to(in.number<std::int64_t>(), 0);
    head.last_step = up_to(in.number<std::int64_t>(), -1);
    head.unit = in.number<std::uint32_t>();
    const auto workers = in.number<std::uint32_t>();
    if (workers > in.left() / (16 + finished_worker::bytes)) message_reader::malformed();
    for (std::uint32_t w = 0; w < workers; ++w) {
      const std::int64_t newest = up_to(in.number<std::int64_t>(), -1);
      const auto seen = in.number<std::uint64_t>();
      if ((newest < 0) != (seen == 0) || (newest >= 0 && (seen & 1u) == 0)) message_reader::malformed();
      head.applied.push_back(replay_window::of(newest, seen));
      head.done.push_back(finished_worker::read(in));
    }
    const auto described = in.number<std::uint64_t>();
    if (described > in.left()) message_reader::malformed();
    const const_bytes variables = in.bytes(static_cast<std::size_t>(described));
    head.variables.assign(variables.begin(), variables.end());
    const auto scalars = in.number<std::uint64_t>();
    if (scalars > in.left() / 8) message_reader::malformed();
    for (std::uint64_t k = 0; k < scalars; ++k) head.scalars.push_back(in.real());
    head.state_bytes = in.number<std::uint64_t>();
    if (head.state_bytes != in.left()) message_reader::malformed();
    state = in.bytes(std::size_t{head.state_bytes});
  });
  return head;
}

/// One shard as a manifest names it.
struct shard_digest {
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;

  friend bool operator==(const shard_digest&, const shard_digest&) = default;
};

/// Says which shards make one step: docs/reference/formats.md.
struct shard_manifest {
  run_epoch at;                      // the newest epoch that has begun
  std::int64_t step = 0;             // the number of the next step
  std::vector<shard_digest> shards;  // of each parameter server
  std::vector<finished_worker> done;

  std::vector<std::byte> bytes() const {
    message_writer out;
    out.number(manifest_magic).number(shard_version).number(at.bits).number(step);
    out.number(static_cast<std::uint32_t>(shards.size())).number(static_cast<std::uint32_t>(done.size()));
    for (const shard_digest& each : shards) out.number(each.bytes).number(each.crc);
    for (const finished_worker& each : done) each.write(out);
    out.number(std::uint32_t{0});
    std::vector<std::byte> all = out.take();
    seal(all);
    return all;
  }

  /// Throws weft::error that names the file.
  static shard_manifest read(const_bytes file, const std::string& path) {
    shard_manifest said;
    read_sealed(file, path, manifest_magic, false, [&](message_reader& in) {
      said.at = run_epoch::read(in);
      said.step = in.number<std::int64_t>();
      const auto servers = in.number<std::uint32_t>(), workers = in.number<std::uint32_t>();
      if (said.step < 0 || servers > in.left() / 12) message_reader::malformed();
      for (std::uint32_t k = 0; k < servers; ++k) {
        const auto bytes = in.number<std::uint64_t>();
        said.shards.push_back({bytes, in.number<std::uint32_t>()});
      }
      if (workers != in.left() / finished_worker::bytes) message_reader::malformed();
      for (std::uint32_t k = 0; k < workers; ++k) said.done.push_back(finished_worker::read(in));
      in.end();
    });
    return said;
  }
};

/// The files of one parameter server in the folder that server_options::shards names: `shard-TASK-of-SERVERS-STEP`, and
/// at parameter server 0 `manifest-STEP`. Locks them against other processes while it lives.
class shard_folder {
 public:
  /// Makes the folder where it is missing. Throws weft::error that names it.
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
    for (const std::string& name : names())  // of a process that was killed
      if (name.starts_with(prefix_) && name.find(".tmp-") != std::string::npos)
        ::unlink(str_cat({path_, "/", name}).c_str());
  }

  const std::string& path() const { return path_; }
  std::string shard_at(std::int64_t step) const { return named(prefix_, step); }
  std::string manifest_at(std::int64_t step) const { return named(manifest, step); }

  /// The steps of this server's shards, and of manifests, that are there; ascending.
  std::vector<std::int64_t> shards() const { return steps_of(prefix_); }
  std::vector<std::int64_t> manifests() const { return steps_of(manifest); }

  /// Throws weft::error: not_found, or what the file system says; resource_exhausted for a file of more than
  /// `max_bytes`.
  static aligned_bytes read(const std::string& path, std::uint64_t max_bytes) {
    const input_file file(path);
    if (file.bytes() > max_bytes)
      throw error(error_code::resource_exhausted, "restore",
                  {path, " has ", file.bytes(), " bytes; at most ", max_bytes, " are expected"});
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

  /// Removes shards of steps below `kept`. One that cannot be removed takes room, and does no other harm.
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
