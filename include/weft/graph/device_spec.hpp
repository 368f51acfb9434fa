// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/error.hpp>
#include <weft/tensor/expression.hpp>
#include <weft/tensor/mistake.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// A full or partial device name, such as "/job:ps/task:0/device:CPU:0". A part that is missing or `*` is unspecified.
struct device_spec {
  char job[32]{};
  int task = -1;
  char kind[16]{};
  int ordinal = -1;

  constexpr device_spec() = default;
  /// Throws invalid_argument if the device's number is negative.
  constexpr device_spec(cpu device) : kind{'C', 'P', 'U'}, ordinal(checked(device.ordinal)) {}
  constexpr device_spec(cuda device) : kind{'G', 'P', 'U'}, ordinal(checked(device.ordinal)) {}

  constexpr bool has_job() const { return job[0] != 0; }
  constexpr bool has_kind() const { return kind[0] != 0; }

  friend constexpr bool operator==(const device_spec&, const device_spec&) = default;

 private:
  static constexpr int checked(int ordinal) {
    if (ordinal < 0)
      throw error(error_code::invalid_argument, "device", {"a device number must be at least 0; it is ", ordinal});
    return ordinal;
  }
};

namespace detail {

struct device_parser {
  const char* at;
  const char* end;
  bool well_formed = true;

  constexpr bool take(const char* word) {
    const char* p = at;
    while (*word) {
      if (p == end || *p != *word) return false;
      ++p, ++word;
    }
    at = p;
    return true;
  }
  /// Consumes `kind`, ignoring case.
  constexpr bool take_letters(const char* kind) {
    const char* p = at;
    for (; *kind; ++p, ++kind)
      if (p == end || (*p != *kind && *p != *kind - 'A' + 'a')) return false;
    at = p;
    return true;
  }
  /// Consumes a number, or `*`, which yields -1.
  constexpr int number() {
    if (take("*")) return -1;
    if (at == end || *at < '0' || *at > '9') well_formed = false;
    int n = 0;
    while (at != end && *at >= '0' && *at <= '9' && n < 100000000) n = n * 10 + (*at++ - '0');
    return n;
  }
  template <std::size_t Count>
  constexpr void name(char (&to)[Count]) {
    std::size_t i = 0;
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    if (at == end || !letter(*at)) well_formed = false;
    while (at != end && (letter(*at) || (*at >= '0' && *at <= '9') || *at == '_') && i + 1 < Count) to[i++] = *at++;
    while (i < Count) to[i++] = 0;
  }
};

/// Parses a device name. Returns false if it is malformed.
constexpr bool read_device(const char* text, std::size_t size, device_spec& d) {
  device_parser p{text, text + size};
  if (size == 1 && *text == '/') return true;
  while (p.at != p.end && p.well_formed) {
    if (p.take("/job:")) {
      if (!p.take("*")) p.name(d.job);
    } else if (p.take("/task:")) {
      d.task = p.number();
    } else if (p.take("/replica:")) {
      p.number();  // always 0; accepted because TensorFlow prints it
    } else {
      const bool whole = p.take("/device:");
      if (whole && p.take("*")) continue;
      // TensorFlow's older names have no "device:": "/gpu:0".
      const bool slash = whole || p.take("/");
      const char* const kind = !slash || d.has_kind()       ? nullptr
                               : p.take_letters(cpu::name)  ? cpu::name
                               : p.take_letters(cuda::name) ? cuda::name
                                                            : nullptr;
      if (!kind) return false;
      for (std::size_t i = 0; kind[i]; ++i) d.kind[i] = kind[i];
      if (p.take(":"))
        d.ordinal = p.number();
      else if (!whole)
        return false;
    }
  }
  return p.well_formed;
}

template <fixed_string Text>
constexpr bool names_device() {
  device_spec d;
  return read_device(Text.text, sizeof Text.text - 1, d);
}

}  // namespace detail

/// Parses a device name: "/job:NAME", "/task:N", "/device:KIND:N" or "/KIND:N" in any order. KIND is CPU or GPU in
/// upper or lower case; N may be `*`. Throws invalid_argument if the name is malformed.
constexpr device_spec parse_device(const char* text, std::size_t size) {
  device_spec d;
  if (!detail::read_device(text, size, d))
    throw error(
        error_code::invalid_argument, "device",
        "write \"/job:NAME/task:N/device:KIND:N\" or parts of it; KIND is CPU or GPU, and * stands for any number");
  return d;
}

/// A device name must consist of /job:NAME, /task:N and /device:CPU:N or /device:GPU:N.
template <fixed_string Text>
struct device_name_is_malformed : mistake<!detail::names_device<Text>()> {};

/// A device must be a device_spec. `_device` converts a string literal, `parse_device` any string at run time.
template <class X>
struct device_is_not_a_device_spec : mistake<true> {};

namespace literals {
/// "/job:ps/task:0/device:CPU:0"_device. A malformed name is a compile error.
template <fixed_string Text>
consteval device_spec operator""_device() {
  static_assert(correct<device_name_is_malformed<Text>>,
                "device: write /job:NAME/task:N/device:KIND:N, or parts of it; KIND is CPU or GPU");
  device_spec d;
  detail::read_device(Text.text, sizeof Text.text - 1, d);
  return d;
}
}  // namespace literals
using namespace literals;

/// Returns `inner`, with its unspecified parts taken from `outer`.
constexpr device_spec merge(const device_spec& outer, const device_spec& inner) {
  device_spec d = inner;
  if (!d.has_job())
    for (std::size_t i = 0; i < sizeof d.job; ++i) d.job[i] = outer.job[i];
  if (d.task < 0) d.task = outer.task;
  if (!d.has_kind())
    for (std::size_t i = 0; i < sizeof d.kind; ++i) d.kind[i] = outer.kind[i];
  if (d.ordinal < 0) d.ordinal = outer.ordinal;
  return d;
}

/// Returns the specified parts as text: "/job:worker/task:1/device:CPU:0".
inline std::string to_string(const device_spec& d) {
  std::string s;
  if (d.has_job()) append(s, {"/job:", d.job});
  if (d.task >= 0) append(s, {"/task:", d.task});
  if (d.has_kind()) append(s, {"/device:", d.kind});
  if (d.has_kind() && d.ordinal >= 0) append(s, {":", d.ordinal});
  return s;
}

}  // namespace weft

WEFT_COLD_END
