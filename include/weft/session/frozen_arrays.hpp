// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <string>

#include <weft/session/frozen_text.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// The weights of a frozen model: arrays in its header, or addresses in the bytes of a file.
class frozen_arrays {
 public:
  explicit frozen_arrays(bool in_file) : in_file_(in_file) {}

  /// Adds an array of rows of `columns` elements, each followed by zeros to a length of `stride`. `what`: its comment.
  void add(const std::string& name, const std::string& what, dtype type, const std::byte* at, std::size_t count,
           std::size_t columns, std::size_t stride) {
    const std::size_t rows = columns ? count / columns : 0, bytes = size_of(type);
    std::string values;
    for (std::size_t i = 0; i < rows * stride; ++i) {
      const std::size_t r = i / stride, c = i % stride;
      static constexpr std::byte zero[8]{};
      const std::byte* const element = c < columns ? at + (r * columns + c) * bytes : zero;
      if (in_file_) {
        file_.append(reinterpret_cast<const char*>(element), bytes);
        continue;
      }
      const std::size_t begin = values.rfind('\n') + 1;
      if (values.size() - begin > 100) values.back() = '\n', values += "    ";
      append(values, {frozen_literal(type, element), i + 1 == rows * stride ? "" : ", "});
    }
    append(text_, {"/// ", what, stride == columns ? "" : ", rows padded to whole vectors", "\n"});
    if (in_file_) {
      file_.append((64 - file_.size() % 64) % 64, '\0');
      append(text_, {"inline const ", frozen_type(type), "* const ", name, " = reinterpret_cast<const ",
                     frozen_type(type), "*>(weights + ", bytes_, ");\n"});
      bytes_ = file_.size();
    } else {
      const bool is_storage = type == dtype::float16 || type == dtype::bfloat16;  // by their bits
      append(text_, {"alignas(64) inline const ", is_storage ? "std::uint16_t" : frozen_type(type), " ", name,
                     is_storage ? "_bits" : "", "[] = {\n    ", rows * stride != 0 ? values : "0", "};\n"});
      if (is_storage)
        append(text_, {"inline const ", frozen_type(type), "* const ", name, " = reinterpret_cast<const ",
                       frozen_type(type), "*>(", name, "_bits);\n"});
      bytes_ += rows * stride * bytes;
    }
  }

  std::size_t bytes() const { return bytes_; }
  const std::string& file() const { return file_; }
  /// The declarations of the arrays and, for a file, of the function that reads it.
  std::string text() const {
    std::string all;
    if (in_file_)
      append(all, {"alignas(64) inline unsigned char weights[", bytes_ ? bytes_ : 1,
                   "];\n\n/// Reads the weights from a file; returns false if it cannot be read or has another size. "
                   "Call it once, before\n/// predict.\ninline bool load(const char* path) {\n  std::FILE* const f = "
                   "std::fopen(path, \"rb\");\n  if (!f) return false;\n  const bool read = std::fread(weights, 1, ",
                   bytes_, ", f) == ", bytes_, " && std::fgetc(f) == EOF;\n  std::fclose(f);\n  return read;\n}\n\n"});
    append(all, {text_, text_.empty() ? "" : "\n"});
    return all;
  }

 private:
  bool in_file_;
  std::string text_, file_;
  std::size_t bytes_ = 0;
};

}  // namespace weft::detail
WEFT_COLD_END
