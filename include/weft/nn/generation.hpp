// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include <weft/nn/kv_cache.hpp>
#include <weft/ops/arrays/reshape.hpp>
#include <weft/ops/random/sample_logits.hpp>
#include <weft/session/session.hpp>
#include <weft/tensor/owned.hpp>

/// Texts that a model with caches continues, token by token: docs/how-to/generation.md. Not part of <weft/nn.hpp>.
WEFT_COLD_BEGIN
namespace weft::nn {

/// Texts as tokens. A batch can contain texts of different lengths.
using token_lists = std::vector<std::vector<std::int32_t>>;

/// How a generator draws tokens and when it stops.
struct generation_options {
  std::int64_t max_tokens = 128;  ///< maximum number of new tokens of each text
  std::int32_t end_token = -1;    ///< ends a text, and is its last token; -1: none
  double temperature = 1;         ///< divides the logits; 0 takes the most probable token
  std::int64_t top_k = 0;         ///< draws one of the k most probable tokens; 0 admits all
  double top_p = 1;               ///< then one of the most probable tokens whose probabilities reach p
  double repetition_penalty = 1;  ///< divides positive logits of tokens in the text, and multiplies negative ones
  std::uint64_t seed = 0;
};

/// The side on which texts in a matrix are padded.
enum class padding_side : unsigned char { right, left };

/// Returns the texts in a matrix [texts, steps], without padding. Throws invalid_argument if there are not as many
/// lengths as texts, and out_of_range if a length exceeds the steps.
token_lists unpadded(const tensor<std::int32_t, dims<dyn<"texts">, dyn<"steps">>>& tokens,
                     const std::vector<std::int64_t>& lengths, padding_side side = padding_side::right);

/// A generator's model must be a function of tokens [batch, steps] and positions [batch].
template <class Net, class Tokens, class Positions>
struct model_does_not_take_tokens_and_positions
    : mistake<!std::is_invocable_v<const Net&, const Tokens&, const Positions&>> {};

/// A generator's model must return logits [batch, steps, vocabulary] of float or double, with a static vocabulary.
template <class Logits, class Tokens>
struct model_does_not_return_logits : mistake<true> {};
template <Expression Logits, class Tokens>
  requires(dims_t<Logits>::rank == 3 && dims_t<Logits>::spec[2] > 0 && std::is_floating_point_v<value_t<Logits>>)
struct model_does_not_return_logits<Logits, Tokens>
    : mistake<dims_t<Logits>::spec[0] != dims_t<Tokens>::spec[0] || dims_t<Logits>::spec[1] != 1> {};

/// Receives the number of a text and its new token. If it returns false, the text ends with this token.
using token_observer = std::function<bool(std::size_t, std::int32_t)>;

namespace detail {

template <class Net, class Tokens, class Positions>
constexpr auto find_model_mistake() {
  using not_taken = model_does_not_take_tokens_and_positions<Net, Tokens, Positions>;
  if constexpr (correct<not_taken>)
    return model_does_not_return_logits<std::invoke_result_t<const Net&, const Tokens&, const Positions&>, Tokens>{};
  else
    return not_taken{};
}
/// The mistake in the model of a generator of so many rows, if there is one.
template <class Net, auto Rows>
using model_mistake = decltype(find_model_mistake<Net, node<std::int32_t, dims_t<dims<Rows, 1>>>,
                                                  node<std::int32_t, dims_t<dims<Rows>>>>());

#define WEFT_NEEDS_MODEL                                                                                         \
  "needs a model: a function of tokens [batch, steps] and positions [batch] that returns logits [batch, steps, " \
  "vocabulary] of float or double, with a static vocabulary"

/// The steps of a model with caches: one reads prompts, and another reads one token of each text.
class decoder {
 protected:
  /// Records the model twice, and returns the logits of one token, [Rows, vocabulary]. `between` receives each write of
  /// a cache by the first call, before the second.
  template <auto Rows, class Net, class Between>
  auto record(const session& s, const Net& net, const Between& between);
  /// Prepares the steps. The second feeds the tokens, the positions, and then `more`.
  void prepare(session& s, plan::step_request request, std::initializer_list<symbol> more);
  /// Reads all tokens of the prompts except for the last, each `copies` times.
  void start(const char* name, const token_lists& prompts, std::size_t copies);
  /// Reads the last tokens. Fetched value i is written to places[i].
  void run(std::initializer_list<plan::fed_value> more, std::initializer_list<void*> places);
  plan::fed_value of_rows(const void* values, std::int64_t width = 0) const {
    const auto rows = static_cast<std::int64_t>(tokens_.size());
    return {values, width > 0 ? shape(rows, width) : shape(rows)};
  }

