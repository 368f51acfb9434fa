// SPDX-License-Identifier: BSL-1.0
// Readers and batches: bench_data csv|tfrecord|shuffle|jpeg|prefetch. The files are made in a temporary folder and lie
// in the system's cache when they are read; figures are the best of some turns, as the peers'.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <string>
#include <utility>
#include <vector>
#include <weft/data/augment.hpp>
#include <weft/data/csv.hpp>
#include <weft/data/image_folder.hpp>
#include <weft/data/records.hpp>
#include <weft/deadline.hpp>
#include <weft/tensor/random.hpp>

#include "networks.hpp"
#include "timing.hpp"

using namespace weft;

namespace {

struct folder {
  std::filesystem::path path;
  folder() {
    std::string name = (std::filesystem::temp_directory_path() / "weft-bench-XXXXXX").string();
    if (!::mkdtemp(name.data())) std::exit(1);
    path = name;
  }
  ~folder() { std::filesystem::remove_all(path); }
};

template <class F>
double best(F f, int times = 3) {
  double least = 1e9;
  for (int i = 0; i < times; ++i) {
    const auto start = bench::steady::now();
    f();
    least = std::min(least, bench::seconds_since(start));
  }
  return least;
}

/// A million rows of ten floats, into tensors: by batches, and all of them at once.
void csv() {
  const folder here;
  const std::string path = (here.path / "t.csv").string();
  constexpr std::size_t rows = 1'000'000;
  std::FILE* const out = std::fopen(path.c_str(), "wb");
  std::fputs("a,b,c,d,e,f,g,h,i,j\n", out);
  const random_stream random(1, 0);
  for (std::size_t i = 0; i < 10 * rows; ++i) std::fprintf(out, i % 10 == 9 ? "%.6f\n" : "%.6f,", random.uniform(i));
  std::fclose(out);
  const double megabytes = static_cast<double>(std::filesystem::file_size(path)) / 1e6;
  const auto table = data::csv<tensor<float, dims<10>>>(path);
  const auto report = [&](const char* form, double seconds) {
    std::printf("{\"peer\": \"weft%s\", \"what\": \"csv\", \"rows\": %zu, \"seconds\": %.3f, \"MBs\": %.1f}\n", form,
                rows, seconds, megabytes / seconds);
  };
  const auto read = [&](const auto& batches) {
    std::size_t count = 0;
    for (const auto& [x] : batches) count += static_cast<std::size_t>(x.extent(0));
    if (count != rows) std::exit(1);
  };
  report("", best([&] { read(table.batches(10'000)); }));
  report(" all at once", best([&] { read(table.batches(rows)); }));
}

/// 1 GB of records of 10 kB, with their checksums.
void tfrecord() {
  const folder here;
  const std::string path = (here.path / "r.tfrecord").string();
  constexpr std::size_t records = 100'000, size = 10'000;
  std::string record(size, '\0');
  const random_stream random(1, 0);
  for (std::size_t i = 0; i < size; ++i) record[i] = static_cast<char>(256 * random.uniform(i));
  data::record_writer out(path);
  for (std::size_t i = 0; i < records; ++i) out.add(record);
  out.close();
  const double seconds = best([&] {
    std::size_t count = 0;
    for (const auto& [each] : data::records(path)) count += each.size() == size;
    if (count != records) std::exit(1);
  });
  std::printf("{\"peer\": \"weft\", \"what\": \"tfrecord\", \"GB\": 1.0, \"seconds\": %.3f, \"GBs\": %.2f}\n", seconds,
              1 / seconds);
}

/// 60,000 images of 784 bytes, shuffled, in batches of 100 floats; beside it the plain loop that does no more than
/// that.
void shuffle() {
  constexpr std::size_t images = 60'000, pixels = 784, batch = 100;
  std::vector<std::uint8_t> bytes(images * pixels);
  const random_stream random(1, 0);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(256 * random.uniform(i));
  std::vector<std::int32_t> labels(images);
  std::iota(labels.begin(), labels.end(), 0);
  const auto all = data::from_tensors(data::scaled<dims<784>>(bytes), labels);
  std::uint64_t epoch = 0;
  double seconds = 1e9, plain = 1e9;
  std::int64_t sum = 0, plain_sum = 0;
  std::vector<float> x(batch * pixels);
  std::vector<std::int32_t> y(batch);
  std::vector<std::size_t> order(images);
  for (int turn = 0; turn < 20; ++turn, ++epoch) {
    seconds = std::min(seconds, best(
                                    [&] {
                                      for (const auto& [values, numbers] : all.shuffled(1, epoch).batches(batch))
                                        sum += numbers(0);
                                    },
                                    1));
    plain = std::min(plain, best(
                                [&] {
                                  std::iota(order.begin(), order.end(), std::size_t{0});
                                  data::detail::order_random draw(1, epoch);
                                  for (std::size_t i = images; i > 1; --i)
                                    std::swap(order[i - 1], order[draw.below(i)]);
                                  for (std::size_t i = 0; i < images; i += batch) {
                                    data::detail::scale_rows(reinterpret_cast<const std::byte*>(bytes.data()), pixels,
                                                             order.data() + i, batch, x.data());
                                    for (std::size_t k = 0; k < batch; ++k) y[k] = labels[order[i + k]];
                                    plain_sum += y[0];
                                  }
                                },
                                1));
  }
  if (sum != plain_sum) std::exit(1);
  for (const auto& [peer, each] : {std::pair("weft", seconds), std::pair("plain loop", plain)})
    std::printf("{\"peer\": \"%s\", \"what\": \"shuffle\", \"images\": %zu, \"batch\": %zu, \"seconds\": %.5f}\n", peer,
                images, batch, each);
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::FILE* const out = std::fopen(path.c_str(), "wb");
  if (!out || std::fwrite(bytes.data(), 1, bytes.size(), out) != bytes.size() || std::fclose(out) != 0) std::exit(1);
}

/// 300 JPEG files of 500 x 375, coarse noise enlarged: decoded, a random part resized to 224 x 224, flipped,
/// normalised.
void jpeg(int threads) {
  const folder here;
  std::filesystem::create_directory(here.path / "noise");
  constexpr std::size_t images = 300;
  const random_stream random(1, 0);
  for (std::size_t i = 0, n = 0; i < images; ++i) {
    data::image<3> small(shape(24, 32, 3));
    for (std::size_t k = 0; k < small.elements(); ++k)
      small.data()[k] = static_cast<std::uint8_t>(256 * random.uniform(n++));
    write_file(here.path / "noise" / (std::to_string(i) + ".jpg"),
               data::encode_jpeg(data::resize(small, 375, 500, data::interpolation::bicubic), 90));
  }
  const data::image_folder all(here.path.string());
  const auto augmented = all.images().map(
      [](const data::position& at, const data::image<3>& x, std::int32_t label) {
        data::element_random random(1, at);
        const auto part = data::random_flip_left_right(data::random_resized_crop<224, 224>(x, random), random);
        return std::pair(data::normalize(part, data::imagenet_mean, data::imagenet_std), label);
      },
      threads);
  const double seconds = best([&] {
    std::size_t count = 0;
    for (const auto& [x, label] : augmented) count += x.elements() == 3 * 224 * 224;
    if (count != images) std::exit(1);
  });
  std::printf("{\"peer\": \"weft\", \"what\": \"jpeg\", \"threads\": %d, \"items_per_s\": %.1f}\n", threads,
              images / seconds);
}

/// A step of LeNet on one thread, fed from a folder of 28 x 28 JPEG files that another thread decodes, shuffles and
/// puts into batches ahead; and fed one and the same batch.
void prefetch() {
  const folder here;
  std::filesystem::create_directory(here.path / "noise");
  constexpr std::size_t images = 2048, batch = 64;
  const random_stream random(1, 0);
  for (std::size_t i = 0, n = 0; i < images; ++i) {
    data::image<1> x(shape(28, 28, 1));
    for (std::size_t k = 0; k < x.elements(); ++k) x.data()[k] = static_cast<std::uint8_t>(256 * random.uniform(n++));
    write_file(here.path / "noise" / (std::to_string(i) + ".jpg"), data::encode_jpeg(x));
  }
  const data::image_folder all(here.path.string());
  const auto batches = all.images<1>()
                           .shuffled(1)
                           .map([](const data::position& at, const data::image<1>& x, std::int32_t label) {
                             data::element_random random(1, at);
                             const auto part = data::random_crop<28, 28>(x, random, 2);
                             return std::pair(data::normalize(part, {0.5f}, {0.25f}), label);
                           })
                           .batches(batch)
                           .prefetch(4);
  graph g;
  auto pixels = placeholder<float, bench::lenet_images>(g, "images");
  auto labels = placeholder<std::int32_t, bench::label_dims>(g, "labels");
  const bench::network n = bench::lenet(g, pixels, labels);
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(n.loss, n.train), feed(pixels, labels));
  const auto x = bench::random_images<bench::lenet_images>(shape(batch, 28, 28, 1));
  const auto y = bench::some_labels(batch);
  std::vector<double> fed, synthetic;
  for (std::uint64_t epoch = 0; epoch < 10; ++epoch) {
    for (std::size_t i = 0; i < images / batch; ++i) {
      const auto start = bench::steady::now();
      step(x, y);
      synthetic.push_back(bench::seconds_since(start));
    }
    const auto epochs = batches.epoch(epoch);
    auto at = epochs.begin();
    for (bool more = true; more;) {
      const auto start = bench::steady::now();
      step(std::get<0>(*at), std::get<1>(*at));
      more = at.advance(deadline::never());
      fed.push_back(bench::seconds_since(start));
    }
  }
  for (const auto& [peer, each] : {std::pair("weft", &fed), std::pair("synthetic data", &synthetic)})
    std::printf("{\"peer\": \"%s\", \"what\": \"prefetch\", \"batch\": %zu, \"ms_median\": %.3f, \"ms_min\": %.3f}\n",
                peer, batch, 1e3 * bench::summarise(*each).median, 1e3 * bench::summarise(*each).least);
}

}  // namespace

int main(int argc, char** argv) {
  bench::arguments left(argc, argv);
  const bool everything = left.empty();
  if (left.take("csv") || everything) csv();
  if (left.take("tfrecord") || everything) tfrecord();
  if (left.take("shuffle") || everything) shuffle();
  const int threads = left.take("--threads", 0);
  if (left.take("jpeg") || everything)
    for (const int each : {1, 2})
      if (threads == 0 || threads == each) jpeg(each);
  if (left.take("prefetch") || everything) prefetch();
  left.finish("bench_data [csv] [tfrecord] [shuffle] [jpeg [--threads 1|2]] [prefetch]");
}
