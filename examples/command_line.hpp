#pragma once

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstdint>
#include <cstdio>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <weft/error.hpp>
#include <weft/graph/device_spec.hpp>
#include <weft/train/progress.hpp>

namespace po = boost::program_options;

[[noreturn]] inline void refuse(const std::string& why) {
  throw weft::error(weft::error_code::invalid_argument, "", why);
}

inline void check_range(const char* flag, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most)
    refuse(std::string("--") + flag + " is " + std::to_string(value) + "; it must be from " + std::to_string(least) +
           " to " + std::to_string(most));
}

/// The flags of a program. What a flag sets has its value already where the flag is not given. A wrong flag throws
/// weft::error.
class command_line {
 public:
  explicit command_line(const char* purpose) : known_(purpose, 110, 50) {
    known_.add_options()("help", "print this and end");
  }

  void add(const char* flag, std::string& to, const char* meaning) {
    known_.add_options()(flag, po::value(&to)->default_value(to), meaning);
  }
  void add(const char* flag, std::string& to, const std::vector<std::string>& words, const char* meaning) {
    const auto check = [=](const std::string& given) {
      if (std::find(words.begin(), words.end(), given) != words.end()) return;
      std::string choice;
      for (const std::string& word : words) choice += (choice.empty() ? "" : ", ") + word;
      refuse(std::string("--") + flag + " is \"" + given + "\"; it must be one of " + choice);
    };
    known_.add_options()(flag, po::value(&to)->default_value(to)->notifier(check), meaning);
  }
  void add(const char* flag, std::int64_t& to, std::int64_t least, std::int64_t most, const char* meaning) {
    const auto check = [=](std::int64_t value) { check_range(flag, value, least, most); };
    known_.add_options()(flag, po::value(&to)->default_value(to)->notifier(check), meaning);
  }
  /// Of a number above 0.
  void add(const char* flag, double& to, const char* meaning) {
    const auto check = [=](double value) {
      constexpr double limit = 1e6;
      if (value > 0 && value < limit) return;
      std::ostringstream why;
      why << "--" << flag << " is " << value << "; it must be above 0 and below " << limit;
      refuse(why.str());
    };
    std::ostringstream shown;
    shown << to;
    known_.add_options()(flag, po::value(&to)->default_value(to, shown.str())->notifier(check), meaning);
  }

  /// Of how progress is shown: "auto" unless given.
  void add(const char* flag, weft::progress_mode& to, const char* meaning) {
    const auto read = [&to](const std::string& word) { to = weft::parse_progress_mode(word); };
    known_.add_options()(flag, po::value<std::string>()->default_value("auto")->notifier(read), meaning);
  }

  /// Returns false where --help was asked for and given.
  bool parse(int argc, char** argv) const {
    po::variables_map given;
    try {
      // No guessing of shortened flags: a typo is to be told, not to be interpreted.
      const auto style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
      const auto parsed = po::command_line_parser(argc, argv).options(known_).style(style).run();
      for (const auto& option : parsed.options)
        if (option.position_key >= 0) refuse("\"" + option.value[0] + "\" is no flag (--help lists them)");
      po::store(parsed, given);
      if (given.count("help") == 0) po::notify(given);
    } catch (const po::error& e) {
      refuse(std::string(e.what()) + " (--help lists the flags)");
    }
    if (given.count("help") == 0) return true;
    std::ostringstream out;
    out << known_;
    std::fputs(out.str().c_str(), stdout);
    return false;
  }

 private:
  po::options_description known_;
};

/// More threads than that have never made anything faster.
inline std::int64_t max_threads() { return std::max<std::int64_t>(4 * std::thread::hardware_concurrency(), 16); }

/// What every example can be told.
struct training_flags {
  std::string device = "cpu", data_dir = "/usr/share/datasets/fashion-mnist", json = "";
  std::int64_t batch_size = 100, epochs = 10, threads = 0, seed = 1;
  double learning_rate = 0.1;
  weft::progress_mode progress = weft::progress_mode::automatic;

  /// `rate`: what the learning rate is of.
  void add_to(command_line& line, const char* rate) {
    line.add("device", device, {"cpu", "cuda"}, "what computes: cpu, or cuda for the first GPU");
    line.add("data_dir", data_dir, "folder of the four IDX files, plain or .gz");
    line.add("batch_size", batch_size, 1, 60'000, "images a step, in each process");
    line.add("learning_rate", learning_rate, rate);
    line.add("epochs", epochs, 1, 1'000'000, "times to see every image");
    line.add("threads", threads, 0, max_threads(), "threads of its arithmetic; 0 for one on each core");
    line.add("seed", seed, 0, INT64_MAX, "of the initial weights and the order of the images");
    line.add("progress", progress, "auto, bar, lines or none");
    line.add("json", json, "file for the result, as one JSON object");
  }

  weft::device_spec place() const { return device == "cuda" ? weft::device_spec(weft::cuda{0}) : weft::cpu{0}; }
};