  std::int64_t vocabulary_ = 0;
  sequence<std::int32_t> tokens_, positions_;  ///< the last token of each row, and its position

 private:
  symbol prompt_, token_, at_;
  sequence<std::uint32_t> writes_;
  sequence<std::int32_t> read_tokens_;
  sequence<plan::fed_value> fed_;
  owned<prepared_step> read_, next_;
};

template <auto Rows, class Net, class Between>
auto decoder::record(const session& s, const Net& net, const Between& between) {
  graph shared = s.of().share();
  graph& g = shared.self();
  const auto at = placeholder<std::int32_t, dims<Rows>>(g, "generation/positions");
  const auto prompt = placeholder<std::int32_t, dims<Rows, dyn<"prompt_steps">>>(g, "generation/prompt");
  const auto token = placeholder<std::int32_t, dims<Rows, 1>>(g, "generation/token");
  prompt_ = prompt.erased(), token_ = token.erased(), at_ = at.erased();
  const auto before = static_cast<std::uint32_t>(g.size());
  net(prompt, at);
  for (std::uint32_t n = before, end = static_cast<std::uint32_t>(g.size()); n < end; ++n)
    if (g[n].def.op->writes) writes_.push_back(n), between(symbol(&g, {n, 0}));
  const auto logits = let(net(token, at));
  vocabulary_ = static_extent<decltype(logits), 2>();
  std::int64_t rows = logits.erased().extents()[0];
  for (const auto& [code, size] : g.fixed_extents())
    if (code == rows) rows = size;
  if (rows < 0)
    throw error(error_code::failed_precondition, "generation",
                "the number of rows has no value yet: g.set(dyn<\"batch\">, n) must come before the model");
  tokens_.assign(static_cast<std::size_t>(rows), 0), positions_.assign(static_cast<std::size_t>(rows), 0);
  return let(reshape<dims<Rows, static_extent<decltype(logits), 2>()>>(logits));
}

inline void decoder::prepare(session& s, plan::step_request request, std::initializer_list<symbol> more) {
  if (writes_.empty())
    throw error(error_code::failed_precondition, "generation",
                "the model writes no variable: it needs an nn::kv_cache for the keys and values of earlier tokens");
  request.feeds = {token_.id(), at_.id()};
  for (const symbol& m : more) request.feeds.push_back(m.id());
  next_ = owned(new prepared_step(s, static_cast<plan::step_request&&>(request)));
  plan::step_request reads;
  reads.targets = writes_;
  reads.feeds = {prompt_.id(), at_.id()};
  read_ = owned(new prepared_step(s, static_cast<plan::step_request&&>(reads)));
}

inline void decoder::start(const char* name, const token_lists& prompts, std::size_t copies) {
  std::size_t longest = 0;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i].empty()) throw error(error_code::invalid_argument, name, {"prompt ", i, " has no tokens"});
    longest = std::max(longest, prompts[i].size());
    for (const std::int32_t t : prompts[i])
      if (t < 0 || t >= vocabulary_)
        throw error(error_code::out_of_range, name,
                    {"token ", t, " of prompt ", i, " is not in the vocabulary of ", vocabulary_});
  }
  const std::size_t rows = tokens_.size();
  if (prompts.size() * copies > rows)
    throw error(error_code::invalid_argument, name,
                {prompts.size(), " prompts are more than the batch of ", rows / copies});
  const std::size_t width = longest > 0 ? longest - 1 : 0;
  tokens_.assign(rows, 0), positions_.assign(rows, 0), read_tokens_.assign(rows * width, 0);
  if (width > 0) {
    for (std::size_t row = 0; row < prompts.size() * copies; ++row)
      std::copy(prompts[row / copies].begin(), prompts[row / copies].end() - 1, read_tokens_.begin() + row * width);
    // The step also writes the keys of the padding. Later tokens overwrite them before a query attends to them.
    const plan::fed_value fed[] = {of_rows(read_tokens_.data(), static_cast<std::int64_t>(width)),
                                   of_rows(positions_.data())};
    read_->run(fed, [](std::size_t, const shape&) -> void* { return nullptr; });
  }
  for (std::size_t row = 0; row < prompts.size() * copies; ++row) {
    tokens_[row] = prompts[row / copies].back();
    positions_[row] = static_cast<std::int32_t>(prompts[row / copies].size() - 1);
  }
}

