// SPDX-License-Identifier: BSL-1.0
#include "command_line.hpp"

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstddef>
#include <cstdio>
#include <sstream>
#include <thread>
#include <utility>

#include <weft/error.hpp>
#include <weft/train/progress.hpp>

#include "training_flags.hpp"

namespace po = boost::program_options;

namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}
void check_word(const char* flag, const std::string& given, const std::vector<std::string>& words) {
  // A word that ends with :N takes a whole number there.
  const std::size_t number = given.find(':') + 1;
  const bool is_number = number > 0 && number < given.size() && given.size() - number < 6 &&
                         given.find_first_not_of("0123456789", number) == std::string::npos;
  const std::string word = is_number ? given.substr(0, number) + "N" : given;
  if (std::find(words.begin(), words.end(), word) != words.end() && (is_number || word.find(':') == word.npos)) return;
  refuse(std::string("--") + flag + " is \"" + given + "\"; it must be one of " + joined(words));
}
void check_number(const char* flag, double value, double above, double below) {
  if (value > above && value < below) return;
  std::ostringstream why;
  why << "--" << flag << " is " << value << "; it must be above " << above << " and below " << below;
  refuse(why.str());
}

}  // namespace

void refuse(const std::string& why) { throw weft::error(weft::error_code::invalid_argument, "", why); }

void check_range(const char* flag, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most)
    refuse(std::string("--") + flag + " is " + std::to_string(value) + "; it must be from " + std::to_string(least) +
           " to " + std::to_string(most));
}

struct command_line::options {
  static constexpr unsigned width = 110, least_of_meanings = 50;

  const char* purpose;
  std::vector<std::pair<std::string, po::options_description>> groups{};
  std::size_t current = 0;

  void add(const char* flag, const po::value_semantic* value, const char* meaning) {
    if (groups.empty()) heading("Flags");
    groups[current].second.add_options()(flag, value, meaning);
  }
  void heading(const std::string& text) {
    for (current = 0; current < groups.size() && groups[current].first != text;) ++current;
    if (current == groups.size()) groups.emplace_back(text, po::options_description(text, width, least_of_meanings));
  }
};

command_line::command_line(const char* purpose) : options_(new options{purpose}) {}
command_line::~command_line() = default;

void command_line::heading(const std::string& text) { options_->heading(text); }

void command_line::add(const char* flag, std::string& to, const char* meaning) {
  options_->add(flag, po::value(&to)->default_value(to), meaning);
}
void command_line::add(const char* flag, std::string& to, const std::vector<std::string>& words, const char* meaning) {
  const auto check = [=](const std::string& given) { check_word(flag, given, words); };
  options_->add(flag, po::value(&to)->default_value(to)->notifier(check), meaning);
}
void command_line::add(const char* flag, std::optional<std::string>& to, const std::vector<std::string>& words,
                       const char* meaning) {
  const auto take = [=, &to](const std::string& given) {
    check_word(flag, given, words);
    to = given;
  };
  options_->add(flag, po::value<std::string>()->notifier(take), meaning);
}
void command_line::add(const char* flag, std::string& to, void (*check)(const std::string&), const char* meaning) {
  options_->add(flag, po::value(&to)->default_value(to)->notifier(check), meaning);
}
void command_line::add(const char* flag, std::int64_t& to, std::int64_t least, std::int64_t most, const char* meaning) {
  const auto check = [=](std::int64_t value) { check_range(flag, value, least, most); };
  options_->add(flag, po::value(&to)->default_value(to)->notifier(check), meaning);
}
void command_line::add(const char* flag, std::optional<std::int64_t>& to, std::int64_t least, std::int64_t most,
                       const char* meaning) {
  const auto take = [=, &to](std::int64_t value) {
    check_range(flag, value, least, most);
    to = value;
  };
  options_->add(flag, po::value<std::int64_t>()->notifier(take), meaning);
}
void command_line::add(const char* flag, double& to, const char* meaning) {
  std::ostringstream shown;
  shown << to;
  const auto check = [=](double value) { check_number(flag, value, 0, 1e6); };
  options_->add(flag, po::value(&to)->default_value(to, shown.str())->notifier(check), meaning);
}
void command_line::add(const char* flag, std::optional<double>& to, double below, const char* meaning) {
  const auto take = [=, &to](double value) {
    check_number(flag, value, 0, below);
    to = value;
  };
  options_->add(flag, po::value<double>()->notifier(take), meaning);
}
void command_line::add_from_0(const char* flag, double& to, double below, const char* meaning) {
  std::ostringstream shown;
  shown << to;
  const auto check = [=](double value) {
    if (value != 0) check_number(flag, value, 0, below);
  };
  options_->add(flag, po::value(&to)->default_value(to, shown.str())->notifier(check), meaning);
}
void command_line::add(const char* flag, bool& to, const char* meaning) {
  options_->add(flag, po::bool_switch(&to), meaning);
}
void command_line::add(const char* flag, weft::progress_mode& to, const char* meaning) {
  const auto read = [&to](const std::string& word) { to = weft::parse_progress_mode(word); };
  options_->add(flag, po::value<std::string>()->default_value("auto")->notifier(read), meaning);
}

bool command_line::parse(int argc, char** argv) const {
  po::options_description known(options_->purpose, options::width, options::least_of_meanings);
  known.add_options()("help", "print this help and exit");
  for (const auto& [text, group] : options_->groups) known.add(group);
  po::variables_map given;
  try {
    // By default, Boost accepts unique prefixes of flags, so that a mistyped flag could set another one.
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

std::int64_t max_threads() { return std::max<std::int64_t>(4 * std::thread::hardware_concurrency(), 16); }

void check_accuracy(double accuracy, double to_reach) {
  if (accuracy >= to_reach) return;
  char why[80];
  std::snprintf(why, sizeof why, "the test accuracy is %.4f, below %g", accuracy, to_reach);
  refuse(why);
}

void training_flags::add_to(command_line& line) {
  line.heading("Training");
  line.add("optimizer", optimizer, optimizer_names(), ("optimizer: " + joined(optimizer_names())).c_str());
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
  line.add("checkpoint_dir", checkpoint_dir, "folder for checkpoints: one per minute, and one at the end or at Ctrl-C");
  line.add("checkpoint_steps", checkpoint_steps, 0, INT64_MAX,
           "steps between two checkpoints, instead of one per minute");
  line.add("resume", resume, "continue from the latest checkpoint, if there is one");
  line.heading("Output");
  line.add("progress", progress, "auto, bar, lines or none");
  line.add("log_dir", log_dir, "folder for event files, for tensorboard --logdir");
  line.add("json", json, "file for the result, one JSON object");
  line.add("least_accuracy", least_accuracy, 1, "fail if the test accuracy is below this");
}
