// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <weft/data/augment.hpp>
#include <weft/data/image_folder.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "data/files.hpp"
#include "errors.hpp"

using namespace weft;
using test::says;

namespace {

const std::string here = TEST_DATA "/data/images/";

struct picture {
  std::size_t height, width, channels;
  bytes values;
};

/// A picture that Pillow and torchvision have made.
const picture& made_outside(const std::string& name) {
  static const auto all = [] {
    std::map<std::string, picture> read;
    std::ifstream file(here + "values.txt");
    for (std::string line, key, hex; std::getline(file, line);) {
      std::istringstream words(line);
      picture p{};
      words >> key >> p.height >> p.width >> p.channels >> hex;
      for (std::size_t i = 0; i < hex.size(); i += 2)
        p.values.push_back(static_cast<unsigned char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
      read[key] = p;
    }
    return read;
  }();
  BOOST_TEST_REQUIRE(all.count(name) == 1u, "there are no values of " << name);
  return all.at(name);
}

template <int Channels = 3>
data::image<Channels> pixels_of(const picture& p) {
  data::image<Channels> made(shape(p.height, p.width, Channels));
  std::memcpy(made.data(), p.values.data(), p.values.size());
  return made;
}

/// The largest difference to what was made outside.
template <class Image>
int difference(const Image& x, const std::string& name) {
  const picture& p = made_outside(name);
  BOOST_TEST_REQUIRE(x.elements() == p.values.size());
  BOOST_TEST(static_cast<std::size_t>(x.extent(0)) == p.height);
  BOOST_TEST(static_cast<std::size_t>(x.extent(1)) == p.width);
  int most = 0;
  for (std::size_t i = 0; i < p.values.size(); ++i) most = std::max(most, std::abs(x.data()[i] - p.values[i]));
  return most;
}

template <class Image>
bool same(const Image& a, const Image& b) {
  return a.extents() == b.extents() && std::memcmp(a.data(), b.data(), a.elements()) == 0;
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A pattern that no two pixels of share.
data::image<3> gradient(std::size_t height, std::size_t width) {
  data::image<3> made(shape(height, width, 3));
  for (std::size_t y = 0; y < height; ++y)
    for (std::size_t x = 0; x < width; ++x) {
      made(y, x, 0) = static_cast<std::uint8_t>(y);
      made(y, x, 1) = static_cast<std::uint8_t>(x);
      made(y, x, 2) = 100;
    }
  return made;
}

}  // namespace

// ---- sizes and colours ----

BOOST_AUTO_TEST_CASE(resizing_is_that_of_pillow) {
  const auto colour = pixels_of(made_outside("source"));
  const auto grey = [&] {
    data::image<1> made(shape(colour.extent(0), colour.extent(1), 1));
    for (std::size_t i = 0; i < made.elements(); ++i)
      made.data()[i] = data::detail::luma(colour.data()[3 * i], colour.data()[3 * i + 1], colour.data()[3 * i + 2]);
    return made;
  }();
  for (const auto& [h, w] : {std::pair(32, 40), {10, 15}, {32, 15}, {9, 40}, {45, 41}, {1, 1}, {3, 60}})
    for (const auto& [by, name] :
         {std::pair(data::interpolation::bilinear, "bilinear"), std::pair(data::interpolation::bicubic, "bicubic")}) {
      const std::string key = str_cat({"resized:", h, ":", w, ":", name});
      const auto height = static_cast<std::size_t>(h), width = static_cast<std::size_t>(w);
      const int rounding = h == 3 ? 1 : 0;  // Pillow's columns come first there
      BOOST_TEST(difference(data::resize(colour, height, width, by), key) <= rounding, key);
      BOOST_TEST(difference(data::resize(grey, height, width, by), "grey_" + key) <= rounding, key);
    }
  BOOST_TEST(difference(data::resize<10, 15>(colour), "resized:10:15:bilinear") == 0);
  BOOST_CHECK_EXCEPTION(data::resize(colour, 0, 4), error,
                        says(error_code::invalid_argument, "32 x 40 is resized to 0 x 4"));
}

BOOST_AUTO_TEST_CASE(parts_and_colours_are_those_of_torchvision) {
  const auto x = pixels_of(made_outside("colours"));
  for (const auto& [h, w] : {std::pair(5u, 7u), {8u, 8u}, {17u, 23u}, {30u, 9u}, {20u, 40u}})
    BOOST_TEST(difference(data::center_crop(x, h, w), str_cat({"center:", h, ":", w})) == 0);
  BOOST_TEST(difference(data::center_crop<5, 7>(x), "center:5:7") == 0);
  BOOST_TEST(difference(data::crop(x, -3, 5, 9, 30), "crop:-3:5") == 0);
  BOOST_TEST(difference(data::crop<9, 30>(x, -3, 5), "crop:-3:5") == 0);
  for (const std::size_t size : {9u, 30u})
    BOOST_TEST(difference(data::resize_shorter_side(x, size), str_cat({"shorter:", size})) <= 1);
  BOOST_TEST(difference(data::flip_left_right(x), "flipped") == 0);
  data::image<1> grey(shape(17, 23, 1));
  for (std::size_t i = 0; i < grey.elements(); ++i)
    grey.data()[i] = data::detail::luma(x.data()[3 * i], x.data()[3 * i + 1], x.data()[3 * i + 2]);
  for (const auto& [factor, name] : {std::pair(0.0, "0.0"), {0.3, "0.3"}, {1.0, "1.0"}, {1.7, "1.7"}}) {
    BOOST_TEST(difference(data::adjust_brightness(x, factor), std::string("brightness:") + name) <= 1);
    BOOST_TEST(difference(data::adjust_contrast(x, factor), std::string("contrast:") + name) <= 1);
    BOOST_TEST(difference(data::adjust_contrast(grey, factor), std::string("grey_contrast:") + name) <= 1);
    BOOST_TEST(difference(data::adjust_saturation(x, factor), std::string("saturation:") + name) <= 1);
  }
  for (const auto& [turn, name] :
       {std::pair(-0.5, "-0.5"), {-0.13, "-0.13"}, {0.0, "0.0"}, {0.25, "0.25"}, {0.4, "0.4"}})
    BOOST_TEST(difference(data::adjust_hue(x, turn), std::string("hue:") + name) <= 1);
  const auto normal = data::normalize(x, data::imagenet_mean, data::imagenet_std);
  const picture& wanted = made_outside("normal");
  BOOST_TEST_REQUIRE(4 * normal.elements() == wanted.values.size());
  for (std::size_t i = 0; i < normal.elements(); ++i) {
    float y;
    std::memcpy(&y, wanted.values.data() + 4 * i, 4);
    BOOST_TEST(std::abs(normal.data()[i] - y) < 2e-6f);
  }
  BOOST_CHECK_EXCEPTION(data::normalize(x, data::imagenet_mean, {1, 0, 1}), error,
                        says(error_code::invalid_argument, "channel 1"));
  BOOST_CHECK_EXCEPTION(data::adjust_contrast(x, -1), error, says(error_code::invalid_argument, "at least 0"));
  BOOST_CHECK_EXCEPTION(data::adjust_hue(x, 0.6), error, says(error_code::invalid_argument, "0.5"));
}

BOOST_AUTO_TEST_CASE(random_parts_are_within_their_bounds_and_depend_on_the_position_alone) {
  const auto x = gradient(100, 150);
  double least = 1, most = 0, flips = 0;
  bool edges[4] = {};
  for (std::uint64_t i = 0; i < 2000; ++i) {
    data::element_random random(1, {0, i}), again(1, {0, i});
    const auto place = data::detail::draw_part(100, 150, random, {});
    const double area = static_cast<double>(place.height * place.width) / 15000;
    const double ratio = static_cast<double>(place.width) / static_cast<double>(place.height);
    least = std::min(least, area), most = std::max(most, area);
    BOOST_TEST((ratio > 0.72 && ratio < 1.39));
    BOOST_TEST((place.top + place.height <= 100 && place.left + place.width <= 150));
    if (i >= 200) continue;
    if (i < 20) {
      const auto taken = data::crop(x, static_cast<std::int64_t>(place.top), static_cast<std::int64_t>(place.left),
                                    place.height, place.width);
      BOOST_TEST(same(data::random_resized_crop<8, 8>(x, again), data::resize<8, 8>(taken)));
      data::element_random of_run(1, {0, i});
      BOOST_TEST(same(data::random_resized_crop(x, of_run, 8, 9), data::resize(taken, 8, 9)));
    }
    const auto part = data::random_crop<100, 150>(x, random, 2);
    edges[0] |= part(50, 0, 2) == 0, edges[1] |= part(50, 149, 2) == 0;
    edges[2] |= part(0, 75, 2) == 0, edges[3] |= part(99, 75, 2) == 0;
    flips += data::random_flip_left_right(x, random)(0, 0, 1) == 149;
  }
  BOOST_TEST((least >= 0.075 && least < 0.1 && most > 0.85 && most <= 1));
  for (const bool each : edges) BOOST_TEST(each);
  BOOST_TEST((flips > 70 && flips < 130));
  data::element_random random(1, {});
  BOOST_CHECK_EXCEPTION((data::random_crop<100, 150>(x, random, static_cast<std::size_t>(-1))), error,
                        says(error_code::invalid_argument, "but is -1"));
  BOOST_CHECK_EXCEPTION(
      (data::random_crop<105, 150>(x, random, 2)), error,
      says(error_code::invalid_argument, "100 x 150, padded by 2, is smaller than the crop of 105 x 150"));
  // An image that no part fits into yields its middle.
  const auto narrow = data::detail::draw_part(1000, 10, random, {});
  BOOST_TEST((narrow.width == 10u && narrow.height == 13u && narrow.top == 493u && narrow.left == 0u));

  const data::color_jitter jitter{.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1};
  data::element_random a(1, {2, 3}), b(1, {2, 3}), c(2, {2, 3}), d(1, {3, 3});
  const auto once = jitter(x, a);
  BOOST_TEST(same(once, jitter(x, b)));
  BOOST_TEST(!same(once, jitter(x, c)));
  BOOST_TEST(!same(once, jitter(x, d)));
  BOOST_TEST(same(x, data::color_jitter{}(x, a)));
  BOOST_CHECK_EXCEPTION(data::color_jitter{.hue = 0.7}(x, a), error, says(error_code::invalid_argument, "0.5"));
}

// ---- files ----

#if defined(WEFT_HAS_JPEG) && defined(WEFT_HAS_PNG)

BOOST_AUTO_TEST_CASE(files_of_pillow_are_decoded_as_pillow_decodes_them) {
  for (const std::string name :
       {"420.jpg", "444.jpg", "422.jpg", "grey.jpg", "progressive.jpg", "cmyk.jpg", "rgb.png", "grey.png", "alpha.png",
        "grey_alpha.png", "palette.png", "bits.png", "grey16.png", "interlaced.png", "rgb16.png"}) {
    // Other versions of libjpeg may round otherwise.
    const int rounding = name.ends_with(".jpg") ? 2 : 0;
    BOOST_TEST(difference(data::read_image(here + name), name + ":3") <= rounding, name);
    BOOST_TEST(difference(data::read_image<1>(here + name), name + ":1") <= rounding, name);
  }
  const std::string file = content(here + "halves.jpg");
  BOOST_TEST(difference(data::decode_image(file, {.min_height = 16, .min_width = 20}), "halves.jpg:half") <= 2);
  BOOST_TEST(data::decode_jpeg(file, {.min_height = 17, .min_width = 20}).extent(0) == 32);
}

BOOST_AUTO_TEST_CASE(what_is_encoded_is_decoded) {
  const auto x = gradient(33, 50);
  BOOST_TEST(same(x, data::decode_png(data::encode_png(x))));
  const auto near = [](const auto& a, const auto& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.elements(); ++i) sum += std::abs(a.data()[i] - b.data()[i]);
    return a.extents() == b.extents() && sum < 1.5 * static_cast<double>(a.elements());
  };
  BOOST_TEST(near(x, data::decode_image(data::encode_jpeg(x, 95))));
  BOOST_TEST(data::encode_jpeg(x, 30).size() < data::encode_jpeg(x, 95).size());
  data::image<1> grey(shape(9, 5, 1));
  for (std::size_t i = 0; i < 45; ++i) grey.data()[i] = static_cast<std::uint8_t>(5 * i);
  BOOST_TEST(same(grey, data::decode_png<1>(data::encode_png(grey))));
  BOOST_TEST(near(grey, data::decode_jpeg<1>(data::encode_jpeg(grey, 98))));
  BOOST_CHECK_EXCEPTION(data::encode_jpeg(x, 0), error,
                        says(error_code::invalid_argument, "must be 1 to 100, but is 0"));
  BOOST_CHECK_EXCEPTION(data::encode_jpeg(data::image<3>(shape(0, 4, 3))), error,
                        says(error_code::invalid_argument, "0 x 4 x 3"));
}

BOOST_AUTO_TEST_CASE(what_is_cut_off_or_changed_is_an_error_or_an_image) {
  for (const std::string name : {"420.jpg", "progressive.jpg", "interlaced.png", "palette.png"}) {
    const std::string file = content(here + name);
    for (std::size_t size = 0; size < file.size(); ++size) {
      const auto code = size < (name.ends_with("jpg") ? 3 : 8) ? error_code::invalid_argument : error_code::data_loss;
      BOOST_CHECK_EXCEPTION(data::decode_image(file.substr(0, size), {.name = name}), error, says(code, name));
    }
    std::string changed = file;
    std::size_t refused = 0;
    for (std::size_t i = 0; i < file.size(); ++i) {
      changed[i] = static_cast<char>(changed[i] ^ (1 << i % 8));
      try {
        data::decode_image(changed, {.name = name, .max_pixels = 100'000});
      } catch (const error& e) {
        ++refused;
        BOOST_TEST(test::contains(e.what(), name));
      }
      changed[i] = file[i];
    }
    BOOST_TEST(refused > (name.ends_with("jpg") ? 5 : file.size() * 9 / 10));  // PNG has checksums
  }
  BOOST_CHECK_EXCEPTION(data::read_image(here + "values.txt"), error,
                        says(error_code::invalid_argument, "values.txt is neither a JPEG file nor a PNG file"));
  BOOST_CHECK_EXCEPTION(data::read_image(here + "none.jpg"), error, says(error_code::not_found, "none.jpg"));
  for (const std::string name : {"420.jpg", "rgb.png"})
    BOOST_CHECK_EXCEPTION(
        data::decode_image(content(here + name), {.name = name, .max_pixels = 390}), error,
        says(error_code::resource_exhausted, name + " has 17 x 23 pixels, more than `max_pixels`, 390"));
  // A size that no file of so few bytes can have: bytes 16 to 23 of a PNG file, its checksum after them.
  std::string bomb = content(here + "rgb.png");
  bomb.replace(16, 8, std::string("\0\0\x20\0\0\0\x20\0", 8));
  const std::uint32_t sum = crc32(std::as_bytes(std::span(bomb).subspan(12, 17)));
  for (unsigned i = 0; i < 4; ++i) bomb[29 + i] = static_cast<char>(sum >> (24 - 8 * i));
  BOOST_CHECK_EXCEPTION(data::decode_png(bomb), error, says(error_code::data_loss, "8192 x 8192 pixels, more than"));
}

// ---- a folder ----

BOOST_AUTO_TEST_CASE(a_folder_has_classes_in_the_order_of_names) {
  const folder root;
  for (const char* name : {"cats", "ants/deep", "bees", ".git"}) std::filesystem::create_directories(root.path / name);
  const auto put = [&](const char* name, std::uint8_t level) {
    data::image<3> x(shape(6, 8, 3));
    std::memset(x.data(), level, x.elements());
    const std::string file = data::encode_png(x);
    root.file(name, {file.begin(), file.end()});
  };
  put("cats/2.PNG", 5), put("cats/1.png", 4), put("ants/deep/1.png", 1), put("ants/0.png", 0), put("bees/0.png", 3);
  put("cats/.hidden.png", 9), put("cats/notes.txt", 9), put(".git/0.png", 9), put("alone.png", 9);
  put("ants/z.jpg", 2);  // its content says what it is

  const data::image_folder images(root.path.string());
  BOOST_TEST((images.classes() == std::vector<std::string>{"ants", "bees", "cats"}));
  const auto all = images.images();
  BOOST_TEST(all.size() == 6u);
  int next = 0;
  for (const auto& [x, label] : all) {
    BOOST_TEST(x(5, 7, 2) == next);
    BOOST_TEST(label == (next < 3 ? 0 : next == 3 ? 1 : 2));
    ++next;
  }
  BOOST_TEST(next == 6);

  // The same elements with any number of threads.
  const auto levels = [&](int threads) {
    std::vector<float> found;
    const auto augmented = all.shuffled(1).map(
        [](const data::position& at, const data::image<3>& x, std::int32_t label) {
          data::element_random random(7, at);
          const auto part = data::color_jitter{.brightness = 0.9}(data::random_resized_crop<4, 4>(x, random), random);
          return std::pair(data::normalize(part, {0, 0, 0}, {1, 1, 1}), label);
        },
        threads);
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch)
      for (const auto& [x, label] : augmented.batches<2>().prefetch(2).epoch(epoch)) {
        found.insert(found.end(), x.begin(), x.end());
        found.push_back(static_cast<float>(label(0)));
      }
    return found;
  };
  const auto once = levels(1);
  BOOST_TEST(once.size() == 2 * 3 * (2 * 48 + 1u));
  BOOST_TEST(once == levels(3), boost::test_tools::per_element());

  // A damaged file is an error that names it, or is passed over and counted.
  root.file("bees/1.jpg", {0xff, 0xd8, 0xff, 0xe0});
  root.file("bees/2.jpg", {});
  const data::image_folder damaged(root.path.string());
  const auto count = [](const auto& elements) {
    std::size_t n = 0;
    for (const auto& [x, label] : elements) n += x.elements() > 0;
    return n;
  };
  BOOST_CHECK_EXCEPTION(count(damaged.images({.threads = 2})), error,
                        says(error_code::data_loss, "bees/1.jpg is damaged near offset"));
  const auto whole = damaged.images({.threads = 2, .skip_damaged = true});
  BOOST_TEST((!whole.has_size() && count(whole) == 6u && damaged.damaged() == 2u));
  BOOST_TEST(count(damaged.images(damaged.files().shuffled(3), {.skip_damaged = true})) == 6u);
  BOOST_TEST(damaged.damaged() == 4u);
  // Neither one of too many pixels nor one of too many bytes ends the loop.
  BOOST_TEST(count(damaged.images({.skip_damaged = true, .decode = {.max_pixels = 1}})) == 0u);
  std::filesystem::resize_file(root.path / "bees/1.jpg", std::uintmax_t{1} << 40);
  BOOST_CHECK_EXCEPTION(data::read_image((root.path / "bees/1.jpg").string()), error,
                        says(error_code::resource_exhausted, "bees/1.jpg has 1099511627776 bytes"));
  // A file that has gone is not a damaged one.
  std::filesystem::remove(root.path / "bees/1.jpg");
  BOOST_CHECK_EXCEPTION(count(whole), error, says(error_code::not_found, "bees/1.jpg"));

  BOOST_CHECK_EXCEPTION(data::image_folder("no/such/folder"), error, says(error_code::not_found, "no/such/folder"));
  BOOST_CHECK_EXCEPTION(data::image_folder((root.path / "cats").string()), error,
                        says(error_code::not_found, "has no subfolders"));
  std::filesystem::create_directories(root.path / "empty/a");
  BOOST_CHECK_EXCEPTION(data::image_folder((root.path / "empty").string()), error, says(error_code::not_found, ".jpg"));
}

#else

BOOST_AUTO_TEST_CASE(without_the_libraries_errors_say_what_to_install) {
  BOOST_CHECK_EXCEPTION(data::read_image(here + "420.jpg"), error, says(error_code::unimplemented, "libjpeg-dev"));
  BOOST_CHECK_EXCEPTION(data::read_image(here + "rgb.png"), error, says(error_code::unimplemented, "libpng-dev"));
  BOOST_CHECK_EXCEPTION(data::encode_jpeg(gradient(3, 4)), error, says(error_code::unimplemented, "libjpeg-dev"));
  BOOST_TEST(data::encode_png(gradient(3, 4)).substr(1, 3) == "PNG");
}

#endif
