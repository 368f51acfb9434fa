// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <weft/error.hpp>
#include <weft/graph/device_spec.hpp>
#include <weft/train/progress.hpp>

#include "checkpoints.hpp"
#include "optimizers.hpp"

namespace po = boost::program_options;

[[noreturn]] inline void refuse(const std::string& why) {
  throw weft::error(weft::error_code::invalid_argument, "", why);
}

inline void check_range(const char* flag, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most)
    refuse(std::string("--") + flag + " is " + std::to_string(value) + "; it must be from " + std::to_string(least) +
           " to " + std::to_string(most));
}

/// The flags of a program, under headings. The variable that a flag sets has its value already where the flag is not
/// given. A wrong flag throws weft::error.
class command_line {
 public:
  explicit command_line(const char* purpose) : purpose_(purpose) {}

  /// Flags that are added from here on belong under it, beside those that are there.
  void heading(const std::string& text) {
    for (current_ = 0; current_ < groups_.size() && groups_[current_].first != text;) ++current_;
    if (current_ == groups_.size()) groups_.emplace_back(text, po::options_description(text, width, least_of_meanings));
  }

  void add(const char* flag, std::string& to, const char* meaning) {
    flags()(flag, po::value(&to)->default_value(to), meaning);
  }
  void add(const char* flag, std::string& to, const std::vector<std::string>& words, const char* meaning) {
    const auto check = [=](const std::string& given) { check_word(flag, given, words); };
    flags()(flag, po::value(&to)->default_value(to)->notifier(check), meaning);
  }
  /// Adds a flag for one of some words that is nothing unless given.
  void add(const char* flag, std::optional<std::string>& to, const std::vector<std::string>& words,
           const char* meaning) {
    const auto take = [=, &to](const std::string& given) {
      check_word(flag, given, words);
      to = given;
    };
    flags()(flag, po::value<std::string>()->notifier(take), meaning);
  }
  /// Adds a flag for text that `check` throws at if it is wrong.
  void add(const char* flag, std::string& to, void (*check)(const std::string&), const char* meaning) {
    flags()(flag, po::value(&to)->default_value(to)->notifier(check), meaning);
  }
  void add(const char* flag, std::int64_t& to, std::int64_t least, std::int64_t most, const char* meaning) {
    const auto check = [=](std::int64_t value) { check_range(flag, value, least, most); };
    flags()(flag, po::value(&to)->default_value(to)->notifier(check), meaning);
  }
  /// Adds a flag for a whole number that is nothing unless given.
  void add(const char* flag, std::optional<std::int64_t>& to, std::int64_t least, std::int64_t most,
           const char* meaning) {
    const auto take = [=, &to](std::int64_t value) {
      check_range(flag, value, least, most);
      to = value;
    };
    flags()(flag, po::value<std::int64_t>()->notifier(take), meaning);
  }
  /// Adds a flag for a number above 0.
  void add(const char* flag, double& to, const char* meaning) {
    std::ostringstream shown;
    shown << to;
    const auto check = [=](double value) { check_number(flag, value, 0, 1e6); };
    flags()(flag, po::value(&to)->default_value(to, shown.str())->notifier(check), meaning);
  }
  /// Adds a flag for a number above 0 that is nothing unless given.
  void add(const char* flag, std::optional<double>& to, double below, const char* meaning) {
    const auto take = [=, &to](double value) {
      check_number(flag, value, 0, below);
      to = value;
    };
    flags()(flag, po::value<double>()->notifier(take), meaning);
  }
  /// Adds a flag for a number that may be 0.
  void add_from_0(const char* flag, double& to, double below, const char* meaning) {
    std::ostringstream shown;
    shown << to;
    const auto check = [=](double value) {
      if (value != 0) check_number(flag, value, 0, below);
    };
    flags()(flag, po::value(&to)->default_value(to, shown.str())->notifier(check), meaning);
  }
  /// Adds a flag for what is, or is not.
  void add(const char* flag, bool& to, const char* meaning) { flags()(flag, po::bool_switch(&to), meaning); }

  /// Adds the flag for how progress is shown: "auto" unless given.
  void add(const char* flag, weft::progress_mode& to, const char* meaning) {
    const auto read = [&to](const std::string& word) { to = weft::parse_progress_mode(word); };
    flags()(flag, po::value<std::string>()->default_value("auto")->notifier(read), meaning);
  }

  /// Returns false where --help was asked for and given.
  bool parse(int argc, char** argv) const {
    po::options_description known(purpose_, width, least_of_meanings);
    known.add_options()("help", "print this help and exit");
    for (const auto& [text, group] : groups_) known.add(group);
    po::variables_map given;
    try {
      // No guessing of shortened flags: a typo is to be told, not to be interpreted.
      const auto style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
      const auto parsed = po::command_line_parser(argc, argv).options(known).style(style).run();
      for (const auto& option : parsed.options)
        if (option.position_key >= 0) refuse("\"" + option.value[0] + "\" is not a flag (--help lists the flags)");
      po::store(parsed, given);
      if (given.count("help") == 0) po::notify(given);
    } catch (const po::error& e) {
      refuse(std::string(e.what()) + " (--help lists the flags)");
    }
    if (given.count("help") == 0) return true;
    std::ostringstream out;
    out << known;
    std::fputs(out.str().c_str(), stdout);
    return false;
  }

