// SPDX-License-Identifier: BSL-1.0
// Connectionist temporal classification (Graves et al., 2006): a recurrent network learns to write down melodies, noisy
// sounds of two to five tones, from pairs of sounds and notes. The training data do not contain the times at
// which tones begin or end. A beam search reads new sounds. In the usual run, the edit distance to the right notes is
// at most 2 for 100 notes, or the program ends with an error. `--help` lists the flags.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <weft/nn.hpp>
#include <weft/nn/recurrent.hpp>
#include <weft/ops/arrays/full_like.hpp>
#include <weft/ops/losses/ctc_decoder.hpp>
#include <weft/ops/losses/ctc_loss.hpp>
#include <weft/ops/signals/stft.hpp>
#include <weft/weft.hpp>

#include "../command_line.hpp"
#include "../result_file.hpp"

using namespace weft;

namespace {

constexpr double stated_distance = 0.02;
constexpr int notes = 8, most_tones = 5, rate = 8000, samples = rate;            // sounds of one second
constexpr stft_options cut{.length = 256, .step = 160};                          // frames of 32 ms, 20 ms apart
constexpr int frames = (samples - cut.length) / cut.step + 1, frequencies = 48;  // up to 1.5 kHz
constexpr const char* letters = "-cdefgabC";                                     // class 0 is the blank

struct flags {
  std::int64_t steps = 600, batch_size = 16, tests = 200, threads = 0, seed = 1;
  double learning_rate = 0.005, noise = 0.5;
};

using batch_dims = dims<dyn<"batch">>;
using sound_dims = dims<dyn<"batch">, samples>;
using text_dims = dims<dyn<"batch">, most_tones>;

/// Sounds, the notes of their tones from 1 on, and the number of tones.
struct melodies {
  tensor<float, sound_dims> sounds;
  tensor<std::int32_t, text_dims> text;
  tensor<std::int32_t, batch_dims> lengths;

  explicit melodies(std::int64_t count)
      : sounds(shape(count, samples)), text(shape(count, most_tones)), lengths(shape(count)) {}

  void compose(double noise, std::mt19937_64& random) {
    constexpr double semitones[] = {0, 2, 4, 5, 7, 9, 11, 12}, pi = 3.14159265358979323846;
    std::normal_distribution<double> normal(0, noise);
    std::uniform_real_distribution<double> uniform;
    for (float& sample : sounds) sample = static_cast<float>(normal(random));
    for (std::int64_t i = 0; i < lengths.extent(0); ++i) {
      lengths(i) = static_cast<std::int32_t>(2 + random() % (most_tones - 1));
      double begin = 0.1 * uniform(random) * rate;
      for (int k = 0; k < lengths(i); ++k) {
        text(i, k) = static_cast<std::int32_t>(1 + random() % notes);
        const double hertz = 523.25 * std::exp2(semitones[text(i, k) - 1] / 12), strength = 0.5 + uniform(random);
        const double end = begin + (0.08 + 0.07 * uniform(random)) * rate;
        for (int t = static_cast<int>(begin); t < std::min<double>(end, samples); ++t) {
          const double fade = std::sin(pi * (t - begin) / (end - begin));
          sounds(i, t) += static_cast<float>(strength * fade * std::sin(2 * pi * hertz * t / rate));
        }
        begin = end + 0.02 * uniform(random) * rate;
      }
    }
  }
};

struct listener {
  nn::dense<64> pitch{.activation = nn::relu};
  nn::bidirectional<nn::gru<48>> over_time;
  nn::dense<notes + 1> logits;

  auto operator()(const auto& sounds) const {
    const auto [real, imaginary_part] = stft<cut>(sounds);
    const auto power = log(slice<2, 0, frequencies>(square(real) + square(imaginary_part)) + 1e-3f);
    return logits(over_time(pitch(power * 0.2f)).states);
  }
};

struct transcriber {
  graph g;
  node<float, sound_dims> sounds = placeholder<float, sound_dims>(g, "sounds");
  node<std::int32_t, text_dims> text = placeholder<std::int32_t, text_dims>(g, "text");
  node<std::int32_t, batch_dims> lengths = placeholder<std::int32_t, batch_dims>(g, "lengths");
  node<float> loss;
  effect train;
  node<std::int32_t, dims<dyn<"batch">, 1, frames>> heard;
  node<std::int32_t, dims<dyn<"batch">, 1>> heard_lengths;
  std::string description;

