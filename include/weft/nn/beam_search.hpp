// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <weft/nn/generation.hpp>
#include <weft/ops/index/copy_rows.hpp>
#include <weft/ops/reduce/softmax.hpp>

/// A search for the most probable continuations of a text: docs/how-to/generation.md. Not part of <weft/nn.hpp>.
WEFT_COLD_BEGIN
namespace weft::nn {

/// How a beam search ranks texts and when it stops.
struct beam_options {
  std::int64_t max_tokens = 128;  ///< maximum number of new tokens of each text
  std::int32_t end_token = -1;    ///< ends a text, and is its last token; -1: none
  double length_penalty = 1;      ///< a score is the sum of log-probabilities / (new tokens ^ length_penalty)
};

/// A continuation that beam_search found, without the prompt, and its score.
struct scored_text {
  std::vector<std::int32_t> tokens;
  double score = 0;
};

/// Finds the most probable continuations of texts by a beam search (transformers' generate with num_beams; Sutskever et
/// al., NeurIPS 2014): each token extends the Width best texts so far, and a text is complete after the end token or
/// max_tokens. The caches of the model have Batch * Width rows, which a step copies in place when texts branch. For the
/// model and its cost, see generator. With a Width of 1, the result is that of a generator at temperature 0.
///
///     nn::beam_search<1, 4> search(s, net, {.max_tokens = 50, .end_token = 0});
///     std::vector<std::vector<nn::scored_text>> found = search({{3, 14, 15}});  // found[0][0] is the best
template <int Batch, int Width>
class beam_search : detail::decoder {
  static_assert(Batch > 0 && Width > 0, "beam_search<batch, width>: must be positive");

 public:
  template <class Net>
  beam_search(session& s, const Net& net, const beam_options& options = {});
  /// Returns at most Width continuations of each prompt, the best first. Throws as generator does.
  std::vector<std::vector<scored_text>> operator()(const token_lists& prompts);

 private:
  static constexpr std::size_t width = Width, candidates = 2 * width;