 private:
  static void check_word(const char* flag, const std::string& given, const std::vector<std::string>& words) {
    // A word that ends with :N takes a whole number there.
    const std::size_t number = given.find(':') + 1;
    const bool is_number = number > 0 && number < given.size() && given.size() - number < 6 &&
                           given.find_first_not_of("0123456789", number) == std::string::npos;
    const std::string word = is_number ? given.substr(0, number) + "N" : given;
    if (std::find(words.begin(), words.end(), word) != words.end() && (is_number || word.find(':') == word.npos))
      return;
    std::string choice;
    for (const std::string& word : words) choice += (choice.empty() ? "" : ", ") + word;
    refuse(std::string("--") + flag + " is \"" + given + "\"; it must be one of " + choice);
  }
  static void check_number(const char* flag, double value, double above, double below) {
    if (value > above && value < below) return;
    std::ostringstream why;
    why << "--" << flag << " is " << value << "; it must be above " << above << " and below " << below;
    refuse(why.str());
  }

  po::options_description_easy_init flags() {
    if (groups_.empty()) heading("Flags");
    return groups_[current_].second.add_options();
  }

  static constexpr unsigned width = 110, least_of_meanings = 50;
  const char* purpose_;
  std::vector<std::pair<std::string, po::options_description>> groups_;
  std::size_t current_ = 0;
};

/// More threads than that have never made anything faster.
inline std::int64_t max_threads() { return std::max<std::int64_t>(4 * std::thread::hardware_concurrency(), 16); }

/// The flags of every example that learns from images.
struct training_flags {
  std::string device = "cpu", data_dir = "/usr/share/datasets/fashion-mnist", json = "";
  std::string optimizer = "adam", schedule = "constant", checkpoint_dir = "", log_dir = "";
  std::int64_t batch_size = 100, epochs = 10, train_steps = 0, threads = 0, seed = 1, checkpoint_steps = 0;
  std::optional<double> learning_rate, least_accuracy;
  double adam_rate = 0;  // what the program's own recipe takes; 0: what adam has
  bool resume = false;
  weft::progress_mode progress = weft::progress_mode::automatic;

  void add_to(command_line& line) {
    line.heading("Training");
    line.add("optimizer", optimizer, optimizer_names(), optimizers_help_.c_str());
    line.add("learning_rate", learning_rate, 1e6, "learning rate; default: the optimizer's own");
    line.add("schedule", schedule, check_schedule,
             "schedule of the rate: constant, cosine, warmup:500+exponential:0.96/1000, ...; a wrong one lists all");
    line.add("epochs", epochs, 1, 1'000'000, "passes over all images");
    line.add("train_steps", train_steps, 0, 1'000'000'000'000, "steps instead of --epochs, in total over all workers");
    line.add("seed", seed, 0, INT64_MAX, "seed of the initial weights and the order of the images");
    line.add("device", device, {"cpu", "cuda"}, "device: cpu, or cuda for the first GPU");
    line.add("threads", threads, 0, max_threads(), "threads for computation; 0: one per core");
    line.heading("Data");
    line.add("data_dir", data_dir, "folder with the four IDX files, plain or .gz");
    line.add("batch_size", batch_size, 1, 60'000, "images per step in each process");
    line.heading("Checkpoints");
    line.add("checkpoint_dir", checkpoint_dir,
             "folder for checkpoints: one per minute, and one at the end or at Ctrl-C");
    line.add("checkpoint_steps", checkpoint_steps, 0, INT64_MAX,
             "steps between two checkpoints, instead of one per minute");
    line.add("resume", resume, "continue from the latest checkpoint, if there is one");
    line.heading("Output");
    line.add("progress", progress, "auto, bar, lines or none");
    line.add("log_dir", log_dir, "folder for event files, for tensorboard --logdir");
    line.add("json", json, "file for the result, one JSON object");
    line.add("least_accuracy", least_accuracy, 1, "fail if the test accuracy is below this");
  }

  weft::device_spec place() const { return device == "cuda" ? weft::device_spec(weft::cuda{0}) : weft::cpu{0}; }
  double rate() const {
    if (learning_rate) return *learning_rate;
    return optimizer == "adam" && adam_rate > 0 ? adam_rate : usual_rate(optimizer);
  }
  training_recipe recipe(std::int64_t steps, std::int64_t steps_per_epoch) const {
    return {.optimizer = optimizer,
            .rate = rate(),
            .schedule = schedule,
            .steps = steps,
            .steps_per_epoch = steps_per_epoch};
  }
  weft::every checkpoints_every() const {
    return checkpoint_steps > 0 ? weft::every{.steps = checkpoint_steps} : weft::every{.time = std::chrono::minutes(1)};
  }

  /// The test accuracy that must be reached: as asked for, or as stated for the usual run, which these flags then are.
  double accuracy_to_reach(const training_flags& usual, double stated) const {
    const auto recipe = [](const training_flags& f) {
      return std::tuple(f.data_dir, f.optimizer, f.schedule, f.rate(), f.batch_size, f.epochs, f.train_steps);
    };
    return least_accuracy ? *least_accuracy : recipe(*this) == recipe(usual) ? stated : 0;
  }

  /// A checkpoint of other settings is another run's.
  run_settings settings(const char* program) const {
    return {{"program", program},
            {"optimizer", optimizer},
            {"schedule", schedule},
            {"batch_size", std::to_string(batch_size)},
            {"seed", std::to_string(seed)}};
  }

 private:
  static std::string choices(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
    return text;
  }
  std::string optimizers_help_ = "optimizer: " + choices(optimizer_names());
};

/// Throws where it is below what is to be reached, when all else is done.
inline void check_accuracy(double accuracy, double to_reach) {
  if (accuracy >= to_reach) return;
  char why[80];
  std::snprintf(why, sizeof why, "the test accuracy is %.4f, below %g", accuracy, to_reach);
  refuse(why);
}