  explicit transcriber(const flags& f) : g(static_cast<std::uint64_t>(f.seed)) {
    const auto model = nn::named(listener(), "listener");
    const auto logits = model(sounds);
    const auto of_frames = full_like<std::int32_t>(lengths, frames);
    loss = mean(ctc_loss(logits, text, of_frames, lengths));
    train = adam{.learning_rate = f.learning_rate}.minimize(loss);
    const auto best = ctc_beam_search_decoder(logits, of_frames, {.beam_width = 10});
    heard = best.labels, heard_lengths = best.lengths;
    description = nn::describe(model, sounds);
  }
};

/// The least number of notes to insert, remove or replace (Levenshtein).
int edit_distance(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b) {
  std::vector<int> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    int before = row[0]++;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replaced = before + (a[i - 1] != b[j - 1]);
      before = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

std::string written(const std::vector<std::int32_t>& text) {
  std::string all;
  for (const std::int32_t note : text) all += letters[note];
  return all;
}

/// Returns the edit distance between the notes that the network finds in new sounds and the right ones, per note.
double test(session& s, const transcriber& m, const flags& f, std::mt19937_64& random) {
  melodies tests(f.tests);
  tests.compose(f.noise, random);
  const auto [heard, lengths] = s.run(fetch(m.heard, m.heard_lengths), with(m.sounds, tests.sounds));
  int distance = 0, total = 0;
  for (std::int64_t i = 0; i < f.tests; ++i) {
    std::vector<std::int32_t> right, found;
    for (int k = 0; k < tests.lengths(i); ++k) right.push_back(tests.text(i, k));
    for (int k = 0; k < lengths(i, 0); ++k) found.push_back(heard(i, 0, k));
    if (i < 4) std::printf("%s is heard as %s\n", written(right).c_str(), written(found).c_str());
    distance += edit_distance(right, found), total += tests.lengths(i);
  }
  return static_cast<double>(distance) / total;
}

double run(const flags& f) {
  const transcriber m(f);
  std::fputs(m.description.c_str(), stdout);
  session s{m.g, {.threads = static_cast<int>(f.threads)}};
  auto step = s.prepare(fetch(m.loss, m.train), feed(m.sounds, m.text, m.lengths));
  std::mt19937_64 random(static_cast<std::uint64_t>(f.seed));
  melodies batch(f.batch_size);
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 1; i <= f.steps; ++i) {
    batch.compose(f.noise, random);
    const double loss = static_cast<double>(std::get<0>(step(batch.sounds, batch.text, batch.lengths)));
    check_cost(loss, i, f.learning_rate);
    if (i % 100 == 0 || i == f.steps) std::printf("step %lld: cost %.4f\n", static_cast<long long>(i), loss);
    std::fflush(stdout);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double reached = test(s, m, f, random);
  std::printf("edit distance %.4f of held-out notes\n%.0f sounds/s, %.1f s of training\n", reached,
              static_cast<double>(f.steps * f.batch_size) / seconds, seconds);
  return reached;
}

}  // namespace

int main(int argc, char** argv) try {
  flags f;
  std::optional<double> most_distance;
  command_line line("Trains a recurrent network that writes down melodies from noisy sounds");
  line.add("steps", f.steps, 1, 1'000'000, "steps of training");
  line.add("batch_size", f.batch_size, 1, 10'000, "sounds per step");
  line.add("tests", f.tests, 1, 10'000, "held-out sounds");
  line.add("noise", f.noise, "standard deviation of the noise; tones have an amplitude of 0.5 to 1.5");
  line.add("learning_rate", f.learning_rate, "learning rate of adam");
  line.add("threads", f.threads, 0, max_threads(), "threads for computation; 0: one per core");
  line.add("seed", f.seed, 0, INT64_MAX, "seed of the sounds and the initial weights");
  line.add("most_distance", most_distance, 100,
           "fail if the edit distance per note is above this; 0.02 for the default flags");
  if (!line.parse(argc, argv)) {
    check_output();
    return 0;
  }
  const flags usual;
  const bool is_usual = f.steps == usual.steps && f.batch_size == usual.batch_size && f.noise == usual.noise &&
                        f.learning_rate == usual.learning_rate;
  const double reached = run(f);
  check_output();
  const double most = most_distance ? *most_distance : is_usual ? stated_distance : HUGE_VAL;
  if (!(reached <= most)) refuse("the edit distance is " + std::to_string(reached) + " per note: too much");
} catch (...) {
  return tell_failure();
}
