// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <string>

#include <weft/config.hpp>

namespace weft {

/// The weights of a frozen model.
enum class frozen_weights : unsigned char {
  in_header,  ///< in the header
  in_file,    ///< in a file beside it, model.weights for model.hpp, which the program reads by the header's `load`
  int8,       ///< in the header; float weights of products and convolutions as 8-bit integers with a scale for each
              ///< output channel. Values are float, and results differ from the session's
};

/// Options of `freeze`.
struct freeze_options {
  /// The namespace of the header; by default, the name of its file.
  std::string name = {};
  /// The maximum of the named extent, if the feeds have one.
  std::int64_t most = 0;
  frozen_weights weights = frozen_weights::in_header;
};

}  // namespace weft
