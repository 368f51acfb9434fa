// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <weft/data/dataset.hpp>
#include <weft/data/decode_image.hpp>
#include <weft/error.hpp>

namespace weft::data {

/// Options for reading the images of a folder.
struct image_options {
  int threads = 1;  ///< number of decoding threads; a following map with threads decodes on those instead
  /// If true, files that cannot be decoded or exceed `decode.max_pixels` are skipped and counted.
  bool skip_damaged = false;
  decode_options decode = {};
};

/// A folder with a subfolder of JPEG and PNG files for each class, as in ImageNet (torchvision's ImageFolder). Classes
/// are numbered in the order of their names; files are ordered by class and then by name, at any depth. The constructor
/// only lists files, and skips hidden ones and other types. Throws not_found if the folder does not exist, has no
/// classes, or contains no images.
///
///     const data::image_folder train("imagenet/train");
///     auto batches = train.images().shuffled(1).map(augment, 4).batches(64).prefetch(2);
class image_folder {
 public:
  explicit image_folder(const std::string& path) : damaged_(std::make_shared<std::atomic<std::uint64_t>>(0)) {
    list(path);
  }

  /// The names of the classes, by label.
  const std::vector<std::string>& classes() const { return classes_; }
  std::size_t size() const { return labels_.size(); }

  /// Returns the paths and labels.
  dataset<std::string, std::int32_t> files() const { return from_tensors(paths_, labels_); }

  /// Returns the images and labels. Images are decoded on demand, on the threads of the last `map`, so shuffling moves
  /// only paths. Iteration throws the errors of read_image, with the file's name. With `skip_damaged`, the number of
  /// elements is unknown, so shuffle `files()` and use the option `threads`.
  template <int Channels>
  dataset<image<Channels>, std::int32_t> images(const image_options& how = {}) const {
    return images<Channels>(files(), how);
  }
  /// Returns the images with three channels. Not a template, so that calls without template arguments select it.
  dataset<image<3>, std::int32_t> images(const image_options& how = {}) const { return images<3>(how); }
  /// Returns the images and labels of a selection of `files()`, in its order.
  template <int Channels = 3>
  dataset<image<Channels>, std::int32_t> images(const dataset<std::string, std::int32_t>& files,
                                                const image_options& how = {}) const {
    const auto read = [how = how.decode](const std::string& path, std::int32_t label) {
      return std::pair(read_image<Channels>(path, how), label);
    };
    if (!how.skip_damaged) return files.map(read, how.threads);
    const auto try_read = [read, damaged = damaged_](const std::string& path, std::int32_t label) {
      try {
        return read(path, label);
      } catch (const error& e) {
        if (e.code() != error_code::data_loss && e.code() != error_code::invalid_argument &&
            e.code() != error_code::resource_exhausted)
          throw;
        damaged->fetch_add(1, std::memory_order_relaxed);
        return std::pair(image<Channels>(shape(0, 0, Channels)), label);
      }
    };
    return files.map(try_read, how.threads).filter([](const image<Channels>& pixels, std::int32_t) {
      return pixels.elements() > 0;
    });
  }

  template <auto... Channels>
    requires(sizeof...(Channels) == 0)
  auto images(...) const WEFT_DELETED;  // image_options: threads, skip_damaged, decode

  /// The number of damaged files skipped so far, by all datasets of this folder and its copies.
  std::uint64_t damaged() const { return damaged_->load(std::memory_order_relaxed); }

 private:
  static bool is_image(const std::filesystem::path& path) {
    std::string ending = path.extension().string();
    for (char& c : ending)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
  }

  void list(const std::string& path) {
    namespace fs = std::filesystem;
    std::error_code problem;
    for (fs::directory_iterator at(path, problem), end; !problem && at != end; at.increment(problem)) {
      const std::string name = at->path().filename().string();
      if (!name.starts_with('.') && at->is_directory(problem)) classes_.push_back(name);
      problem.clear();  // from entries that are not folders
    }
    if (problem) fail(path, problem);
    if (classes_.empty())
      throw error(error_code::not_found, "image_folder",
                  {path, " has no subfolders: put the images of each class in a subfolder"});
    std::sort(classes_.begin(), classes_.end());
    for (std::size_t label = 0; label < classes_.size(); ++label) {
      std::vector<std::string> found;
      const std::string folder = path + "/" + classes_[label];
      for (fs::recursive_directory_iterator at(folder, problem), end; !problem && at != end; at.increment(problem)) {
        const bool hidden = at->path().filename().string().starts_with('.');
        std::error_code ignored;
        if (hidden && at->is_directory(ignored)) at.disable_recursion_pending();
        if (!hidden && is_image(at->path()) && at->is_regular_file(ignored)) found.push_back(at->path().string());
      }
      if (problem) fail(folder, problem);
      std::sort(found.begin(), found.end());
      labels_.insert(labels_.end(), found.size(), static_cast<std::int32_t>(label));
      std::move(found.begin(), found.end(), std::back_inserter(paths_));
    }
    if (paths_.empty())
      throw error(error_code::not_found, "image_folder", {path, " has no .jpg, .jpeg or .png files in its subfolders"});
  }
  [[noreturn]] static void fail(const std::string& path, const std::error_code& problem) {
    const bool absent = problem == std::errc::no_such_file_or_directory || problem == std::errc::not_a_directory;
    throw error(absent ? error_code::not_found : error_code::unavailable, "image_folder",
                {path, " cannot be listed: ", problem.message()});
  }

  std::vector<std::string> classes_, paths_;
  std::vector<std::int32_t> labels_;
  std::shared_ptr<std::atomic<std::uint64_t>> damaged_;
};

}  // namespace weft::data