inline void decoder::run(std::initializer_list<plan::fed_value> more, std::initializer_list<void*> places) {
  fed_.clear();
  fed_.push_back(of_rows(tokens_.data(), 1));
  fed_.push_back(of_rows(positions_.data()));
  for (const plan::fed_value& f : more) fed_.push_back(f);
  next_->run(fed_.data(), [&](std::size_t i, const shape&) { return places.begin()[i]; });
}

}  // namespace detail

/// Continues texts with the tokens that a model draws (transformers' generate). The model is a function of tokens
/// [batch, steps] and positions [batch], std::int32_t, that appends to caches (kv_cache) and returns logits [batch,
/// steps, vocabulary]. Create a generator once, since it records the model in the session's graph: one step reads
/// prompts, and a step of one token is repeated. The latter draws (sample_logits), so a token costs no copy of logits.
///
///     nn::generator<8> write(s, net, {.max_tokens = 200, .temperature = 0.8, .top_p = 0.95});
///     nn::token_lists texts = write({{3, 14, 15}, {9, 2}});
///
/// Batch is the number of rows of the caches, or their named extent. A call takes at most this many prompts, of any
/// lengths, and returns their new tokens; each text is as if it were alone. The draws depend on the seed, the graph's
/// seed and the number of tokens that the generator has drawn. Throws out_of_range if a cache is full, and
/// invalid_argument if the logits of a token are NaN.
template <auto Batch = 1>
class generator : detail::decoder {
 public:
  template <class Net>
  generator(session& s, const Net& net, const generation_options& options = {});
  /// Returns the continuation of each prompt. `observe` receives each token as soon as it is drawn. Throws
  /// invalid_argument if there are too many prompts or one is empty, and out_of_range for an unknown token.
  token_lists operator()(const token_lists& prompts, const token_observer& observe = {});

 private:
  generation_options options_;
  std::int64_t drawn_tokens_ = 0;
  sequence<std::int32_t> drawn_;
  sequence<bool> in_text_;  // [batch, vocabulary], for the repetition penalty
};