  beam_options options_;
  sequence<std::int32_t> sources_, indices_;  // of caches; of candidates
  sequence<double> sums_, scores_;            // of log-probabilities: of rows; of candidates
};

template <int Batch, int Width>
template <class Net>
beam_search<Batch, Width>::beam_search(session& s, const Net& net, const beam_options& options) : options_(options) {
  constexpr int rows = Batch * Width;
  using mistake = detail::model_mistake<Net, rows>;
  static_assert(correct<mistake>, "beam_search<batch, width>: " WEFT_NEEDS_MODEL);
  if constexpr (correct<mistake>) {
    graph shared = s.of().share();
    graph& g = shared.self();
    const auto sources = placeholder<std::int32_t, dims<rows>>(g, "generation/sources");
    const auto counts = placeholder<std::int32_t, dims<rows>>(g, "generation/counts");
    const auto sums = placeholder<double, dims<rows>>(g, "generation/sums");
    plan::step_request request;
    const auto logits = record<rows>(s, net, [&](const symbol& write) {
      const node_def& def = g[write.id().node].def;
      if (!is_operation<assign_slice_op<float>>(def.op))
        throw error(error_code::unimplemented, "beam_search", "the model must keep its state in nn::kv_cache");
      const axis_attribute axis{static_cast<std::size_t>(def.attributes[0])};
      const symbol variable(&g, def.inputs[0]);
      request.targets.push_back(
          weft::record<copy_rows_op>({variable, sources.erased(), counts.erased()}, variable.info(), axis).id().node);
    });
    constexpr int vocabulary = static_extent<decltype(logits), 1>();
    const auto sum = log_softmax(logits) + expand_dims<1>(cast<value_t<decltype(logits)>>(sums));
    const auto best = top_k<2 * Width>(reshape<dims<Batch, Width * vocabulary>>(sum));
    const auto values = let(cast<double>(best.values));
    request.fetches = {values.id(), best.indices.id()};
    prepare(s, request, {sources.erased(), counts.erased(), sums.erased()});
    sources_.assign(rows, 0), sums_.assign(rows, 0);
    indices_.assign(Batch * candidates, 0), scores_.assign(Batch * candidates, 0);
  }
}

template <int Batch, int Width>
std::vector<std::vector<scored_text>> beam_search<Batch, Width>::operator()(const token_lists& prompts) {
  constexpr double never = -1e30;  // the sum of rows that do not exist yet
  start("beam_search", prompts, width);
  const std::size_t rows = sources_.size();
  for (std::size_t i = 0; i < rows; ++i) sources_[i] = static_cast<std::int32_t>(i), sums_[i] = i % width ? never : 0;
  std::vector<std::vector<scored_text>> found(prompts.size());
  token_lists texts(rows), extended(rows);
  std::vector<bool> done(prompts.size());
  const auto score_of = [&](double sum, std::int64_t length) {
    return sum / std::pow(static_cast<double>(length), options_.length_penalty);
  };
  const auto add = [&](std::size_t i, const std::vector<std::int32_t>& text, double sum) {
    if (sum < never / 2) return;
    const scored_text one{text, score_of(sum, static_cast<std::int64_t>(text.size()))};
    auto& all = found[i];
    all.insert(std::find_if(all.begin(), all.end(), [&](const scored_text& t) { return t.score < one.score; }), one);
    if (all.size() > width) all.pop_back();
  };
  for (std::int64_t n = 1; n <= options_.max_tokens && std::find(done.begin(), done.end(), false) != done.end(); ++n) {
    run({of_rows(sources_.data()), of_rows(positions_.data()), of_rows(sums_.data())},
        {scores_.data(), indices_.data()});
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const std::size_t first = i * width;
      for (std::size_t b = 0; b < width; ++b) sources_[first + b] = static_cast<std::int32_t>(first + b);
      if (done[i]) continue;
      if (std::isnan(scores_[i * candidates]))  // NaN is the largest
        throw error(error_code::invalid_argument, "beam_search", {"the logits of text ", i, " are not numbers"});
      struct branch {
        std::size_t from;
        std::int32_t token;
        double sum;
        std::size_t to;
      } next[width];
      std::size_t count = 0;
      for (std::size_t rank = 0; rank < candidates && count < width; ++rank) {
        const std::size_t c = i * candidates + rank;
        const branch b{first + static_cast<std::size_t>(indices_[c] / vocabulary_),
                       static_cast<std::int32_t>(indices_[c] % vocabulary_), scores_[c], rows};
        if (b.token != options_.end_token) {
          next[count++] = b;
        } else if (rank < width) {
          texts[b.from].push_back(b.token);
          add(i, texts[b.from], b.sum);
          texts[b.from].pop_back();
        }
      }
      // The first branch of a row stays in it; others take the rows without branches. So no row is both read and
      // written.
      bool taken[width] = {};
      for (branch& b : next)
        if (!taken[b.from - first]) taken[b.from - first] = true, b.to = b.from;
      for (branch& b : next) {
        if (b.to == rows) {
          const auto unused = static_cast<std::size_t>(std::find(taken, taken + width, false) - taken);
          taken[unused] = true, b.to = first + unused;
          sources_[b.to] = static_cast<std::int32_t>(b.from);
        }
        extended[b.to] = texts[b.from];
        extended[b.to].push_back(b.token);
        tokens_[b.to] = b.token, sums_[b.to] = b.sum, ++positions_[b.to];
      }
      std::swap_ranges(texts.begin() + static_cast<std::ptrdiff_t>(first),
                       texts.begin() + static_cast<std::ptrdiff_t>(first + width),
                       extended.begin() + static_cast<std::ptrdiff_t>(first));
      // Later sums are not larger, so no later text can be better than this.
      const double bound = score_of(next[0].sum, options_.length_penalty > 0 ? options_.max_tokens : n);
      done[i] = found[i].size() == width && found[i].back().score >= bound;
      for (std::size_t b = 0; done[i] && b < width; ++b) positions_[first + b] = 0;  // never beyond the cache
    }
  }
  for (std::size_t row = 0; row < prompts.size() * width; ++row)
    if (!done[row / width] && options_.max_tokens > 0) add(row / width, texts[row], sums_[row]);
  return found;
}

}  // namespace weft::nn
WEFT_COLD_END
