// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <weft/data/fashion_mnist.hpp>

#include <filesystem>
#include <string>

#include "data/files.hpp"
#include "errors.hpp"

using namespace weft;
using test::says;

namespace {

bytes images(unsigned count) { return idx(0x08, {count, 28, 28}, bytes(std::size_t{count} * 784, 51)); }

}  // namespace

BOOST_AUTO_TEST_CASE(plain_files_are_found_beside_compressed_names) {
  folder f;
  f.file("t10k-images-idx3-ubyte", images(2));
  f.file("t10k-labels-idx1-ubyte", idx(0x08, {2}, {9, 0}));
  const auto d = data::fashion_mnist("test", f.path.string());
  BOOST_TEST(d.size() == 2u);
  for (auto [x, y] : d.batches(2)) {
    BOOST_TEST(x(1, 783) == 0.2f);
    BOOST_TEST(y(0) == 9);
  }
}

BOOST_AUTO_TEST_CASE(files_that_do_not_belong_together) {
  folder f;
  const std::string dir = f.path.string();
  BOOST_CHECK_EXCEPTION(data::fashion_mnist("train", dir), error, says(error_code::not_found, "dataset-fashion-mnist"));
  BOOST_CHECK_EXCEPTION(data::fashion_mnist("dev", dir), error, says(error_code::invalid_argument, "\"dev\""));

  f.file("train-images-idx3-ubyte", images(2));
  BOOST_CHECK_EXCEPTION(data::fashion_mnist("train", dir), error, says(error_code::not_found, "train-labels"));
  f.file("train-labels-idx1-ubyte", idx(0x08, {3}, {1, 2, 3}));
  BOOST_CHECK_EXCEPTION(data::fashion_mnist("train", dir), error,
                        says(error_code::invalid_argument, "contains 3 labels, but"));
  f.file("train-labels-idx1-ubyte", idx(0x08, {2}, {1, 10}));
  BOOST_CHECK_EXCEPTION(data::fashion_mnist("train", dir), error, says(error_code::out_of_range, "the label 10 at 1"));
  f.file("train-labels-idx1-ubyte", idx(0x08, {2}, {1, 2}));
  f.file("train-images-idx3-ubyte", idx(0x08, {2, 14, 56}, bytes(2 * 784)));
  BOOST_CHECK_EXCEPTION(data::fashion_mnist("train", dir), error, says(error_code::invalid_argument, "28 x 28"));
  f.file("train-images-idx3-ubyte", images(0));
  BOOST_CHECK_EXCEPTION(data::fashion_mnist("train", dir), error,
                        says(error_code::invalid_argument, "contains no images"));
  f.file("train-images-idx3-ubyte", idx(0x08, {2 * 784}, bytes(2 * 784)));
  BOOST_CHECK_EXCEPTION(data::fashion_mnist("train", dir), error, says(error_code::invalid_argument, "28 x 28"));
}

#ifdef WEFT_HAS_ZLIB
BOOST_AUTO_TEST_CASE(the_real_images) {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist")) {
    BOOST_TEST_MESSAGE("dataset-fashion-mnist is not installed");
    return;
  }
  const auto train = data::fashion_mnist("train"), test = data::fashion_mnist("test");
  BOOST_TEST(train.size() == 60'000u);
  BOOST_TEST(test.size() == 10'000u);
  int of_each[10] = {};
  for (auto [x, y] : test.batches(1000))
    for (std::int32_t label : std::as_const(y)) ++of_each[label];
  for (int count : of_each) BOOST_TEST(count == 1000);
}
#endif
