// SPDX-License-Identifier: BSL-1.0
#include "model.hpp"

#include <algorithm>

#include <weft/nn.hpp>
#include <weft/nn/gpt2.hpp>
#include <weft/nn/recurrent.hpp>
#include <weft/train/adamw.hpp>
#include <weft/train/schedules.hpp>

using namespace weft;

namespace {

constexpr nn::gpt2_options sizes{.layers = 4, .heads = 4, .width = 128, .vocabulary = characters, .context = window};

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
  if (cell == "gpt")
    record(nn::named(nn::gpt2<sizes>{.stddev = 0.06}, "gpt"), learning_rate, steps);
  else if (cell == "lstm")
    record(nn::named(reader<nn::lstm<256>>(), "reader"), learning_rate, steps);
  else
    record(nn::named(reader<nn::gru<256>>(), "reader"), learning_rate, steps);
}
