// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weft/checkpoint/npy.hpp>
#include <weft/encoding/file.hpp>
#include <weft/encoding/zip.hpp>

namespace weft {

/// A NumPy .npz file: a zip archive with a .npy file for each array, as numpy.savez and numpy.savez_compressed write
/// it. Compressed files require zlib.
///
/// The file is not trusted: sizes are compared with the file before memory is allocated, and reading an array checks
/// its CRC-32. Throws invalid_argument if it is not an .npz file, data_loss if it is damaged, and the errors of
/// read_npy.
class npz_reader {
 public:
  explicit npz_reader(const std::string& path) : archive_(path) {
    // The last array of a name replaces earlier ones, as in NumPy.
    for (const auto& entry : archive_.entries()) {
      if (!entry.name.ends_with(suffix)) continue;
      const std::string name = entry.name.substr(0, entry.name.size() - suffix.size());
      if (entries_.insert_or_assign(name, &entry).second) names_.push_back(name);
    }
  }

  npz_reader(const npz_reader&) = delete;
  npz_reader& operator=(const npz_reader&) = delete;

  const std::string& path() const { return archive_.path(); }

  /// The arrays' names, in the file's order.
  const std::vector<std::string>& names() const { return names_; }

  bool contains(std::string_view name) const { return find(name) != nullptr; }

  /// Returns the element type and extents of an array. Throws not_found if the archive does not contain it.
  tensor_info info(const std::string& name) const {
    detail::section_reader from(archive_.file(), place(name));
    tensor_info found = detail::read_npy_header(from).info;
    found.name = name;
    return found;
  }

  /// Reads an array as read_npy does. Throws not_found if the archive does not contain it.
  template <class Tensor>
  Tensor read(const std::string& name) const {
    static_assert(correct<file_is_not_read_as<Tensor>>,
                  "read: the result must be a tensor<T, dims<...>>: npz.read<tensor<...>>(name)");
    detail::section_reader from(archive_.file(), place(name));
    if constexpr (correct<file_is_not_read_as<Tensor>>)
      return detail::read_npy_from<Tensor>(from);
    else
      return Tensor();
  }

 private:
  static constexpr std::string_view suffix = ".npy";

  const detail::zip_entry* find(std::string_view name) const {
    const auto at = entries_.find(name);
    return at == entries_.end() ? nullptr : at->second;
  }

  detail::section_place place(const std::string& name) const {
    if (const detail::zip_entry* const entry = find(name)) return archive_.place_of(*entry);
    std::string some;
    for (std::size_t i = 0; i < names_.size() && i < 8; ++i) append(some, {i ? ", " : "", names_[i]});
    throw error(
        error_code::not_found, "npz_reader",
        {path(), " has no array ", name, "; it has ", some.empty() ? "none" : some, names_.size() > 8 ? ", ..." : ""});
  }

  detail::zip_reader archive_;
  std::map<std::string, const detail::zip_entry*, std::less<>> entries_;
  std::vector<std::string> names_;
};

/// Writes an uncompressed NumPy .npz file, like numpy.savez: `npz_writer w(path); w.add("w1", t); w.close();`. close()
/// replaces an existing file; without close(), no file is written.
class npz_writer {
 public:
  explicit npz_writer(const std::string& path) : archive_(path) {}

  /// Throws invalid_argument if the name is already in use.
  template <class T, class Dims>
  void add(const std::string& name, const tensor<T, Dims, cpu>& value) {
    add(name, dtype_of<T>, value.extents(), detail::bytes_of(value));
  }
  void add(const std::string& name, const untyped_tensor& value) { add(name, value.type, value.extents, value.bytes); }

  void close() { archive_.close(); }

 private:
  void add(const std::string& name, dtype type, const shape& extents, std::span<const std::byte> bytes) {
    if (!names_.insert(name).second)
      throw error(error_code::invalid_argument, "npz_writer",
                  {archive_.path(), " already has an array ", name, ": give each array its own name"});
    const std::string header = detail::npy_header_text(type, extents);
    archive_.add(name + ".npy", {std::as_bytes(std::span(header)), bytes});
  }

  detail::zip_writer archive_;
  std::set<std::string> names_;
};

}  // namespace weft
