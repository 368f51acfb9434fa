// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <weft/device/cpu/vector_loops.hpp>
#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/parameter/parameter_spec.hpp>
#include <weft/distributed/parameter/row_lists.hpp>
#include <weft/error.hpp>
#include <weft/transport/any_transport.hpp>

namespace weft::detail {

// Checks of the buffers that a program gives to a parameter client, one for each variable.

/// Throws weft::error (invalid_argument) unless every variable has a buffer of its size.
template <typename Bytes>
void check_buffers(const char* operation, std::span<const parameter_spec> variables, std::span<const Bytes> given) {
  if (given.size() != variables.size())
    throw error(error_code::invalid_argument, operation,
                {variables.size(), " variables require a buffer each; ", given.size(), " buffers were given"});
  for (std::size_t i = 0; i < given.size(); ++i)
    if (given[i].size() != variables[i].bytes())
      throw error(error_code::invalid_argument, operation,
                  {"the buffer for '", variables[i].name, "' must have ", variables[i].bytes(), " bytes; it has ",
                   given[i].size()});
}

/// Throws weft::error (invalid_argument) unless every variable has gradients of its size. Gradients that are a list of
/// rows must be a valid list.
inline void check_gradients(std::span<const parameter_spec> variables, std::span<const const_bytes> given) {
  std::vector<const_bytes> whole(given.begin(), given.end());
  for (std::size_t i = 0; i < given.size() && i < variables.size(); ++i)
    if (variables[i].has_rows()) {
      read_row_list(given[i], variables[i]);
      whole[i] = {given[i].data(), variables[i].bytes()};
    }
  check_buffers("push_pull", variables, std::span<const const_bytes>(whole));
}

/// Throws weft::error (invalid_argument) for gradients that are not finite or, if `margin` is not 0, that exceed the
/// largest number divided by `margin`. `task` computed them for `step`.
inline void check_finite(std::span<const parameter_spec> variables, std::span<const const_bytes> gradients,
                         const std::string& task, std::int64_t step, double margin) {
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const auto look = [&]<typename Element>(Element) {
      constexpr Element largest = std::numeric_limits<Element>::max();
      const Element most = margin > 0 ? static_cast<Element>(largest / margin) : largest;
      const auto check = [&](const Element* x, std::size_t count, auto element) {
        if (all_moderate(x, count)) return;
        for (std::size_t k = 0; k < count; ++k)
          if (!std::isfinite(x[k]))
            throw nonfinite_gradient("push_pull", task, variables[i].name, element(k), step);
          else if (std::abs(x[k]) > most)
            throw error(error_code::invalid_argument, "push_pull",
                        {"the mean of the workers' gradients could be infinite in step ", step, ": the gradient of '",
                         variables[i].name, "' from ", task, " is too large (element ", element(k),
                         "); lower the learning rate"});
      };
      if (variables[i].has_rows()) {
        const row_list list = read_row_list(gradients[i], variables[i]);
        const std::size_t width = variables[i].row_elements, count = list.count * width;
        return check(reinterpret_cast<const Element*>(list.rows), count,
                     [&](std::size_t k) { return list.number(k / width) * width + k % width; });
      }
      check(reinterpret_cast<const Element*>(gradients[i].data()), variables[i].elements,
            [](std::size_t k) { return k; });
    };
    variables[i].type == element_type::float64 ? look(double{}) : look(float{});
  }
}

}  // namespace weft::detail
