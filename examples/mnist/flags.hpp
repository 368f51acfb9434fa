#pragma once

#include <boost/program_options.hpp>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <sstream>
#include <string>

#include <weft/error.hpp>
#include <weft/graph/device_spec.hpp>
#include <weft/train/progress.hpp>

/// The command line of TensorFlow's distributed MNIST programs, and what else a run can be told.
struct flags {
  std::string job_name, ps_hosts, worker_hosts, strategy, device, data_dir, json;
  std::int64_t task_index, batch_size, hidden_units, epochs, train_steps, threads, seed;
  double learning_rate;
  weft::progress_mode progress;

  weft::device_spec place() const { return device == "cuda" ? weft::device_spec(weft::cuda{0}) : weft::cpu{0}; }
  bool is_chief() const { return job_name.empty() || (job_name == "worker" && task_index == 0); }
};

namespace detail {

[[noreturn]] inline void refuse(const std::string& why) {
  throw weft::error(weft::error_code::invalid_argument, "", why);
}

inline void check_range(const char* flag, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most)
    refuse(std::string("--") + flag + " is " + std::to_string(value) + "; it must be from " + std::to_string(least) +
           " to " + std::to_string(most));
}

inline void check_flags(const flags& f) {
  check_range("batch_size", f.batch_size, 1, 60'000);
  check_range("hidden_units", f.hidden_units, 1, 1'000'000);
  check_range("epochs", f.epochs, 1, 1'000'000);
  check_range("train_steps", f.train_steps, 0, 1'000'000'000'000);
  check_range("threads", f.threads, 0, 1024);
  check_range("seed", f.seed, 0, INT64_MAX);
  if (!(f.learning_rate > 0 && f.learning_rate < 1e6)) refuse("--learning_rate must be a number above 0");

  if (f.device != "cpu" && f.device != "cuda")
    refuse("--device is \"" + f.device + "\"; cpu and cuda are the devices");
  if (f.strategy != "local" && f.strategy != "async" && f.strategy != "sync" && f.strategy != "allreduce")
    refuse("--strategy is \"" + f.strategy + "\"; local, async, sync and allreduce are the strategies");
  if (f.strategy == "local") {
    if (!f.job_name.empty() || !f.ps_hosts.empty() || !f.worker_hosts.empty())
      refuse(
          "--strategy local takes no cluster: leave out --job_name, --ps_hosts and --worker_hosts, or choose async, "
          "sync or allreduce");
    return;
  }
  const bool has_servers = f.strategy != "allreduce";
  if (f.job_name != "worker" && f.job_name != "ps")
    refuse("--strategy " + f.strategy + " needs --job_name worker" + (has_servers ? " or ps" : ""));
  if (!has_servers && (f.job_name == "ps" || !f.ps_hosts.empty()))
    refuse("--strategy allreduce has no parameter servers: leave out --ps_hosts and --job_name ps");
  if (has_servers && f.ps_hosts.empty()) refuse("--strategy " + f.strategy + " needs --ps_hosts host:port,...");
  if (f.worker_hosts.empty()) refuse("--strategy " + f.strategy + " needs --worker_hosts host:port,...");
  const std::string& hosts = f.job_name == "ps" ? f.ps_hosts : f.worker_hosts;
  std::int64_t tasks = 1;
  for (char c : hosts) tasks += c == ',';
  check_range("task_index", f.task_index, 0, tasks - 1);
}

}  // namespace detail

/// Reads the command line; nothing where --help was asked for and given. Throws weft::error for a wrong flag.
inline std::optional<flags> parse_flags(int argc, char** argv) {
  namespace po = boost::program_options;
  flags f;
  std::string progress;
  po::options_description known("Trains a 784-H-10 classifier on Fashion-MNIST, in one process or on a cluster", 110,
                                50);
  const auto text = [](std::string& to, const char* otherwise) { return po::value(&to)->default_value(otherwise); };
  const auto number = [](std::int64_t& to, std::int64_t otherwise) { return po::value(&to)->default_value(otherwise); };
  // clang-format off
  known.add_options()
    ("help", "print this and end")
    ("strategy", text(f.strategy, "local"), "local: one process; async, sync: parameter servers; allreduce: workers alone")
    ("job_name", text(f.job_name, ""), "what this process is in the cluster: ps or worker")
    ("task_index", number(f.task_index, 0), "which of its job's tasks it is, from 0; worker 0 reports")
    ("ps_hosts", text(f.ps_hosts, ""), "the parameter servers' addresses: host:port,host:port,...")
    ("worker_hosts", text(f.worker_hosts, ""), "the workers' addresses")
    ("device", text(f.device, "cpu"), "what computes: cpu, or cuda for the first GPU")
    ("data_dir", text(f.data_dir, "/usr/share/datasets/fashion-mnist"), "folder of the four IDX files, plain or .gz")
    ("batch_size", number(f.batch_size, 100), "images a step, on each worker")
    ("hidden_units", number(f.hidden_units, 100), "width of the hidden layer")
    ("learning_rate", po::value(&f.learning_rate)->default_value(0.5, "0.5"), "of gradient descent")
    ("epochs", number(f.epochs, 10), "times to see every image")
    ("train_steps", number(f.train_steps, 0), "steps of all workers together, in place of --epochs")
    ("threads", number(f.threads, 0), "threads of this process's arithmetic; 0 for one on each core")
    ("seed", number(f.seed, 1), "of the initial weights and the order of the images")
    ("progress", text(progress, "auto"), "auto, bar, lines or none")
    ("json", text(f.json, ""), "file for the result, as one JSON object");
  // clang-format on
  po::variables_map given;
  try {
    // No guessing of shortened flags: a typo is to be told, not to be interpreted.
    const auto style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    const auto parsed = po::command_line_parser(argc, argv).options(known).style(style).run();
    for (const auto& option : parsed.options)
      if (option.position_key >= 0) detail::refuse("\"" + option.value[0] + "\" is no flag (--help lists them)");
    po::store(parsed, given);
    po::notify(given);
  } catch (const po::error& e) {
    detail::refuse(std::string(e.what()) + " (--help lists the flags)");
  }
  if (given.count("help")) {
    std::ostringstream out;
    out << known;
    std::fputs(out.str().c_str(), stdout);
    return std::nullopt;
  }
  f.progress = weft::parse_progress_mode(progress);
  detail::check_flags(f);
  return f;
}
