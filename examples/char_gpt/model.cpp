// SPDX-License-Identifier: BSL-1.0
#include "model.hpp"

#include <algorithm>
#include <array>
#include <memory>

#include <weft/nn.hpp>
#include <weft/nn/generation.hpp>
#include <weft/nn/gpt2.hpp>
#include <weft/nn/kv_cache.hpp>
#include <weft/nn/recurrent.hpp>
#include <weft/train/adamw.hpp>
#include <weft/train/schedules.hpp>

using namespace weft;

namespace {

constexpr nn::gpt2_options sizes{.layers = 4, .heads = 4, .width = 128, .vocabulary = characters, .context = window};

using gpt = nn::gpt2<sizes>;

/// A GPT whose keys and values of earlier characters are cached, so that a step reads one character.
text_writer make_writer(const gpt& net, session& s, double temperature, std::uint64_t seed) {
  const std::array<nn::kv_cache<sizes.heads, sizes.width / sizes.heads, window>, sizes.layers> caches;
  const auto next = [&](const auto& text, const auto& at) { return net(text, nn::cached(caches, at)); };
  const auto write = std::make_shared<nn::generator<>>(
      s, next, nn::generation_options{.max_tokens = window / 2, .temperature = temperature, .seed = seed});
  return [write](const auto& text, const auto& observe) {
    (*write)({text}, [&](std::size_t, std::int32_t c) { return observe(c); });
  };
}

template <class Cell>
struct reader {
  nn::embedding<characters, 64> letters;
  Cell cell;
  nn::dense<characters> logits;

  auto operator()(const auto& text) const { return logits(cell(letters(text)).states); }
};

}  // namespace

template <class Model>
void text_model::record(const Model& model, double learning_rate, std::int64_t steps) {
  logits = model(text);
  loss = mean(softmax_cross_entropy(logits, next));
  const auto step = global_step(g);
  const auto rate = linear_warmup(cosine_decay(learning_rate, step, static_cast<double>(steps)),
                                  std::max(1.0, 0.05 * static_cast<double>(steps)));
  train = adamw{.learning_rate = rate, .weight_decay = 0.01}.minimize(loss, nn::parameters(model), step);
  description = nn::describe(model);
}

text_model::text_model(const std::string& cell, double learning_rate, std::int64_t steps, std::uint64_t seed)
    : g(seed) {
  if (cell == "gpt") {
    const auto net = std::make_shared<const gpt>(nn::named(gpt{.stddev = 0.06}, "gpt"));
    record(*net, learning_rate, steps);
    writer = [net](session& s, double temperature, std::uint64_t of) { return make_writer(*net, s, temperature, of); };
  } else if (cell == "lstm") {
    record(nn::named(reader<nn::lstm<256>>(), "reader"), learning_rate, steps);
  } else {
    record(nn::named(reader<nn::gru<256>>(), "reader"), learning_rate, steps);
  }
}