template <auto Batch>
template <class Net>
generator<Batch>::generator(session& s, const Net& net, const generation_options& options) : options_(options) {
  using mistake = detail::model_mistake<Net, Batch>;
  static_assert(correct<mistake>, "generator<batch>: " WEFT_NEEDS_MODEL);
  if constexpr (correct<mistake>) {
    const auto logits = record<Batch>(s, net, [](const symbol&) {});
    using T = value_t<decltype(logits)>;
    graph& g = graph_of(logits);
    const auto in_text = placeholder<bool, dims_t<decltype(logits)>>(g, "generation/in_text");
    const node<std::int64_t, dims<>> position(weft::detail::record_random_position(g));
    const bool penalized = options.repetition_penalty != 1;
    const auto penalty = static_cast<T>(options.repetition_penalty);
    const auto weighted =
        penalized ? let(select(in_text, select(logits < 0, logits * penalty, logits / penalty), logits)) : logits;
    const auto drawn =
        let(sample_logits(weighted, {options.temperature, options.top_k, options.top_p}, {.seed = options.seed}));
    in_text_.assign(penalized ? tokens_.size() * static_cast<std::size_t>(vocabulary_) : 0, false);
    drawn_.assign(tokens_.size(), 0);
    plan::step_request request;
    request.fetches = {drawn.id()};
    if (penalized)
      prepare(s, request, {position.erased(), in_text.erased()});
    else
      prepare(s, request, {position.erased()});
  }
}

template <auto Batch>
token_lists generator<Batch>::operator()(const token_lists& prompts, const token_observer& observe) {
  const auto max_tokens = static_cast<std::size_t>(std::max<std::int64_t>(options_.max_tokens, 0));
  const auto vocabulary = static_cast<std::size_t>(vocabulary_);
  start("generator", prompts, 1);
  token_lists texts(prompts.size());
  sequence<std::size_t> unfinished;
  for (std::size_t i = 0; i < texts.size(); ++i) texts[i].reserve(max_tokens), unfinished.push_back(i);
  const auto note = [&](std::size_t row, std::int32_t token) {
    if (in_text_.size() > 0) in_text_[row * vocabulary + static_cast<std::size_t>(token)] = true;
  };
  std::fill(in_text_.begin(), in_text_.end(), false);
  for (std::size_t i = 0; i < prompts.size(); ++i)
    for (const std::int32_t t : prompts[i]) note(i, t);
  for (std::size_t n = 0; n < max_tokens && unfinished.size() > 0; ++n) {
    const plan::fed_value position{&drawn_tokens_, shape()};
    if (in_text_.size() > 0)
      run({position, of_rows(in_text_.data(), vocabulary_)}, {drawn_.data()});
    else
      run({position}, {drawn_.data()});
    ++drawn_tokens_;
    for (std::size_t k = unfinished.size(); k-- > 0;) {
      const std::size_t row = unfinished[k];
      const std::int32_t token = drawn_[row];
      if (token < 0)
        throw error(error_code::invalid_argument, "generator", {"the logits of text ", row, " are not numbers"});
      texts[row].push_back(token), note(row, token);
      tokens_[row] = token, ++positions_[row];
      const bool goes_on = !observe || observe(row, token);
      // A row that has ended is still computed: at its first position, which is never beyond the cache.
      if (!goes_on || token == options_.end_token) unfinished.erase(k), positions_[row] = 0;
    }
  }
  return texts;
}

inline token_lists unpadded(const tensor<std::int32_t, dims<dyn<"texts">, dyn<"steps">>>& tokens,
                            const std::vector<std::int64_t>& lengths, padding_side side) {
  const auto texts = static_cast<std::size_t>(tokens.extents()[0]);
  const std::int64_t steps = tokens.extents()[1];
  if (lengths.size() != texts)
    throw error(error_code::invalid_argument, "unpadded", {texts, " texts need one length each, not ", lengths.size()});
  token_lists lists(texts);
  for (std::size_t i = 0; i < texts; ++i) {
    const std::int64_t length = lengths[i];
    if (length < 0 || length > steps)
      throw error(error_code::out_of_range, "unpadded",
                  {"length ", length, " of text ", i, " must be in [0, ", steps, "]"});
    const std::int32_t* const row = tokens.data() + static_cast<std::int64_t>(i) * steps;
    const std::int32_t* const first = side == padding_side::right ? row : row + (steps - length);
    lists[i].assign(first, first + length);
  }
  return lists;
}

}  // namespace weft::nn
WEFT_COLD_END
