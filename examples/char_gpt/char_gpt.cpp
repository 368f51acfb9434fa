// SPDX-License-Identifier: BSL-1.0
// A small GPT learns to write definitions, character by character, from the 82,000 nouns of WordNet (Debian's package
// wordnet-base). It prints its perplexity for definitions that it has not seen, and writes some of its own. The usual
// run reaches a perplexity of 5 per character, 5.6 with --cell lstm and 4.7 with gru, or ends with an error. `--help`
// lists the flags.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <weft/checkpoint/weights.hpp>

#include "../command_line.hpp"
#include "../result_file.hpp"
#include "model.hpp"

using namespace weft;

namespace {

constexpr const char* nouns = "/usr/share/wordnet/data.noun";

struct flags {
  std::string cell = "gpt", text = nouns, checkpoint = "", prompt = "";
  std::int64_t steps = 3000, batch_size = 8, characters = 400, threads = 0, seed = 1;
  std::optional<double> learning_rate{};
  double temperature = 0.7;

  double rate() const { return learning_rate ? *learning_rate : cell == "gpt" ? 0.002 : 0.006; }
  double stated_perplexity() const { return cell == "gpt" ? 5 : cell == "gru" ? 4.7 : 5.6; }
};

/// Returns "dwarf: a plant or animal that is atypically small" for a line of WordNet's data; an empty text for a line
/// of its licence. Such a line lists the words of an entry, then relations, then a definition and examples.
std::string definition(const std::string& line) {
  const std::size_t bar = line.find(" | ");
  if (line.starts_with(' ') || bar == line.npos || line.size() < 20) return {};
  std::string word = line.substr(17, line.find(' ', 17) - 17), meaning = line.substr(bar + 3);
  std::replace(word.begin(), word.end(), '_', ' ');
  meaning.erase(std::min(meaning.size(), meaning.find("; \"")));
  meaning.erase(meaning.find_last_not_of(' ') + 1);
  return word + ": " + meaning;
}

struct split_text {
  std::vector<std::int32_t> training, held_out;
};

/// Reads a text. Each twentieth line is held out. Characters outside of ASCII become question marks.
split_text read(const std::string& path) {
  std::ifstream in(path);
  if (!in) refuse(path + " cannot be read: install wordnet-base, or name a text by --text");
  split_text all;
  std::size_t lines = 0;
  const bool is_wordnet = std::filesystem::path(path).filename() == "data.noun";
  for (std::string line; std::getline(in, line);) {
    if (is_wordnet && (line = definition(line)).empty()) continue;
    std::vector<std::int32_t>& to = ++lines % 20 == 0 ? all.held_out : all.training;
    for (const char c : line + "\n") to.push_back(static_cast<unsigned char>(c) < characters ? c : '?');
  }
  if (all.held_out.size() < 2 * window || all.training.size() < 2 * window)
    refuse(path + " has too little text: a model needs 20 lines and some thousand characters");
  return all;
}

/// A batch of windows of a text, and the same moved by one character.
struct windows {
  tensor<std::int32_t, text_dims> text, next;

