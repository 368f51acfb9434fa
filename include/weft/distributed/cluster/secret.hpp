// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <weft/encoding/sha256.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/separate.hpp>

#if WEFT_DISTRIBUTED_DEFINITIONS
  #include <fcntl.h>
  #include <pwd.h>
  #include <stdio.h>
  #include <sys/stat.h>
  #include <sys/types.h>
  #include <unistd.h>

  #include <array>
  #include <cerrno>
  #include <cstdlib>
  #include <cstring>
  #include <utility>

  #include <weft/error.hpp>
  #include <weft/transport/random_bytes.hpp>
#endif

namespace weft {

namespace detail {

/// Returns two digits for each byte.
std::string hexadecimal(std::span<const std::byte> bytes);

}  // namespace detail

/// A secret that only the tasks of a cluster know. Tasks prove to each other that they know it, without sending it,
/// before they exchange anything else. A process without the secret learns nothing about the cluster and cannot join.
class cluster_secret {
 public:
  /// The length of the shortest secret. An eavesdropper could guess a shorter one by trial.
  static constexpr std::size_t least_bytes = 16;

  /// Throws weft::error (invalid_argument) for fewer than least_bytes.
  explicit cluster_secret(std::string_view bytes) : cluster_secret(bytes, "from the program") {}

  /// Reads the first line of a file, without surrounding blanks, carriage return and byte order mark. Throws
  /// weft::error: permission_denied if another user owns the file or can access it; not_found if it does not exist;
  /// invalid_argument if the secret is shorter than least_bytes or longer than 4095 bytes.
  static cluster_secret from_file(const std::string& path);

  /// Writes 32 random bytes, as 64 digits, to a new file that only this user can read (mode 0600). Throws weft::error:
  /// already_exists if the file exists, which is left unchanged; unavailable if it cannot be written.
  static void make_file(const std::string& path);

  /// Returns the secret that this user's tasks share: the environment variable WEFT_SECRET, the file named by
  /// WEFT_SECRET_FILE, or else the file ~/.cache/weft/secret, or `/tmp/weft-<user>/secret` if there is no such folder.
  /// Creates the file at first use, readable only by this user. Throws weft::error: permission_denied if other users
  /// can access the file or have created it, unavailable if it cannot be created, resource_exhausted if this process
  /// cannot open more files.
  static cluster_secret of_user();

  /// Returns the secret of WEFT_SECRET or WEFT_SECRET_FILE, or nothing if neither is set. Throws like of_user().
  static std::optional<cluster_secret> from_environment();

  /// The origin of the secret, for messages.
  const std::string& origin() const { return origin_; }

  /// Returns true if a user has set the secret, which is required for training on several hosts; false for the secret
  /// that of_user() creates.
  bool is_given() const { return given_; }

  /// The HMAC keyed with the secret.
  const hmac_sha256& proof() const { return proof_; }

 private:
  static constexpr const char* file_name = "secret";
  static constexpr const char* set_for_all =
      "set WEFT_SECRET, or server_options::secret, to the same text for every task";
  static constexpr std::size_t max_bytes = 4096;

  struct descriptor;

  cluster_secret(std::string_view bytes, std::string origin);

  /// Strips what editors and shells add at the ends, because the tasks on other hosts may have the secret without it.
  static std::string_view first_line(std::string_view text);

  static std::string because(const std::string& path, int reason);

  /// Throws resource_exhausted if `reason` is a lack of resources, which says nothing about the file.
  static void check_exhausted(const std::string& path, int reason);

  /// The folders that may contain the file, in order of preference.
  static std::vector<std::string> folders();

  /// Opens the folder, and creates it if necessary. It must belong to this user, and other users must not be able to
  /// write to it.
  static descriptor open_folder(const std::string& path, std::string& why);

  /// Writes a temporary file and links it to its name, so that readers see only complete files. Returns false if the
  /// name is taken.
  static bool make(int folder, const std::string& name, const std::string& path, const char* remedy);

  static cluster_secret read(int folder, const std::string& name, const std::string& path, int follow);

  std::string origin_;
  bool given_ = true;
  hmac_sha256 proof_;
};

#if WEFT_DISTRIBUTED_DEFINITIONS

namespace detail {

WEFT_DISTRIBUTED_DECL std::string hexadecimal(std::span<const std::byte> bytes) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  for (const std::byte each : bytes) {
    text += digits[std::to_integer<unsigned>(each) >> 4];
    text += digits[std::to_integer<unsigned>(each) & 15u];
  }
  return text;
}

}  // namespace detail

