// SPDX-License-Identifier: BSL-1.0
#pragma once

// Files of tensors of any format that Weft reads, by one interface.

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include <weft/checkpoint/checkpoint.hpp>
#include <weft/checkpoint/npz.hpp>
#include <weft/checkpoint/safetensors.hpp>
#include <weft/checkpoint/tensorflow_checkpoint.hpp>
#include <weft/onnx/file.hpp>

#include "element_types.hpp"

namespace tool {

using namespace weft;

/// Names, types and extents of a file's tensors, and their elements one tensor at a time.
class tensor_file {
 public:
  virtual ~tensor_file() = default;
  /// In the file's order.
  const std::vector<tensor_info>& tensors() const { return tensors_; }
  const std::string& format() const { return format_; }
  /// Throws unimplemented where Weft has no such elements.
  virtual untyped_tensor read(const tensor_info& tensor) const = 0;
  /// Returns true for the slots of an optimizer, if the format marks them.
  virtual bool is_slot(const tensor_info&) const { return false; }
  /// Null unless the file is an ONNX model.
  virtual const onnx::model* model() const { return nullptr; }

 protected:
  explicit tensor_file(std::string format) : format_(std::move(format)) {}
  std::vector<tensor_info> tensors_;

 private:
  std::string format_;
};

class npy_file : public tensor_file {
 public:
  explicit npy_file(const std::string& path) : tensor_file("npy"), path_(path) {
    tensors_.push_back(npy_info(path));
    tensors_[0].name = std::filesystem::path(path).stem().string();
  }
  untyped_tensor read(const tensor_info&) const override { return read_npy<untyped_tensor>(path_); }

 private:
  std::string path_;
};

class npz_file : public tensor_file {
 public:
  explicit npz_file(const std::string& path) : tensor_file("npz"), archive_(path) {
    for (const std::string& name : archive_.names()) tensors_.push_back(archive_.info(name));
  }
  untyped_tensor read(const tensor_info& t) const override { return archive_.read<untyped_tensor>(t.name); }

 private:
  npz_reader archive_;
};

class tensorflow_file : public tensor_file {
 public:
  explicit tensorflow_file(const std::string& prefix) : tensor_file("TensorFlow V2"), checkpoint_(prefix) {
    for (const std::string& name : checkpoint_.names()) tensors_.push_back(checkpoint_.info(name));
  }
  untyped_tensor read(const tensor_info& t) const override { return checkpoint_.read<untyped_tensor>(t.name); }

 private:
  tensorflow_checkpoint checkpoint_;
};

inline tensor_info info_of(const safetensors_entry& entry) {
  const detail::safetensors_type* const type = detail::find_safetensors_type(entry.type);
  return {entry.name, entry.type, type && type->known ? std::optional(type->type) : std::nullopt, entry.extents};
}

template <class Read>
untyped_tensor read_entry(const std::string& path, const tensor_info& t, Read read) {
  const std::string where = str_cat({path, ": tensor ", t.name});
  auto value = detail::tensor_for<untyped_tensor>("read", where, t);
  read(value.bytes.data());
  detail::check_bools("read", where, value.type, reinterpret_cast<const unsigned char*>(value.bytes.data()),
                      value.bytes.size());
  return value;
}

class safetensors : public tensor_file {
 public:
  explicit safetensors(const std::string& path) : tensor_file("safetensors"), file_(path) {
    for (const safetensors_entry& entry : file_.entries()) tensors_.push_back(info_of(entry));
  }
  untyped_tensor read(const tensor_info& t) const override {
    return read_entry(file_.path(), t, [&](void* to) { file_.read(*file_.find(t.name), to); });
  }

 private:
  safetensors_file file_;
};

class weft_checkpoint : public tensor_file {
 public:
  explicit weft_checkpoint(const std::string& path, const std::string& format = "checkpoint")
      : tensor_file(format), checkpoint_(path) {
    for (const auto& variable : checkpoint_.variables()) tensors_.push_back(info_of(*variable.entry));
  }
  untyped_tensor read(const tensor_info& t) const override {
    return read_entry(checkpoint_.path(), t,
                      [&](void* to) { checkpoint_.read(*checkpoint_.find_variable(t.name), to); });
  }
  bool is_slot(const tensor_info& t) const override { return checkpoint_.find_variable(t.name)->kind == "slot"; }

