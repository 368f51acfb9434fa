// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "../cluster_flags.hpp"

struct flags : cluster_flags {
  std::string input = "feed";
  std::int64_t hidden_units = 100, input_threads = 1;
};

/// The flags of the usual run, which reaches what is stated.
inline flags usual_flags() {
  flags f;
  f.epochs = 20, f.adam_rate = 0.004, f.schedule = "cosine";
  return f;
}

/// Reads the command line; nothing where --help was asked for and given. Throws weft::error for a wrong flag.
inline std::optional<flags> parse_flags(int argc, char** argv) {
  flags f = usual_flags();
  command_line line("Trains a 784-H-10 classifier on Fashion-MNIST, in one process or on a cluster");
  f.add_to(line);
  line.heading("Training");
  line.add("hidden_units", f.hidden_units, 1, 1'000'000, "width of the hidden layer");
  line.heading("Data");
  line.add("input", f.input, {"feed", "queue"},
           "feed: pass images with each call; queue: dequeue them in the graph, filled by threads");
  line.add("input_threads", f.input_threads, 1, max_threads(),
           "threads that fill the queue; with more than one, the order of batches is not fixed");
  if (!line.parse(argc, argv)) return {};
  if (f.input != "queue" && f.input_threads > 1) refuse("--input_threads requires --input queue");
  if (f.input == "queue" && f.survives_losses())
    refuse("--on_loss selects batches by step number, but a queue has its own order: leave out --input queue");
  f.resolve();
  return f;
}
