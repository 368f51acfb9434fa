// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <string>

#include <weft/tensor/expression.hpp>
#include <weft/text.hpp>

namespace weft::plan {

/// A device of a task. CPU devices and GPUs are numbered separately. A session without a cluster is task 0.
struct device_number {
  bool gpu = false;
  std::uint32_t ordinal = 0, task = 0;
  friend bool operator==(device_number, device_number) = default;
};

inline std::string to_string(device_number d) {
  return str_cat({"/device:", (d.gpu ? cuda::name : cpu::name), ":", d.ordinal});
}

}  // namespace weft::plan
