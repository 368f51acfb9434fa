// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <weft/encoding/png_writer.hpp>
#include <weft/encoding/protobuf_writer.hpp>
#include <weft/error.hpp>
#include <weft/summary/histogram.hpp>
#include <weft/tensor/read_elements.hpp>
#include <weft/tensor/tensor.hpp>

/// The contents of TensorBoard's event files: TensorFlow's messages Event and Summary (its core/util/event.proto and
/// core/framework/summary.proto).
namespace weft {

/// The kind of data that a value of a summary shows.
enum class summary_kind : unsigned char { scalar, histogram, image };

namespace detail {

/// The elements of a tensor of any type. They share the tensor's memory, so that another thread can convert them later.
struct summary_elements {
  std::shared_ptr<const void> owner;
  const void* data = nullptr;
  /// Elements [first, first + count) as doubles.
  void (*read)(const void* data, std::size_t first, std::size_t count, double* to) = nullptr;
  shape extents;
  dtype type = dtype::float32;

  std::size_t bytes() const { return data ? extents.elements() * size_of(type) : 0; }
};

template <class T, class D, class Dev>
summary_elements elements_of(const tensor<T, D, Dev>& x) {
  using flat = tensor<T, dims<dyn<"elements">>, Dev>;
  const auto owner = std::make_shared<const flat>(shape(static_cast<std::int64_t>(x.elements())), x);
  return {owner, owner->data(), read_elements<T>, x.extents(), dtype_of<T>};
}

/// A value of a summary before it is encoded.
struct summary_value {
  std::string tag;
  summary_kind kind = summary_kind::scalar;
  double scalar = 0;
  summary_elements elements;
  std::size_t max_images = 1;
};

inline summary_histogram histogram_of(const summary_elements& x) {
  summary_histogram counted;
  double block[1024];
  const std::size_t all = x.extents.elements();
  for (std::size_t at = 0; at < all;) {
    const std::size_t count = std::min(all - at, std::size(block));
    x.read(x.data, at, count, block);
    for (std::size_t i = 0; i < count; ++i) counted.add(block[i]);
    at += count;
  }
  return counted;
}

/// Converts an image's elements to bytes as TensorFlow's ImageSummary does: the largest becomes 255 or, if any element
/// is negative, 0 becomes 128 and the element farthest from 0 becomes 1 or 255. Pixels with an infinity or NaN are red,
/// or 255 in grayscale images.
inline std::vector<std::uint8_t> image_bytes(const std::vector<double>& pixels, std::size_t channels) {
  const auto finite = [&](std::size_t pixel) {
    for (std::size_t c = 0; c < channels; ++c)
      if (!std::isfinite(pixels[pixel + c])) return false;
    return true;
  };
  double low = std::numeric_limits<double>::max(), high = std::numeric_limits<double>::lowest();
  for (std::size_t p = 0; p < pixels.size(); p += channels)
    for (std::size_t c = 0; finite(p) && c < channels; ++c) {
      low = std::min(low, pixels[p + c]);
      high = std::max(high, pixels[p + c]);
    }
  constexpr double nearly_zero = 1e-6;
  const double largest = low < 0 ? std::max(std::abs(low), std::abs(high)) : high;
  // Uses float and truncates, as TensorFlow does.
  const float scale = largest < nearly_zero ? 0.f : (low < 0 ? 127.f : 255.f) / static_cast<float>(largest);
  const float offset = low < 0 ? 128.f : 0.f;
  constexpr std::uint8_t red[] = {255, 0, 0, 255};
  std::vector<std::uint8_t> bytes(pixels.size());
  for (std::size_t p = 0; p < pixels.size(); p += channels) {
    const bool shown = finite(p);
    for (std::size_t c = 0; c < channels; ++c)
      bytes[p + c] = shown ? static_cast<std::uint8_t>(static_cast<float>(pixels[p + c]) * scale + offset) : red[c];
  }
  return bytes;
}

/// Encodes an image, or image `number` of a batch, as a Summary.Image.
inline data::protobuf_writer image_message(const summary_elements& x, std::size_t number) {
  const std::size_t first_axis = x.extents.rank - 3;
  const auto extent = [&](std::size_t i) { return static_cast<std::size_t>(x.extents[first_axis + i]); };
  const std::size_t height = extent(0), width = extent(1), channels = extent(2), size = height * width * channels;
  std::vector<double> pixels(size);
  x.read(x.data, number * size, size, pixels.data());
  std::vector<std::uint8_t> bytes;
  if (x.type == dtype::uint8)
    bytes.assign(pixels.begin(), pixels.end());
  else
    bytes = image_bytes(pixels, channels);
  data::protobuf_writer m;
  m.add_integer(1, static_cast<std::int64_t>(height));
  m.add_integer(2, static_cast<std::int64_t>(width));
  m.add_integer(3, static_cast<std::int64_t>(channels));
  m.add_text(4, data::encode_png(bytes.data(), height, width, channels));
  return m;
}

/// Adds a value to a Summary. A batch of images becomes several values.
inline void add_value(data::protobuf_writer& summary, const summary_value& v) {
  const auto add = [&](const std::string& tag, std::uint32_t field, const auto& what) {
    data::protobuf_writer value;
    value.add_text(1, tag);
    if constexpr (std::is_same_v<decltype(what), const float&>)
      value.add_number(field, what);
    else
      value.add_message(field, what);
    summary.add_message(1, value);
  };
  switch (v.kind) {
    case summary_kind::scalar:
      return add(v.tag, 2, static_cast<float>(v.scalar));
    case summary_kind::histogram: {
      const summary_histogram counted = histogram_of(v.elements);
      add(v.tag, 5, counted.message());
      if (counted.not_finite() > 0) add(v.tag + "/not_finite", 2, static_cast<float>(counted.not_finite()));
      return;
    }
    case summary_kind::image: {
      if (v.elements.extents.rank == 3) return add(v.tag, 4, image_message(v.elements, 0));
      const std::size_t shown = std::min(v.max_images, static_cast<std::size_t>(v.elements.extents[0]));
      for (std::size_t i = 0; i < shown; ++i)
        add(v.max_images == 1 ? v.tag + "/image" : str_cat({v.tag, "/image/", i}), 4, image_message(v.elements, i));
    }
  }
}

/// Throws invalid_argument if the extents are not valid for an image or a batch of images.
inline void check_image(const std::string& tag, const shape& s) {
  const std::size_t first = s.rank - 3;
  if ((s.rank == 3 || s.rank == 4) && (s[first + 2] == 1 || s[first + 2] == 3 || s[first + 2] == 4) && s[first] > 0 &&
      s[first + 1] > 0)
    return;
  throw error(
      error_code::invalid_argument, tag,
      {"an image must have extents [height, width, channels], or [images, height, width, channels] for a batch, with "
       "1, 3 or 4 channels, but has ",
       to_string(s)});
}

/// A Summary.Value for a TensorBoard plugin. The metadata contain the plugin's name and its data.
inline data::protobuf_writer plugin_value(const std::string& tag, const std::string& plugin, const std::string& content,
                                          const data::protobuf_writer& tensor) {
  data::protobuf_writer data, metadata, value;
  data.add_text(1, plugin);
  data.add_text(2, content);
  metadata.add_message(1, data);
  value.add_text(1, tag);
  value.add_message(9, metadata);
  value.add_message(8, tensor);
  return value;
}

/// A TensorProto that contains a string.
inline data::protobuf_writer text_tensor(const std::string& text) {
  constexpr std::int64_t dt_string = 7;
  data::protobuf_writer tensor, scalar;
  tensor.add_integer(1, dt_string);
  tensor.add_message(2, scalar);
  tensor.add_text(8, text);
  return tensor;
}

/// Numbers of the fields of Event that hold its content.
enum class event_field : std::uint32_t { file_version = 3, graph_def = 4, summary = 5, session_log = 7 };

inline data::protobuf_writer event_message(double wall_time, std::int64_t step, event_field field,
                                           std::string_view what) {
  data::protobuf_writer event;
  event.add_number(1, wall_time);
  if (step != 0) event.add_integer(2, step);
  event.add_text(static_cast<std::uint32_t>(field), what);
  return event;
}

}  // namespace detail
}  // namespace weft
