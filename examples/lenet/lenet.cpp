// LeNet on Fashion-MNIST: two convolutions with max pooling and two dense layers, TensorFlow's MNIST tutorial network
// in typed C++. Ends with an error where the test accuracy is below 0.91. `--help` lists the flags.
#include <boost/program_options.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <sstream>
#include <string>

#include <weft/data/fashion_mnist.hpp>
#include <weft/train/progress.hpp>
#include <weft/weft.hpp>

using namespace weft;

namespace {

constexpr double least_accuracy = 0.91;

struct flags {
  std::string device, data_dir, json;
  std::int64_t batch_size, epochs, threads, seed;
  double learning_rate;
  progress_mode progress;
};

[[noreturn]] void refuse(const std::string& why) { throw error(error_code::invalid_argument, "", why); }

void check_range(const char* flag, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most)
    refuse(std::string("--") + flag + " is " + std::to_string(value) + "; it must be from " + std::to_string(least) +
           " to " + std::to_string(most));
}

/// Reads the command line; nothing where --help was asked for and given.
std::optional<flags> parse_flags(int argc, char** argv) {
  namespace po = boost::program_options;
  flags f;
  std::string progress;
  po::options_description known("Trains LeNet on Fashion-MNIST", 110, 50);
  const auto text = [](std::string& to, const char* otherwise) { return po::value(&to)->default_value(otherwise); };
  const auto number = [](std::int64_t& to, std::int64_t otherwise) { return po::value(&to)->default_value(otherwise); };
  // clang-format off
  known.add_options()
    ("help", "print this and end")
    ("device", text(f.device, "cpu"), "what computes: cpu, or cuda for the first GPU")
    ("data_dir", text(f.data_dir, "/usr/share/datasets/fashion-mnist"), "folder of the four IDX files, plain or .gz")
    ("batch_size", number(f.batch_size, 64), "images a step")
    ("learning_rate", po::value(&f.learning_rate)->default_value(0.02, "0.02"), "of the first step; it falls to a tenth")
    ("epochs", number(f.epochs, 4), "times to see every image")
    ("threads", number(f.threads, 0), "threads of the arithmetic; 0 for one on each core")
    ("seed", number(f.seed, 1), "of the initial weights and the order of the images")
    ("progress", text(progress, "auto"), "auto, bar, lines or none")
    ("json", text(f.json, ""), "file for the result, as one JSON object");
  // clang-format on
  po::variables_map given;
  try {
    const auto style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    const auto parsed = po::command_line_parser(argc, argv).options(known).style(style).run();
    for (const auto& option : parsed.options)
      if (option.position_key >= 0) refuse("\"" + option.value[0] + "\" is no flag (--help lists them)");
    po::store(parsed, given);
    po::notify(given);
  } catch (const po::error& e) {
    refuse(std::string(e.what()) + " (--help lists the flags)");
  }
  if (given.count("help")) {
    std::ostringstream out;
    out << known;
    std::fputs(out.str().c_str(), stdout);
    return std::nullopt;
  }
  f.progress = parse_progress_mode(progress);
  if (f.device != "cpu" && f.device != "cuda") refuse("--device is \"" + f.device + "\"; cpu and cuda are the devices");
  check_range("batch_size", f.batch_size, 1, 60'000);
  check_range("epochs", f.epochs, 1, 1'000'000);
  check_range("threads", f.threads, 0, 1024);
  check_range("seed", f.seed, 0, INT64_MAX);
  if (!(f.learning_rate > 0 && f.learning_rate < 1e6)) refuse("--learning_rate must be a number above 0");
  return f;
}

/// Extents are of images, height and width, and channels; those of every layer follow and are checked when this
/// compiles.
struct lenet {
  graph g;
  node<float, dims<dyn<"batch">, 784>> images = placeholder<float, dims<dyn<"batch">, 784>>(g, "images");
  node<std::int32_t, dims<dyn<"batch">>> labels = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "labels");
  node<float, dims<dyn<"batch">, 10>> logits;
  node<float> loss, accuracy;
  effect train, train_slowly;

  explicit lenet(const flags& f)
      : g(static_cast<std::uint64_t>(f.seed)),
        logits(layers()),
        loss(mean(softmax_cross_entropy(logits, labels))),
        accuracy(mean(cast<float>(argmax<1>(logits) == labels))),
        train(momentum{.learning_rate = f.learning_rate, .momentum = 0.9}.minimize(loss)),
        train_slowly(momentum{.learning_rate = f.learning_rate / 10, .momentum = 0.9}.minimize(loss)) {}

 private:
  node<float, dims<dyn<"batch">, 10>> layers() {
    auto w1 = variable<float, dims<5, 5, 1, 32>>(g, "conv1/weights", init::he_normal{});
    auto b1 = variable<float, dims<32>>(g, "conv1/bias", init::zeros{});
    auto w2 = variable<float, dims<5, 5, 32, 64>>(g, "conv2/weights", init::he_normal{});
    auto b2 = variable<float, dims<64>>(g, "conv2/bias", init::zeros{});
    auto w3 = variable<float, dims<3136, 1024>>(g, "dense/weights", init::he_normal{});
    auto b3 = variable<float, dims<1024>>(g, "dense/bias", init::zeros{});
    auto w4 = variable<float, dims<1024, 10>>(g, "softmax/weights", init::glorot_normal{});
    auto b4 = variable<float, dims<10>>(g, "softmax/bias", init::zeros{});

    auto pixels = reshape<dims<dyn<"batch">, 28, 28, 1>>(images);
    auto halved = max_pool2d<2>(relu(conv2d(pixels, w1) + b1));     // [batch, 14, 14, 32]
    auto quartered = max_pool2d<2>(relu(conv2d(halved, w2) + b2));  // [batch, 7, 7, 64]
    auto hidden = relu(matmul(reshape<dims<dyn<"batch">, 3136>>(quartered), w3) + b3);
    return let(matmul(hidden, w4) + b4);
  }
};

