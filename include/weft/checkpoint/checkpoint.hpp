// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <dirent.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weft/checkpoint/safetensors.hpp>
#include <weft/encoding/crc32c.hpp>
#include <weft/encoding/file.hpp>
#include <weft/encoding/json.hpp>

/// A checkpoint is a folder of safetensors files that contain the tensors, and an index with the files' names and the
/// checksums of all contents. The index is renamed into place last, so a folder with an index is complete, and a folder
/// without an index is not a checkpoint.
///
///     training/checkpoint-1200/index.json
///     training/checkpoint-1200/0123456789abcdef-00000-of-00002.safetensors
///     training/checkpoint-1200/0123456789abcdef-00001-of-00002.safetensors
WEFT_COLD_BEGIN
namespace weft {

/// A checkpoint's description in its index.
struct checkpoint_info {
  std::string path;
  std::int64_t step = 0;       ///< the step given to save()
  std::uint64_t sequence = 0;  ///< increases with each checkpoint saved into a folder
  std::chrono::system_clock::time_point written{};
  /// When the last permanent checkpoint before this one was written; if there is none, when the first checkpoint was.
  std::chrono::system_clock::time_point keep_after{};
  bool kept = false;  ///< permanently: max_to_keep does not count it
};

/// A checkpoint that cannot be read: it is damaged, or was written by another version of Weft.
struct damaged_checkpoint {
  std::string path;
  std::string why;  ///< includes the file's path
};

/// Returns the checkpoints in a folder, oldest first. Returns an empty list if the folder does not exist. Omits
/// checkpoints whose index cannot be read, and adds them to `damaged`.
std::vector<checkpoint_info> list_checkpoints(const std::string& folder, std::string_view name = "checkpoint",
                                              std::vector<damaged_checkpoint>* damaged = nullptr);

/// Returns the path of the newest checkpoint, for saver::restore; nothing if there is none
/// (tf.train.latest_checkpoint). Skips checkpoints with a damaged index or file header or a wrong file size; only
/// saver::restore_latest() compares all bytes. Throws data_loss if the folder has checkpoints but none can be read.
std::optional<std::string> latest_checkpoint(const std::string& folder, std::string_view name = "checkpoint");

/// A checkpoint, open for reading (tf.train.load_checkpoint). The constructor reads and checks the index and the files'
/// headers.
///
/// Throws not_found, permission_denied or unavailable if a file cannot be read, and data_loss, with the file, the byte
/// and the record, if it is damaged.
class checkpoint_reader {
 public:
  /// A tensor's position in the files and its record in the index.
  struct record {
    const safetensors_file* file;
    const safetensors_entry* entry;
    std::uint32_t crc32c;
    std::string kind;  ///< the kind of the variable: "trained", "slot", ...
  };

  explicit checkpoint_reader(std::string path);
  checkpoint_reader(const checkpoint_reader&) = delete;
  checkpoint_reader& operator=(const checkpoint_reader&) = delete;

  const std::string& path() const { return info_.path; }
  std::int64_t step() const { return info_.step; }
  const checkpoint_info& info() const { return info_; }
  /// The variables' records, ordered by name.
  const std::vector<record>& variables() const { return variables_; }
  /// The other records, each an archive of Boost.Serialization, ordered by name.
  const std::vector<record>& states() const { return states_; }
  /// Returns the record with this name, or null if there is none.
  const record* find_variable(std::string_view name) const { return find(variables_, name); }
  const record* find_state(std::string_view name) const { return find(states_, name); }
  /// The variables that had no value when the checkpoint was saved.
  const std::vector<std::string>& without_value() const { return without_value_; }

  /// Reads a record. Throws data_loss if its checksum differs.
  void read(const record& r, void* to) const;
  /// Compares all records with their checksums. Throws data_loss if one differs.
  void verify() const;

 private:
  static constexpr std::uint64_t piece = std::uint64_t{1} << 20;

  [[noreturn]] static void damaged(const record& r);
  static const record* find(const std::vector<record>& in, std::string_view name);
  void sort(std::vector<record>& records) const;

