// SPDX-License-Identifier: BSL-1.0
#include "images.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include <weft/data/augment.hpp>
#include <weft/data/example.hpp>
#include <weft/data/fashion_mnist.hpp>
#include <weft/data/image_folder.hpp>
#include <weft/data/records.hpp>

#include "../result_file.hpp"

using namespace weft;

namespace imagenet {

namespace {

using pixels = data::image<3>;
using normalized = tensor<float, pixels::dims_type>;

/// The share of an image's shorter side that a test sees, as for Inception and torchvision's ResNets.
constexpr double tested_share = 0.875;

normalized normalize(const pixels& image, bool centred) {
  static constexpr std::array<float, 3> half = {0.5f, 0.5f, 0.5f};
  return centred ? data::normalize(image, half, half) : data::normalize(image, data::imagenet_mean, data::imagenet_std);
}

std::pair<pixels, std::int32_t> read_file(const std::string& path, std::int32_t label) {
  return {data::read_image<3>(path), label};
}

[[noreturn]] void refuse(const std::string& why) { throw error(error_code::invalid_argument, "", why); }

/// The files in a folder whose names begin so.
std::vector<std::string> shards_in(const std::string& folder, const std::string& prefix) {
  std::vector<std::string> found;
  std::error_code problem;
  for (std::filesystem::directory_iterator at(folder, problem), end; !problem && at != end; at.increment(problem))
    if (at->path().filename().string().starts_with(prefix)) found.push_back(at->path().string());
  if (problem) throw error(error_code::not_found, "", folder + " cannot be listed: " + problem.message());
  if (found.empty()) throw error(error_code::not_found, "", folder + " has no file " + prefix + "*");
  std::sort(found.begin(), found.end());
  return found;
}

struct close_file {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

/// The number of records of a TFRecord file. Reads the lengths alone, unless the file is compressed: the data are
/// checked when they are read.
std::size_t count_records(const std::string& path) {
  const std::unique_ptr<std::FILE, close_file> file(std::fopen(path.c_str(), "rbe"));
  if (!file) throw error(error_code::not_found, "", path + " cannot be read: " + std::strerror(errno));
  std::size_t count = 0;
  unsigned char head[12];  // a length of 8 bytes, and its checksum
  std::size_t read;
  for (; (read = std::fread(head, 1, sizeof head, file.get())) == sizeof head; ++count) {
    if (count == 0 && head[0] == 0x1f && head[1] == 0x8b) {
      data::record_reader unpacked(path);
      for (std::string record; unpacked.next(record);) ++count;
      return count;
    }
    std::uint64_t length = 0;
    for (int i = 7; i >= 0; --i) length = length << 8 | head[i];
    constexpr std::uint64_t checksum = 4, most = std::uint64_t{1} << 28;
    if (length > most || ::fseeko(file.get(), static_cast<off_t>(length + checksum), SEEK_CUR) != 0)
      throw error(error_code::data_loss, "",
                  path + " is not a TFRecord file, or is damaged at record " + std::to_string(count));
  }
  if (read != 0) throw error(error_code::data_loss, "", path + " ends inside a record");
  return count;
}

}  // namespace

image_source::image_source(const image_options& how, const network_kind& kind, const std::string& part)
    : how_(how), kind_(kind) {
  if (!how.records.empty()) {
    paths_ = shards_in(how.records, part == "train" ? "train-" : "validation-");
    for (const std::string& path : paths_) {
      record_counts_.push_back(count_records(path));
      size_ += record_counts_.back();
    }
    return;
  }
  const data::image_folder folder(how.image_dir + "/" + part);
  if (folder.classes().size() > static_cast<std::size_t>(kind.classes))
    refuse(how.image_dir + " has " + std::to_string(folder.classes().size()) + " classes, but " + kind.name + " has " +
           std::to_string(kind.classes));
  for (const auto& [path, label] : folder.files()) {
    paths_.push_back(path);
    labels_.push_back(label);
  }
  size_ = paths_.size();
}

std::vector<std::string> image_source::files_of(std::size_t worker, std::size_t workers) const {
  if (paths_.size() < workers)
    refuse(how_.records + " has " + std::to_string(paths_.size()) + " files of records for " + std::to_string(workers) +
           " workers, but each worker needs at least one");
  std::vector<std::string> mine;
  for (std::size_t i = worker; i < paths_.size(); i += workers) mine.push_back(paths_[i]);
  return mine;
}

std::size_t image_source::size(std::size_t worker, std::size_t workers) const {
  if (how_.records.empty()) return size_ / workers + (worker < size_ % workers ? 1 : 0);
  std::size_t sum = 0;
  for (std::size_t i = worker; i < record_counts_.size(); i += workers) sum += record_counts_[i];
  return sum;
}

image_source::decoded image_source::read_records(const std::vector<std::string>& files) const {
  const auto classes = kind_.classes;
  return data::records(files)
      .map(data::parse_example<std::string, std::int64_t>("image/encoded", "image/class/label"))
      .map(
          [classes](const std::string& encoded, std::int64_t label) {
            if (label < 1 || label > classes)
              throw error(error_code::out_of_range, "image/class/label",
                          {"must be 1 to ", classes, ", but is ", label});
            return std::pair(data::decode_image<3>(encoded), static_cast<std::int32_t>(label - 1));
          },
          how_.decode_threads);
}

image_source::batches image_source::training_batches(std::size_t batch, std::size_t worker, std::size_t workers) const {
  const auto side = static_cast<std::size_t>(kind_.side);
  const auto augment = [how = how_, side, centred = kind_.centred](const data::position& at, const pixels& image,
                                                                   std::int32_t label) {
    if (how.augment == "none") return std::pair(normalize(data::resize(image, side, side), centred), label);
    data::element_random random(how.seed, at);
    auto part = data::random_flip_left_right(
        data::random_resized_crop(image, random, side, side, {.min_scale = how.min_crop}), random);
    // As Inception's distort_color.
    if (how.augment == "color")
      part = data::color_jitter{.brightness = 32.0 / 255, .contrast = 0.5, .saturation = 0.5, .hue = 0.2}(
          std::move(part), random);
    return std::pair(normalize(part, centred), label);
  };
  const auto batched = [&](const decoded& images) {
    return images.map(augment, how_.decode_threads).batches(batch).prefetch(4);
  };
  if (!how_.records.empty())
    return batched(read_records(files_of(worker, workers))
                       .shuffled(how_.seed + worker, data::shuffle_buffer{how_.shuffle_buffer}));
  return batched(data::from_tensors(paths_, labels_).shuffled(how_.seed).shard(worker, workers).map(read_file));
}

image_source::batches image_source::test_batches(std::size_t batch) const {
  const auto side = static_cast<std::size_t>(kind_.side);
  const auto middle = [side, centred = kind_.centred](const pixels& image, std::int32_t label) {
    const auto shorter = static_cast<std::size_t>(std::lround(static_cast<double>(side) / tested_share));
    const auto resized = data::resize_shorter_side(image, shorter);
    return std::pair(normalize(data::center_crop(resized, side, side), centred), label);
  };
  const auto batched = [&](const decoded& images) {
    return images.map(middle, how_.decode_threads).batches(batch).prefetch(2);
  };
  if (!how_.records.empty()) return batched(read_records(paths_));
  return batched(data::from_tensors(paths_, labels_).map(read_file));
}

namespace {

/// A garment of 28 x 28, as wide as 56 pixels in the middle of 64, in colours between two.
pixels tinted(const data::labelled_images<784>::value_type& example, data::element_random& random) {
  constexpr std::size_t small = 28, side = 64, garment = 56, margin = (side - garment) / 2;
  double dark[3], light[3];
  for (int c = 0; c < 3; ++c) dark[c] = random.uniform(0, 80), light[c] = random.uniform(130, 255);
  data::image<1> grey(shape(small, small, 1));
  const auto& x = std::get<0>(example);
  for (std::size_t i = 0; i < x.elements(); ++i)
    grey.data()[i] = static_cast<std::uint8_t>(std::lround(x.data()[i] * 255));
  const auto large = data::crop(data::resize(grey, garment, garment), -static_cast<std::int64_t>(margin),
                                -static_cast<std::int64_t>(margin), side, side);
  pixels made(shape(side, side, 3));
  for (std::size_t i = 0; i < side * side; ++i)
    for (std::size_t c = 0; c < 3; ++c) {
      const double share = large.data()[i] / 255.0;
      made.data()[3 * i + c] = static_cast<std::uint8_t>(std::lround(dark[c] + share * (light[c] - dark[c])));
    }
  return made;
}

void write_images(const std::filesystem::path& folder, const data::labelled_images<784>& images, std::int64_t of_each,
                  std::uint64_t seed) {
  static constexpr const char* names[] = {"t-shirt", "trouser", "pullover", "dress", "coat",
                                          "sandal",  "shirt",   "sneaker",  "bag",   "ankle-boot"};
  for (const char* name : names) std::filesystem::create_directories(folder / name);
  std::int64_t written[10] = {};
  std::uint64_t place = 0;
  for (const auto& example : images) {
    data::element_random random(seed, {0, place++});
    const std::int32_t label = std::get<1>(example);
    const std::int64_t number = written[label]++;
    if (number >= of_each) continue;
    char file[32];
    std::snprintf(file, sizeof file, "%05lld.jpg", static_cast<long long>(number));
    const std::string path = (folder / names[label] / file).string();
    const std::string bytes = data::encode_jpeg(tinted(example, random), 90);
    std::FILE* const out = std::fopen(path.c_str(), "wb");
    if (!out) refuse_to_write(path, errno);
    const bool whole = std::fwrite(bytes.data(), 1, bytes.size(), out) == bytes.size();
    if (std::fclose(out) != 0 || !whole) refuse_to_write(path, errno);
  }
}

}  // namespace

void make_image_folder(const std::string& folder, const std::string& fashion_mnist, std::int64_t of_each,
                       std::uint64_t seed) {
  const std::filesystem::path whole(folder), part(folder + ".part");
  std::filesystem::remove_all(part);
  write_images(part / "train", data::fashion_mnist("train", fashion_mnist), of_each, seed);
  write_images(part / "val", data::fashion_mnist("test", fashion_mnist), std::max<std::int64_t>(of_each / 5, 1),
               seed + 1);
  std::filesystem::rename(part, whole);
}

}  // namespace imagenet
