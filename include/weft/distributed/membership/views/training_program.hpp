// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <string>

#include <weft/distributed/cluster/message_fields.hpp>
#include <weft/text.hpp>

namespace weft::detail {

/// The parts of a program that all workers of an all-reduce must have in common.
struct training_program {
  std::uint64_t graph = 0, seed = 0, bucket_bytes = 0;
  std::string settings;  // printable

  friend bool operator==(const training_program&, const training_program&) = default;

  /// Describes how the program of another worker differs from this one; empty if it does not.
  std::string difference(const training_program& its) const {
    if (its.seed != seed) return str_cat({"its seed is ", its.seed, ", but this worker's is ", seed});
    if (its.settings != settings)
      return str_cat({"its settings are '", its.settings, "', but this worker's are '", settings, "'"});
    if (its.bucket_bytes != bucket_bytes)
      return str_cat({"its collective::bucket_bytes is ", its.bucket_bytes, ", but this worker's is ", bucket_bytes});
    return its.graph != graph ? "its graph differs" : "";
  }

  void fields(message_fields& io) { io.number(graph).number(seed).number(bucket_bytes).text(settings); }
};

}  // namespace weft::detail
