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

/// How the images of a folder are decoded.
struct image_options {
  int threads = 1;  ///< that decode at once; a map with threads behind it decodes in those
  /// Files that cannot be decoded, or are larger than `decode.max_pixels`, are passed over, and counted, in place of an
  /// error.
  bool skip_damaged = false;
  decode_options decode = {};
};

/// A folder with a folder of JPEG and PNG files for each class, ImageNet's layout (torchvision's ImageFolder): classes
/// are numbered in the order of their names, files come class by class in the order of theirs, at any depth. The
/// constructor lists files and reads none; hidden ones and those with another ending are passed over. Throws not_found
/// where there is no such folder, or no class or no image in it.
///
///     const data::image_folder train("imagenet/train");
///     auto batches = train.images().shuffled(1).map(augment, 4).batches(64).prefetch(2);
class image_folder {
 public:
  explicit image_folder(const std::string& path) : damaged_(std::make_shared<std::atomic<std::uint64_t>>(0)) {
    list(path);
  }

  /// Names, by label.
  const std::vector<std::string>& classes() const { return classes_; }
  std::size_t size() const { return labels_.size(); }

  /// Paths and labels.
  dataset<std::string, std::int32_t> files() const { return from_tensors(paths_, labels_); }

  /// Images and labels. Each image is decoded when it is asked for, in the threads of the last `map`, so shuffling
  /// moves no image. Throws as read_image does, there; errors name the file. With `skip_damaged`, how many elements
  /// there are is not known before: shuffle `files()`, and give the option `threads`.
  template <int Channels>
  dataset<image<Channels>, std::int32_t> images(const image_options& how = {}) const {
    return images<Channels>(files(), how);
  }
  /// In three channels. No template, so that a call without options means this one.
  dataset<image<3>, std::int32_t> images(const image_options& how = {}) const { return images<3>(how); }
  /// The images and labels of these files, chosen from `files()` in an order of their own.
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

  /// How many damaged files have been passed over so far, by all datasets of this folder and its copies.
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
      problem.clear();  // of what is no folder
    }
    if (problem) fail(path, problem);
    if (classes_.empty())
      throw error(error_code::not_found, "image_folder", {path, " has no folder, of which each would be a class"});
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
      throw error(error_code::not_found, "image_folder", {path, " has no .jpg, .jpeg or .png file in its folders"});
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