struct cluster_secret::descriptor {
  int number = -1;
  explicit descriptor(int n) : number(n) {}
  descriptor(descriptor&& other) noexcept : number(std::exchange(other.number, -1)) {}
  descriptor& operator=(descriptor&&) = delete;
  ~descriptor() {
    if (number >= 0) ::close(number);
  }
};

WEFT_DISTRIBUTED_DECL cluster_secret::cluster_secret(std::string_view bytes, std::string origin)
    : origin_(std::move(origin)), proof_(std::as_bytes(std::span(bytes))) {
  if (bytes.size() < least_bytes)
    throw error(error_code::invalid_argument, "secret",
                {"the secret (", origin_, ") must have at least ", least_bytes, " bytes; it has ", bytes.size(),
                 "; weft_launch --make_secret FILE writes a random one"});
}

WEFT_DISTRIBUTED_DECL cluster_secret cluster_secret::from_file(const std::string& path) {
  return read(AT_FDCWD, path, path, 0);
}

WEFT_DISTRIBUTED_DECL void cluster_secret::make_file(const std::string& path) {
  if (make(AT_FDCWD, path, path, "give another file")) return;
  throw error(error_code::already_exists, "secret",
              {path, " exists, and tasks may be using the secret in it; give another file, or remove this one"});
}

WEFT_DISTRIBUTED_DECL cluster_secret cluster_secret::of_user() {
  if (auto given = from_environment()) return *given;
  std::string why;
  for (const std::string& folder : folders()) {
    const descriptor at = open_folder(folder, why);
    if (at.number < 0) continue;
    const std::string path = str_cat({folder, "/", file_name});
    for (int attempt = 0; attempt < 2; ++attempt) {
      try {
        cluster_secret made = read(at.number, file_name, path, O_NOFOLLOW);
        made.given_ = false;
        return made;
      } catch (const error& problem) {
        if (problem.code() != error_code::not_found) throw;
      }
      make(at.number, file_name, path, set_for_all);
    }
  }
  throw error(error_code::unavailable, "secret",
              {"no folder is usable for the secret that this user's tasks share (", why, "); ", set_for_all});
}

WEFT_DISTRIBUTED_DECL std::optional<cluster_secret> cluster_secret::from_environment() {
  if (const char* const given = std::getenv("WEFT_SECRET"); given && *given)
    return cluster_secret(first_line(given), "from WEFT_SECRET");
  if (const char* const file = std::getenv("WEFT_SECRET_FILE"); file && *file) return from_file(file);
  return {};
}

WEFT_DISTRIBUTED_DECL std::string_view cluster_secret::first_line(std::string_view text) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  text = text.substr(0, text.find('\n'));
  return text.substr(0, text.find_last_not_of(" \t\r") + 1);
}

WEFT_DISTRIBUTED_DECL std::string cluster_secret::because(const std::string& path, int reason) {
  return str_cat({path, ": ", std::strerror(reason)});
}

WEFT_DISTRIBUTED_DECL void cluster_secret::check_exhausted(const std::string& path, int reason) {
  if (reason == EMFILE || reason == ENFILE || reason == ENOMEM || reason == EINTR)
    throw error(error_code::resource_exhausted, "secret", because(path, reason));
}

WEFT_DISTRIBUTED_DECL std::vector<std::string> cluster_secret::folders() {
  std::vector<std::string> found;
  const auto add_home = [&](const char* home) {
    struct stat status{};
    // HOME can be another user's, for example after su.
    if (home && *home == '/' && ::stat(home, &status) == 0 && status.st_uid == ::geteuid())
      found.push_back(str_cat({std::string(home), "/.cache/weft"}));
  };
  add_home(std::getenv("HOME"));
  if (found.empty()) {
    std::array<char, 4096> room;
    passwd entry{}, *user = nullptr;
    if (::getpwuid_r(::geteuid(), &entry, room.data(), room.size(), &user) == 0 && user) add_home(user->pw_dir);
  }
  found.push_back(str_cat({"/tmp/weft-", ::geteuid()}));
  return found;
}