struct result {
  double test_accuracy = 0, final_cost = 0, seconds = 0, images_per_s = 0;
};

double test_accuracy(session& s, const lenet& model, const data::dataset<784>& images) {
  auto step = s.prepare(fetch(model.accuracy), feed(model.images, model.labels));
  double right = 0;
  for (const auto& [x, y] : images.batches(200)) right += step(x, y) * static_cast<double>(y.elements());
  return right / static_cast<double>(images.size());
}

result run(const flags& f) {
  const auto images = data::fashion_mnist("train", f.data_dir);
  const auto test_images = data::fashion_mnist("test", f.data_dir);
  lenet model(f);
  const device_spec place = f.device == "cuda" ? device_spec(cuda{0}) : cpu{0};
  session s{model.g, {.threads = static_cast<int>(f.threads), .device = place}};
  auto quick = s.prepare(fetch(model.loss, model.train), feed(model.images, model.labels));
  auto slow = s.prepare(fetch(model.loss, model.train_slowly), feed(model.images, model.labels));

  const auto batch = static_cast<std::size_t>(f.batch_size);
  const auto per_epoch = static_cast<std::int64_t>(images.batch_count(batch)), steps = f.epochs * per_epoch;
  progress shown({.steps = steps, .steps_per_epoch = per_epoch, .items_per_step = f.batch_size, .mode = f.progress});
  result r;
  const auto start = std::chrono::steady_clock::now();
  std::int64_t made = 0;
  for (std::int64_t epoch = 0; epoch < f.epochs; ++epoch)
    for (const auto& [x, y] :
         images.shuffled(static_cast<std::uint64_t>(f.seed), static_cast<std::uint64_t>(epoch)).batches(batch)) {
      // The last third at a tenth of the rate: what is left of the way is short.
      r.final_cost = std::get<0>(3 * made < 2 * steps ? quick(x, y) : slow(x, y));
      shown.update(++made, r.final_cost);
    }
  shown.finish();
  r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  r.images_per_s = static_cast<double>(f.epochs) * static_cast<double>(images.size()) / r.seconds;
  r.test_accuracy = test_accuracy(s, model, test_images);
  return r;
}

std::FILE* open_json(const std::string& path) {
  std::FILE* out = std::fopen(path.c_str(), "w");
  if (!out) throw error(error_code::unavailable, "", path + " cannot be written");
  return out;
}

}  // namespace

int main(int argc, char** argv) try {
  const auto f = parse_flags(argc, argv);
  if (!f) return 0;
  std::FILE* json = f->json.empty() ? nullptr : open_json(f->json);  // before the run rather than after it
  const result r = run(*f);
  std::printf("test accuracy %.4f, final cost %.4f\n%.0f images/s, %.1f s of training\n", r.test_accuracy, r.final_cost,
              r.images_per_s, r.seconds);
  if (json) {
    std::fprintf(json,
                 "{\"model\": \"lenet\", \"test_accuracy\": %.4f, \"final_cost\": %.6g, \"seconds\": %.3f, "
                 "\"images_per_s\": %.1f}\n",
                 r.test_accuracy, r.final_cost, r.seconds, r.images_per_s);
    std::fclose(json);
  }
  if (r.test_accuracy >= least_accuracy) return 0;
  std::fprintf(stderr, "error: the test accuracy is %.4f, below %.2f\n", r.test_accuracy, least_accuracy);
  return 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}