 private:
  checkpoint_reader checkpoint_;
};

/// The initializers of a model.
class onnx_file : public tensor_file {
 public:
  explicit onnx_file(const std::string& path) : tensor_file("ONNX"), path_(path), model_(onnx::read_model(path)) {
    for (const onnx::tensor_value& t : model_.main.initializers)
      tensors_.push_back({t.name, onnx::type_name(t.type), onnx::element_type(t.type), t.extents});
  }
  untyped_tensor read(const tensor_info& t) const override {
    const auto& all = model_.main.initializers;
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.name == t.name; });
    return read_entry(path_, t, [&](std::byte* to) { std::copy(found->bytes.begin(), found->bytes.end(), to); });
  }
  const onnx::model* model() const override { return &model_; }

 private:
  std::string path_;
  onnx::model model_;
};

/// Opens a checkpoint by its folder, or the newest checkpoint in the folder of a saver, whatever its name.
inline std::unique_ptr<tensor_file> open_checkpoint(const std::string& path) {
  namespace fs = std::filesystem;
  if (detail::has_index(path)) return std::make_unique<weft_checkpoint>(path);
  std::set<std::string> names;
  std::error_code failed;
  for (auto at = fs::directory_iterator(path, failed); !failed && at != fs::directory_iterator();
       at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (const std::size_t dash = name.rfind('-'); dash != std::string::npos && detail::has_index(at->path().string()))
      names.insert(name.substr(0, dash));
  }
  if (failed) throw error(error_code::unavailable, "open", {path, " cannot be read: ", failed.message()});
  if (names.size() > 1)
    throw error(error_code::invalid_argument, "open",
                {path, " has checkpoints named ", *names.begin(), " and ", *names.rbegin(),
                 "; pass the folder of one checkpoint"});
  const auto newest = names.empty() ? std::nullopt : latest_checkpoint(path, *names.begin());
  if (!newest)
    throw error(error_code::not_found, "open",
                {path, " must be a checkpoint or a saver's folder, but it has no ", detail::index_name,
                 ", nor a subfolder with a valid one"});
  return std::make_unique<weft_checkpoint>(*newest, "checkpoint " + fs::path(*newest).filename().string());
}

/// Opens a file and finds its format by its content: safetensors, .npy, .npz, .onnx; a checkpoint's folder or
/// that of a saver; or the prefix or the .index of a TensorFlow checkpoint.
inline std::unique_ptr<tensor_file> open(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return open_checkpoint(path);
  if (path.ends_with(".index") ||
      (!std::filesystem::exists(path, ignored) && std::filesystem::exists(path + ".index", ignored)))
    return std::make_unique<tensorflow_file>(path);
  const detail::input_file file(path);
  char begin[8] = {};
  file.read(0, begin, static_cast<std::size_t>(std::min<std::uint64_t>(sizeof begin, file.bytes())));
  if (std::memcmp(begin, "\x93NUMPY", 6) == 0) return std::make_unique<npy_file>(path);
  if (std::memcmp(begin, "PK", 2) == 0) return std::make_unique<npz_file>(path);
  // An ONNX file begins with its ir_version, and a safetensors file with its header's size, which is less than 2^32.
  if (path.ends_with(".onnx") || (begin[0] == 8 && std::memcmp(begin + 4, "\0\0\0", 4) != 0))
    return std::make_unique<onnx_file>(path);
  const auto header = detail::get_little<std::uint64_t>(begin);
  if (!path.ends_with(".safetensors") && (file.bytes() < 8 || header > file.bytes() - 8))
    throw error(error_code::invalid_argument, "open",
                {path, " is of no format that weft knows: safetensors, .npy, .npz, .onnx, or a checkpoint"});
  return std::make_unique<safetensors>(path);
}

template <class T>
const T* elements_of(const untyped_tensor& t) {
  return reinterpret_cast<const T*>(t.bytes.data());  // memory of operator new is aligned for all of them
}

}  // namespace tool