WEFT_DISTRIBUTED_DECL cluster_secret::descriptor cluster_secret::open_folder(const std::string& path,
                                                                             std::string& why) {
  const std::string above = path.substr(0, path.rfind('/'));
  ::mkdir(above.c_str(), S_IRWXU);
  ::mkdir(path.c_str(), S_IRWXU);
  descriptor at(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status{};
  if (at.number < 0 || ::fstat(at.number, &status) != 0) {
    const int reason = errno;
    check_exhausted(path, reason);
    append(why, {why.empty() ? "" : "; ", because(path, reason)});
    return descriptor(-1);
  }
  if (status.st_uid != ::geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    throw error(
        error_code::permission_denied, "secret",
        {path, " must be owned by this user and not writable by others; remove it, or change its owner or mode"});
  return at;
}

WEFT_DISTRIBUTED_DECL bool cluster_secret::make(int folder, const std::string& name, const std::string& path,
                                                const char* remedy) {
  const auto fail = [&](int reason) {
    check_exhausted(path, reason);
    throw error(error_code::unavailable, "secret",
                {"the secret cannot be written to ", because(path, reason), "; ", remedy});
  };
  std::array<std::byte, 40> random;
  fill_random(random);
  const std::string text = str_cat({detail::hexadecimal(std::span(random).first(32)), "\n"});
  const std::string unfinished =
      str_cat({name.substr(0, name.rfind('/') + 1), ".", detail::hexadecimal(std::span(random).last(8))});
  {
    const descriptor out(
        ::openat(folder, unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (out.number < 0) fail(errno);
    if (::fchmod(out.number, S_IRUSR | S_IWUSR) != 0 ||
        ::write(out.number, text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        ::fsync(out.number) != 0) {
      const int reason = errno ? errno : ENOSPC;
      ::unlinkat(folder, unfinished.c_str(), 0);
      fail(reason);
    }
  }
  int reason = ::linkat(folder, unfinished.c_str(), folder, name.c_str(), 0) == 0 ? 0 : errno;
  #if defined(RENAME_NOREPLACE)
  if (reason != 0 && reason != EEXIST)  // a file system without hard links
    reason = ::renameat2(folder, unfinished.c_str(), folder, name.c_str(), RENAME_NOREPLACE) == 0 ? 0 : errno;
  #endif
  ::unlinkat(folder, unfinished.c_str(), 0);
  if (reason != 0 && reason != EEXIST) fail(reason);
  return reason == 0;
}

WEFT_DISTRIBUTED_DECL cluster_secret cluster_secret::read(int folder, const std::string& name, const std::string& path,
                                                          int follow) {
  // The path can be a FIFO or a device, so opening it must not block.
  const descriptor in(::openat(folder, name.c_str(), O_RDONLY | follow | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (in.number < 0) {
    const int reason = errno;
    check_exhausted(path, reason);
    throw error(reason == ENOENT ? error_code::not_found : error_code::permission_denied, "secret",
                {"the secret cannot be read: ", because(path, reason)});
  }
  struct stat status{};
  if (::fstat(in.number, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != ::geteuid() ||
      (status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    throw error(error_code::permission_denied, "secret",
                {path,
                 " must be owned by this user and readable by nobody else (mode 0600), because its readers could join "
                 "the cluster; remove it, or change its mode"});
  std::array<char, max_bytes> room;
  std::size_t size = 0;
  for (ssize_t n; size < room.size() && (n = ::read(in.number, room.data() + size, room.size() - size)) != 0;) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw error(error_code::unavailable, "secret", {"the secret cannot be read: ", because(path, errno)});
    size += static_cast<std::size_t>(n);
  }
  const std::string_view text(room.data(), size);
  if (size == room.size() && text.find('\n') == std::string_view::npos)
    throw error(error_code::invalid_argument, "secret",
                {"the first line of ", path, " has more than ", max_bytes - 1, " bytes, the limit for a secret"});
  return cluster_secret(first_line(text), str_cat({"from the file ", path}));
}

#endif

namespace detail {

/// Returns the secret of tasks that were not given one.
inline cluster_secret usual_secret(const any_transport& network) {
  return network.is_within_process() ? cluster_secret("tasks of one process") : cluster_secret::of_user();
}

}  // namespace detail
}  // namespace weft
