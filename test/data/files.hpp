// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#ifdef WEFT_HAS_ZLIB
  #include <zlib.h>
#endif

using bytes = std::vector<unsigned char>;

/// A folder that goes away with its test.
struct folder {
  std::filesystem::path path;
  folder() {
    std::string name = (std::filesystem::temp_directory_path() / "weft-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~folder() { std::filesystem::remove_all(path); }

  std::string file(const std::string& name, const bytes& content) const {
    const auto at = path / name;
    std::ofstream(at, std::ios::binary).write(reinterpret_cast<const char*>(content.data()), std::ssize(content));
    return at.string();
  }
#ifdef WEFT_HAS_ZLIB
  std::string packed(const std::string& name, const bytes& content) const {
    const auto at = (path / name).string();
    gzFile out = ::gzopen(at.c_str(), "wb");
    ::gzwrite(out, content.data(), static_cast<unsigned>(content.size()));
    ::gzclose(out);
    return at;
  }
#endif
};

inline bytes idx(unsigned type, const std::vector<std::uint32_t>& extents, const bytes& content) {
  bytes all{0, 0, static_cast<unsigned char>(type), static_cast<unsigned char>(extents.size())};
  for (std::uint32_t e : extents)
    for (int shift : {24, 16, 8, 0}) all.push_back(static_cast<unsigned char>(e >> shift));
  all.insert(all.end(), content.begin(), content.end());
  return all;
}

inline bytes cut(bytes content, std::size_t size) {
  content.resize(size);
  return content;
}