  checkpoint_info info_;
  std::deque<safetensors_file> files_;
  std::vector<record> variables_, states_;
  std::vector<std::string> without_value_;
};

namespace detail {

/// A tensor to write into a checkpoint. Refers to the elements.
struct checkpoint_tensor {
  named_tensor tensor;
  const char* kind;
};

/// A written file of a checkpoint.
struct checkpoint_shard {
  struct record {
    std::string name, kind;
    std::uint32_t crc32c = 0;
  };
  std::string file;  ///< the name in the checkpoint's folder
  std::uint64_t bytes = 0;
  std::uint32_t header_crc32c = 0;  ///< of all bytes before the first tensor
  std::vector<record> records;
};

/// Returns a random prefix for the files of one attempt to save, so that attempts never share a file.
inline std::string new_attempt() {
  std::uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, 0) != sizeof bits)
    bits = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) ^
           (static_cast<std::uint64_t>(::getpid()) << 40);
  std::string text;
  for (int i = 0; i < 16; ++i, bits >>= 4) text += "0123456789abcdef"[bits & 15u];
  return text;
}
inline std::string five_digits(std::size_t n) {
  const std::string digits = str_cat({n});
  return digits.size() < 5 ? std::string(5 - digits.size(), '0') + digits : digits;
}
inline std::string shard_name(const std::string& attempt, std::size_t shard, std::size_t shards) {
  return attempt + "-" + five_digits(shard) + "-of-" + five_digits(shards) + ".safetensors";
}

/// The kind of records that are archives instead of variables.
inline constexpr const char* state_kind = "state";
inline constexpr const char* index_name = "index.json";
inline constexpr const char* kept_name = "kept";

inline void make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) == 0) return sync_folder(folder_of(path));
  if (errno == ENOENT && folder_of(path) != path) {
    make_folder(folder_of(path));
    return make_folder(path);
  }
  struct stat status{};
  if (errno != EEXIST || ::stat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))
    fail_on_file("write", path, errno == EEXIST ? ENOTDIR : errno);
}

/// Returns the CRC32C of all bytes before a file's first tensor.
inline std::uint32_t header_crc(const std::string& path) {
  const input_file file(path);
  unsigned char front[8];
  file.read(0, front, sizeof front);
  std::uint64_t size = 0;
  for (unsigned i = 0; i < 8; ++i) size |= std::uint64_t{front[i]} << (8 * i);
  std::vector<std::byte> header(8 + std::min(size, file.bytes() - 8));
  file.read(0, header.data(), header.size());
  return crc32c(header);
}

/// Writes a file into a checkpoint's existing folder. The file takes effect when an index lists it.
inline checkpoint_shard write_shard(const std::string& checkpoint, const std::string& file,
                                    const std::vector<checkpoint_tensor>& tensors) {
  std::vector<named_tensor> named;
  for (const checkpoint_tensor& t : tensors) named.push_back(t.tensor);
  const std::string path = checkpoint + "/" + file;
  std::vector<std::uint32_t> crcs;
  const std::vector<safetensors_entry> entries = write_safetensors(path, named, {}, &crcs);
  checkpoint_shard shard{file, input_file(path).bytes(), header_crc(path), {}};
  for (std::size_t i = 0; i < tensors.size(); ++i)
    shard.records.push_back({tensors[i].tensor.name, tensors[i].kind, crcs[i]});
  return shard;
}

// The index is a JSON object with two members: the checkpoint, and the CRC32C of all preceding bytes as eight
// hexadecimal digits.
inline constexpr std::string_view index_front = "{\"checkpoint\":", index_middle = ",\"crc32c\":\"",
                                  index_back = "\"}\n";

inline std::string eight_digits(std::uint32_t crc) {
  std::string text;
  for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[(crc >> shift) & 15u];
  return text;
}
inline std::uint32_t crc_of_text(std::string_view text) {
  return crc32c({reinterpret_cast<const std::byte*>(text.data()), text.size()});
}

/// Completes a checkpoint by writing the index of its files.
inline void commit_checkpoint(const checkpoint_info& info, const std::vector<checkpoint_shard>& shards,
                              const std::vector<std::string>& without_value) {
  const auto microseconds = [](std::chrono::system_clock::time_point t) {
    return std::chrono::duration_cast<std::chrono::microseconds>(t.time_since_epoch()).count();
  };
  std::string text(index_front);
  append(text, {"{\"version\":1,\"step\":", info.step, ",\"sequence\":", info.sequence,
                ",\"written_us\":", microseconds(info.written), ",\"keep_after_us\":", microseconds(info.keep_after),
                ",\"without_value\":["});
  for (std::size_t i = 0; i < without_value.size(); ++i) append(text, {i ? "," : "", json_string(without_value[i])});
  text += "],\"files\":[";
  for (std::size_t f = 0; f < shards.size(); ++f) {
    const checkpoint_shard& shard = shards[f];
    append(text, {f ? "," : "", "\n{\"name\":", json_string(shard.file), ",\"bytes\":", shard.bytes,
                  ",\"header_crc32c\":", shard.header_crc32c, ",\"records\":["});
    for (std::size_t i = 0; i < shard.records.size(); ++i) {
      const checkpoint_shard::record& r = shard.records[i];
      append(text, {i ? "," : "", "\n{\"name\":", json_string(r.name), ",\"kind\":", json_string(r.kind),
                    ",\"crc32c\":", r.crc32c, "}"});
    }
    text += "]}";
  }
  text += "]}";
  const std::string crc = eight_digits(crc_of_text(text));
  append(text, {std::string(index_middle), crc, std::string(index_back)});
  atomic_file index(info.path + "/" + index_name);
  index.write(text.data(), text.size());
  index.commit();
}

