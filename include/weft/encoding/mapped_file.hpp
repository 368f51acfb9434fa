// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include <weft/encoding/file.hpp>

namespace weft::detail {

/// Maps a file into memory for reading, so that its pages are read when they are first used. The file stays mapped as
/// long as a copy of the pointer exists. If another process shortens it meanwhile, reading beyond its end raises
/// SIGBUS.
///
/// Throws the errors of input_file, and unavailable if the system cannot map the file.
inline std::shared_ptr<const std::span<const std::byte>> map_file(const std::string& path) {
  const input_file file(path);
  const auto size = static_cast<std::size_t>(file.bytes());
  if (size == 0) return std::make_shared<std::span<const std::byte>>();
  void* const at = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.open_descriptor().get(), 0);
  if (at == MAP_FAILED) fail_on_file("read", path, errno);
  return {new std::span<const std::byte>(static_cast<const std::byte*>(at), size),
          [](const std::span<const std::byte>* mapped) {
            ::munmap(const_cast<std::byte*>(mapped->data()), mapped->size());
            delete mapped;
          }};
}

}  // namespace weft::detail