  explicit windows(std::int64_t count) : text(shape(count, window)), next(shape(count, window)) {}
  void set(std::int64_t row, const std::vector<std::int32_t>& from, std::size_t at) {
    std::copy_n(from.data() + at, window, text.data() + row * window);
    std::copy_n(from.data() + at + 1, window, next.data() + row * window);
  }
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void train(session& s, const text_model& model, const std::vector<std::int32_t>& text, const flags& f) {
  auto step = s.prepare(fetch(model.loss, model.train), feed(model.text, model.next));
  std::mt19937_64 random(static_cast<std::uint64_t>(f.seed));
  windows batch(f.batch_size);
  const auto start = std::chrono::steady_clock::now();
  double cost = 0;
  for (std::int64_t i = 1, last = 0; i <= f.steps; ++i) {
    for (std::int64_t row = 0; row < f.batch_size; ++row) batch.set(row, text, random() % (text.size() - window));
    cost += static_cast<double>(std::get<0>(step(batch.text, batch.next)));
    if (i % 250 != 0 && i != f.steps) continue;
    cost /= static_cast<double>(i - last), last = i;
    check_cost(cost, i, f.rate());
    std::printf("step %lld: perplexity %.2f\n", static_cast<long long>(i), std::exp(cost));
    std::fflush(stdout);
    cost = 0;
  }
  const double seconds = seconds_since(start);
  std::printf("%.0f characters/s, %.1f s of training\n", static_cast<double>(f.steps * f.batch_size * window) / seconds,
              seconds);
}

/// exp(-log p) of the held-out characters, on average, in at most 1,024 windows.
double perplexity(session& s, const text_model& model, const std::vector<std::int32_t>& text) {
  auto step = s.prepare(fetch(model.loss), feed(model.text, model.next));
  const std::size_t count = std::min<std::size_t>(1024, (text.size() - 1) / window);
  const std::size_t at_once = std::min<std::size_t>(16, count), batches = count / at_once;
  windows batch(static_cast<std::int64_t>(at_once));
  double sum = 0;
  for (std::size_t i = 0; i < batches; ++i) {
    for (std::size_t row = 0; row < at_once; ++row)
      batch.set(static_cast<std::int64_t>(row), text, (i * at_once + row) * window);
    sum += static_cast<double>(step(batch.text, batch.next));
  }
  return std::exp(sum / static_cast<double>(batches));
}

/// Returns a character drawn from the distribution of some logits.
std::int32_t draw(const float* logits, double temperature, std::mt19937_64& random) {
  const double most = static_cast<double>(*std::max_element(logits, logits + characters));
  std::vector<double> sums;
  for (int c = 0; c < characters; ++c)
    sums.push_back((sums.empty() ? 0 : sums.back()) + std::exp((static_cast<double>(logits[c]) - most) / temperature));
  const double at = sums.back() * (static_cast<double>(random() >> 11) * 0x1p-53);
  return static_cast<std::int32_t>(std::upper_bound(sums.begin(), sums.end(), at) - sums.begin());
}

/// Prints what the model writes after the prompt. A GPT reads each character once; when its window is full, it reads
/// the second half again. A recurrent network reads the whole window for each character.
void write(session& s, const text_model& model, const flags& f) {
  const auto seed = static_cast<std::uint64_t>(f.seed);
  const text_writer continued = model.writer ? model.writer(s, f.temperature, seed) : text_writer();
  auto step = s.prepare(fetch(model.logits), feed(model.text));
  std::mt19937_64 random(seed);
  std::vector<std::int32_t> written{'\n'};
  for (const char c : f.prompt) written.push_back(static_cast<unsigned char>(c) < characters ? c : '?');
  const std::size_t end = written.size() + static_cast<std::size_t>(f.characters);
  const auto last = [&](std::size_t most) {
    return written.end() - static_cast<std::ptrdiff_t>(std::min(written.size(), most));
  };
  const auto put = [&](std::int32_t c) {
    written.push_back(c);
    std::putchar(c == '\n' || c >= ' ' ? c : '?');
    return written.size() < end;
  };
  tensor<std::int32_t, text_dims> seen(shape(1, window));
  std::printf("\n%s", f.prompt.c_str());
  const auto start = std::chrono::steady_clock::now();
  while (written.size() < end) {
    if (continued) {
      continued({last(window / 2), written.end()}, put);
    } else {
      const auto to = std::copy(last(window), written.end(), seen.data());
      put(draw(step(seen).data() + (to - seen.data() - 1) * characters, f.temperature, random));
    }
  }
  std::printf("\n\n%.0f characters/s written\n", static_cast<double>(f.characters) / seconds_since(start));
}

double run(const flags& f) {
  const split_text text = read(f.text);
  const text_model model(f.cell, f.rate(), f.steps, static_cast<std::uint64_t>(f.seed));
  std::fputs(model.description.c_str(), stdout);
  std::printf("%zu characters to learn from, %zu held out\n", text.training.size(), text.held_out.size());
  session s{model.g, {.threads = static_cast<int>(f.threads)}};
  if (!f.checkpoint.empty() && std::filesystem::exists(f.checkpoint)) {
    load_weights(f.checkpoint, s);
    std::printf("weights of %s\n", f.checkpoint.c_str());
  } else {
    if (!f.checkpoint.empty()) check_writable(f.checkpoint);
    train(s, model, text.training, f);
    if (!f.checkpoint.empty()) save_weights(f.checkpoint, s);
  }
  const double reached = perplexity(s, model, text.held_out);
  std::printf("perplexity of held-out text %.3f\n", reached);
  write(s, model, f);
  return reached;
}

}  // namespace

int main(int argc, char** argv) try {
  flags f;
  std::optional<double> most_perplexity;
  command_line line("Trains a small GPT, or a recurrent network, that writes text character by character");
  line.add("cell", f.cell, {"gpt", "lstm", "gru"}, "the model: 4 layers of a GPT, or a recurrent layer");
  line.add("text", f.text, "file of text in ASCII, or WordNet's data.noun, whose definitions are read");
  line.add("steps", f.steps, 1, 1'000'000, "steps of training");
  line.add("batch_size", f.batch_size, 1, 10'000, "windows of 128 characters per step");
  line.add("learning_rate", f.learning_rate, 1e6,
           "highest learning rate of adamw; rises in the first steps, then decays; default: 0.002, or 0.006 for lstm "
           "and gru");
  line.add("threads", f.threads, 0, max_threads(), "threads for computation; 0: one per core");
  line.add("seed", f.seed, 0, INT64_MAX, "seed of the initial weights, the order of the windows and the sample");
  line.add("checkpoint", f.checkpoint,
           "file of weights: written after training; read instead of training if it exists");
  line.add("prompt", f.prompt, "beginning of the text to write");
  line.add("characters", f.characters, 0, 1'000'000, "characters to write");
  line.add("temperature", f.temperature, "below 1: likelier characters; above 1: more variety");
  line.add("most_perplexity", most_perplexity, 1e6,
           "fail if the perplexity is above this; for the default flags 5, 5.6 for lstm, 4.7 for gru");
  if (!line.parse(argc, argv)) {
    check_output();
    return 0;
  }
  const flags usual{.cell = f.cell};
  const bool is_usual =
      f.steps == usual.steps && f.batch_size == usual.batch_size && f.text == usual.text && f.rate() == usual.rate();
  const double reached = run(f);
  check_output();
  const double most = most_perplexity ? *most_perplexity : is_usual ? f.stated_perplexity() : HUGE_VAL;
  if (!(reached <= most)) {
    char why[80];
    std::snprintf(why, sizeof why, "the perplexity is %.3f, above %g", reached, most);
    refuse(why);
  }
} catch (...) {
  return tell_failure();
}