struct checkpoint_index {
  checkpoint_info info;
  std::vector<checkpoint_shard> shards;
  std::vector<std::string> without_value;
};

inline checkpoint_index parse_index(std::string_view text, const std::string& path) {
  const auto damaged = [&](const char* what) {
    throw error(error_code::data_loss, "read", {path, " is damaged: ", what, "; remove the checkpoint's folder"});
  };
  const std::size_t tail = index_middle.size() + 8 + index_back.size();
  if (text.size() < index_front.size() + tail || text.substr(0, index_front.size()) != index_front)
    damaged("it is not the index of a checkpoint");
  const std::string_view body = text.substr(0, text.size() - tail), rest = text.substr(body.size());
  if (rest.substr(0, index_middle.size()) != index_middle ||
      rest.substr(rest.size() - index_back.size()) != index_back ||
      rest.substr(index_middle.size(), 8) != eight_digits(crc_of_text(body)))
    damaged("its checksum does not match its contents");

  checkpoint_index index;
  json_reader in(body.substr(index_front.size()), path, index_front.size());
  std::uint64_t version = 0;
  const auto signed_number = [&] {
    const std::uint64_t n = in.number();
    if (n > ~std::uint64_t{0} / 2) in.fail("a number exceeds 63 bits");
    return static_cast<std::int64_t>(n);
  };
  const auto time = [&] {
    using std::chrono::system_clock;
    const std::chrono::microseconds since(std::min(signed_number(), std::int64_t{9'000'000'000'000'000}));
    return system_clock::time_point(std::chrono::duration_cast<system_clock::duration>(since));
  };
  const auto crc = [&] {
    const std::uint64_t n = in.number();
    if (n > 0xffffffffu) in.fail("a checksum must have 32 bits");
    return static_cast<std::uint32_t>(n);
  };
  const auto read_record = [&](checkpoint_shard& shard) {
    checkpoint_shard::record& r = shard.records.emplace_back();
    in.object([&](const std::string& member) {
      if (member == "name")
        r.name = in.string();
      else if (member == "kind")
        r.kind = in.string();
      else if (member == "crc32c")
        r.crc32c = crc();
      else
        in.skip();
    });
  };
  const auto read_shard = [&] {
    checkpoint_shard& shard = index.shards.emplace_back();
    in.object([&](const std::string& member) {
      if (member == "name")
        shard.file = in.string();
      else if (member == "bytes")
        shard.bytes = in.number();
      else if (member == "header_crc32c")
        shard.header_crc32c = crc();
      else if (member == "records")
        in.array([&] { read_record(shard); });
      else
        in.skip();
    });
    // The name must not lead out of this folder.
    if (shard.file.empty() || shard.file[0] == '.' || shard.file.find('/') != shard.file.npos ||
        shard.file.find('\0') != shard.file.npos)
      in.fail("a file is outside the checkpoint's folder");
  };
  in.object([&](const std::string& member) {
    if (member == "version")
      version = in.number();
    else if (member == "step")
      index.info.step = signed_number();
    else if (member == "sequence")
      index.info.sequence = in.number();
    else if (member == "written_us")
      index.info.written = time();
    else if (member == "keep_after_us")
      index.info.keep_after = time();
    else if (member == "without_value")
      in.array([&] { index.without_value.push_back(in.string()); });
    else if (member == "files")
      in.array(read_shard);
    else
      in.skip();
  });
  in.end();
  if (version != 1)
    throw error(error_code::unimplemented, "read",
                {path, " has version ", version, ", but this program reads version 1: use a newer Weft"});
  return index;
}

inline checkpoint_index read_index(const std::string& checkpoint) {
  const std::string path = checkpoint + "/" + index_name;
  const input_file file(path);
  if (file.bytes() > max_safetensors_header)
    throw error(error_code::data_loss, "read",
                {path, " is damaged: an index has at most ", max_safetensors_header, " bytes, not ", file.bytes()});
  std::string text(file.bytes(), '\0');
  file.read(0, text.data(), text.size());
  checkpoint_index index = parse_index(text, path);
  index.info.path = checkpoint;
  index.info.kept = ::access((checkpoint + "/" + kept_name).c_str(), F_OK) == 0;
  return index;
}

inline std::vector<std::string> names_in_folder(const std::string& folder) {
  std::vector<std::string> names;
  DIR* const open = ::opendir(folder.c_str());
  if (!open) {
    if (errno == ENOENT || errno == ENOTDIR) return names;
    fail_on_file("read", folder, errno);
  }
  while (const dirent* entry = ::readdir(open))
    if (const std::string_view name = entry->d_name; name != "." && name != "..") names.emplace_back(name);
  ::closedir(open);
  std::sort(names.begin(), names.end());
  return names;
}

/// Returns the folders NAME-STEP in a folder, with or without an index.
inline std::vector<std::string> checkpoint_folders(const std::string& folder, std::string_view name) {
  std::vector<std::string> paths;
  for (const std::string& each : names_in_folder(folder)) {
    const std::string_view step = std::string_view(each).substr(std::min(each.size(), name.size() + 1));
    if (each.compare(0, name.size(), name) == 0 && each.size() > name.size() + 1 && each[name.size()] == '-' &&
        step.find_first_not_of("0123456789") == step.npos)
      paths.push_back(folder + "/" + each);
  }
  return paths;
}
inline bool has_index(const std::string& checkpoint) {
  return ::access((checkpoint + "/" + index_name).c_str(), F_OK) == 0;
}

/// Removes a saver's files from a checkpoint's folder, except `but`.
inline void remove_files(const std::string& checkpoint, const std::vector<checkpoint_shard>& but) {
  for (const std::string& name : names_in_folder(checkpoint)) {
    const bool temporary = name.find(".tmp-") != name.npos;
    const bool tensors = name.size() > 12 && name.compare(name.size() - 12, 12, ".safetensors") == 0;
    const bool wanted =
        std::any_of(but.begin(), but.end(), [&](const checkpoint_shard& shard) { return shard.file == name; });
    if ((temporary || tensors || (but.empty() && name == kept_name)) && !wanted)
      ::unlink((checkpoint + "/" + name).c_str());
  }
}

/// Removes a checkpoint, beginning with the index, so that an interruption never leaves a damaged checkpoint.
inline void remove_checkpoint(const std::string& checkpoint) {
  if (::unlink((checkpoint + "/" + index_name).c_str()) == 0) sync_folder(checkpoint);
  remove_files(checkpoint, {});
  ::rmdir(checkpoint.c_str());  // fails if the folder contains other files
}

/// Returns true if an error is the checkpoint's fault rather than the disk's or the caller's.
inline bool is_damage(const error& e) {
  return e.code() == error_code::data_loss || e.code() == error_code::unimplemented ||
         e.code() == error_code::not_found;
}

/// Calls `read(path)` with the checkpoints of a folder, newest first, until one is not damaged, and returns the damaged
/// ones. If all are damaged, throws data_loss with the reason of the newest one that has a readable index.
template <class Read>
std::vector<damaged_checkpoint> find_whole_checkpoint(const std::string& folder, std::string_view name, Read read) {
  std::vector<damaged_checkpoint> damaged;
  const std::vector<checkpoint_info> all = list_checkpoints(folder, name, &damaged);
  const std::size_t without_index = damaged.size();
  for (std::size_t i = all.size(); i-- > 0;) try {
      read(all[i].path);
      return damaged;
    } catch (const error& e) {
      if (!is_damage(e)) throw;
      damaged.push_back({all[i].path, e.sentence()});
    }
  if (damaged.empty()) return damaged;
  throw error(error_code::data_loss, "read",
              {"each of the ", damaged.size(), " checkpoints in ", folder,
               " is damaged: ", damaged[all.empty() ? 0 : without_index].why});
}

}  // namespace detail

inline std::vector<checkpoint_info> list_checkpoints(const std::string& folder, std::string_view name,
                                                     std::vector<damaged_checkpoint>* damaged) {
  std::vector<checkpoint_info> found;
  for (const std::string& path : detail::checkpoint_folders(folder, name)) try {
      if (detail::has_index(path)) found.push_back(detail::read_index(path).info);
    } catch (const error& e) {
      if (!detail::is_damage(e)) throw;
      if (damaged) damaged->push_back({path, e.sentence()});
    }
  std::sort(found.begin(), found.end(), [](const checkpoint_info& a, const checkpoint_info& b) {
    return a.sequence != b.sequence ? a.sequence < b.sequence : a.step < b.step;
  });
  return found;
}

inline std::optional<std::string> latest_checkpoint(const std::string& folder, std::string_view name) {
  std::optional<std::string> latest;
  detail::find_whole_checkpoint(folder, name, [&](const std::string& path) {
    const checkpoint_reader whole(path);
    latest = path;
  });
  return latest;
}

inline checkpoint_reader::checkpoint_reader(std::string path) {
  if (!detail::has_index(path))
    throw error(error_code::not_found, "read",
                {path, " must be a checkpoint, a folder with an ", detail::index_name,
                 ": latest_checkpoint(folder) returns the latest one; an interrupted save leaves none"});
  detail::checkpoint_index index = detail::read_index(path);
  info_ = std::move(index.info);
  without_value_ = std::move(index.without_value);
  for (const detail::checkpoint_shard& shard : index.shards) {
    const std::string file_path = path + "/" + shard.file;
    const auto differs = [&](const char* what) {
      throw error(error_code::data_loss, "read",
                  {file_path, " differs from the file that was saved: ", what, "; restore another checkpoint"});
    };
    if (detail::input_file(file_path).bytes() != shard.bytes) differs("its size is different, so it was truncated");
    if (detail::header_crc(file_path) != shard.header_crc32c) differs("the checksum of its header differs");
    const safetensors_file& file = files_.emplace_back(file_path);
    if (file.entries().size() != shard.records.size()) differs("it has different records");
    for (const detail::checkpoint_shard::record& r : shard.records) {
      const safetensors_entry* entry = file.find(r.name);
      if (!entry) differs("it has different records");
      (r.kind == detail::state_kind ? states_ : variables_).push_back({&file, entry, r.crc32c, r.kind});
    }
  }
  sort(variables_);
  sort(states_);
}

inline void checkpoint_reader::sort(std::vector<record>& records) const {
  std::sort(records.begin(), records.end(),
            [](const record& a, const record& b) { return a.entry->name < b.entry->name; });
  for (std::size_t i = 1; i < records.size(); ++i)
    if (records[i].entry->name == records[i - 1].entry->name)
      throw error(error_code::data_loss, "read",
                  {path(), " is damaged: records must be unique, but '", records[i].entry->name, "' occurs twice"});
}

inline const checkpoint_reader::record* checkpoint_reader::find(const std::vector<record>& in, std::string_view name) {
  const auto found = std::lower_bound(in.begin(), in.end(), name,
                                      [](const record& r, std::string_view n) { return r.entry->name < n; });
  return found != in.end() && found->entry->name == name ? &*found : nullptr;
}

inline void checkpoint_reader::damaged(const record& r) {
  throw error(error_code::data_loss, "read",
              {r.file->path(), " is damaged: the ", r.entry->bytes, " bytes of '", r.entry->name, "' from byte ",
               r.entry->offset, " have a wrong checksum; restore another checkpoint"});
}

inline void checkpoint_reader::read(const record& r, void* to) const {
  auto* const at = static_cast<std::byte*>(to);
  std::uint32_t crc = 0;
  for (std::uint64_t done = 0; done < r.entry->bytes;) {
    const std::uint64_t n = std::min(piece, r.entry->bytes - done);
    r.file->read(*r.entry, done, at + done, n);
    crc = crc32c({at + done, static_cast<std::size_t>(n)}, crc);
    done += n;
  }
  if (crc != r.crc32c) damaged(r);
}

inline void checkpoint_reader::verify() const {
  std::vector<std::byte> part(piece);
  const auto verify_one = [&](const record& r) {
    std::uint32_t crc = 0;
    for (std::uint64_t done = 0; done < r.entry->bytes;) {
      const std::uint64_t n = std::min(piece, r.entry->bytes - done);
      r.file->read(*r.entry, done, part.data(), n);
      crc = crc32c({part.data(), static_cast<std::size_t>(n)}, crc);
      done += n;
    }
    if (crc != r.crc32c) damaged(r);
  };
  for (const record& r : variables_) verify_one(r);
  for (const record& r : states_) verify_one(r);
}

}  // namespace weft
WEFT_COLD_END
