// SPDX-License-Identifier: BSL-1.0
// Text generation with caches: logits and greedy texts against PyTorch, beam search against a search of all texts,
// batches of texts of different lengths against each text alone.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <boost/mpl/list.hpp>
#include <boost/test/unit_test.hpp>
#include <weft/nn.hpp>
#include <weft/nn/beam_search.hpp>
#include <weft/nn/generation.hpp>
#include <weft/nn/gpt2.hpp>
#include <weft/nn/kv_cache.hpp>
#include <weft/nn/positions.hpp>
#include <weft/nn/rotary.hpp>
#include <weft/nn/transformer.hpp>
#include <weft/ops/products/attention.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"
#include "nn/sequence_values.hpp"

using namespace weft;
using test::failure;

namespace {

constexpr int vocabulary = 11, features = 8, heads = 2, layers = 2, context = 16, capacity = 15;

template <class T>
struct block {
  nn::layer_norm<nn::deduced, T> norm1{.epsilon = 1e-5}, norm2{.epsilon = 1e-5};
  nn::dense<3 * features, nn::deduced, T> qkv;
  nn::dense<features, nn::deduced, T> out, down;
  nn::dense<4 * features, nn::deduced, T> up{.activation = nn::gelu};
  nn::kv_cache<heads, features / heads, capacity, T> cache;

  auto operator()(const auto& x, const auto& at) const {
    using D = dims_t<std::remove_cvref_t<decltype(x)>>;
    constexpr auto b = extent_of<D, 0>();
    constexpr auto steps = extent_of<D, 1>();
    const auto [q, k, v] = split<2, 3>(qkv(norm1(x)));
    const auto by_heads = [&](const auto& h) {
      return transpose<0, 2, 1, 3>(reshape<dims<b, steps, heads, features / heads>>(h));
    };
    const auto [keys, values, from] = cache.append(by_heads(k), by_heads(v), at);
    const auto h = attention(by_heads(q), keys, values, {.causal = true}, query_position(from));
    const auto y = let(x + out(reshape<dims<b, steps, features>>(transpose<0, 2, 1, 3>(h))));
    return let(y + down(up(norm2(y))));
  }
};

template <class T>
struct gpt {
  nn::embedding<vocabulary, features, T> words;
  nn::embedding<context, features, T> places;
  std::array<block<T>, layers> blocks;
  nn::layer_norm<nn::deduced, T> norm{.epsilon = 1e-5};
  nn::dense<vocabulary, nn::deduced, T> head{.use_bias = false};

  auto operator()(const auto& tokens, const auto& at) const {
    auto h = let(words(tokens) + places(nn::step_positions(at, tokens)));
    return head(norm(blocks[1](blocks[0](h, at), at)));
  }
};

/// The numbers of make_generation_values.py.
template <class D, class T = float>
void fill(session& s, const auto& variable, int which, double scale = 0.8, double first = 0) {
  tensor<T, D> values;
  for (std::size_t i = 0; i < values.elements(); ++i) {
    const auto n = static_cast<double>(i + 1);
    values.data()[i] = static_cast<T>(first + scale * std::sin(1.7 * which + 0.9 * n * n));
  }
  if constexpr (requires { variable.template as<D, T>(); })
    s.set(variable.template as<D, T>(), values);
  else
    s.set(variable, values);
}

template <class T>
void fill_model(session& s, const gpt<T>& net) {
  using vector = dims<features>;
  const auto norm = [&](const auto& layer, int which) {
    fill<vector, T>(s, layer.scale, which, 0.2, 1);
    fill<vector, T>(s, layer.offset, which + 1, 0.1);
  };
  fill<dims<vocabulary, features>, T>(s, net.words.table, 1, 2);
  fill<dims<context, features>, T>(s, net.places.table, 2, 2);
  for (int i = 0; i < layers; ++i) {
    const block<T>& b = net.blocks[static_cast<std::size_t>(i)];
    const int first = 10 + 20 * i;
    norm(b.norm1, first);
    fill<dims<features, 3 * features>, T>(s, b.qkv.weights, first + 2);
    fill<dims<3 * features>, T>(s, b.qkv.bias, first + 3);
    fill<dims<features, features>, T>(s, b.out.weights, first + 4);
    fill<vector, T>(s, b.out.bias, first + 5);
    norm(b.norm2, first + 6);
    fill<dims<features, 4 * features>, T>(s, b.up.weights, first + 8);
    fill<dims<4 * features>, T>(s, b.up.bias, first + 9);
    fill<dims<4 * features, features>, T>(s, b.down.weights, first + 10);
    fill<vector, T>(s, b.down.bias, first + 11);
  }
  norm(net.norm, 3);
  fill<dims<features, vocabulary>, T>(s, net.head.weights, 5);
}

const std::vector<double>& expected(const std::string& name) {
  return sequence_values::expected(name, "generation_values.txt");
}

const nn::token_lists prompts{{3, 1, 4, 1, 5}, {7}, {2, 10, 8, 1}};

nn::token_lists greedy() {
  nn::token_lists all;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto& text = expected("greedy" + std::to_string(i));
    all.emplace_back(text.begin(), text.end());
  }
  return all;
}

using element_types = boost::mpl::list<float, double>;

BOOST_AUTO_TEST_CASE_TEMPLATE(logits_with_a_cache_are_those_without, T, element_types) {
  // A prompt of 3 tokens and then single tokens; the second row is one step behind the first.
  graph g;
  const auto net = nn::named(gpt<T>(), "gpt");
  const auto tokens = placeholder<std::int32_t, dims<2, dyn<"steps">>>(g, "tokens");
  const auto at = placeholder<std::int32_t, dims<2>>(g, "at");
  const auto logits = let(net(tokens, at));
  session s{g};
  fill_model(s, net);
  auto step = s.prepare(fetch(logits), feed(tokens, at));
  const std::int32_t text[] = {3, 1, 4, 1, 5, 9, 2, 6};
  const auto& right = expected("logits");
  const double tolerance = std::is_same_v<T, double> ? 1e-12 : 2e-5;
  for (std::int32_t n = 0, steps = 3; n + steps <= 8; n += steps, steps = 1) {
    tensor<std::int32_t, dims<2, dyn<"steps">>> in(shape(2, steps));
    const std::int32_t behind = n > 0 ? 1 : 0;
    for (std::int32_t i = 0; i < steps; ++i) in(0, i) = text[n + i], in(1, i) = text[n - behind + i];
    const auto found = step(in, tensor<std::int32_t, dims<2>>{n, n - behind});
    for (std::int32_t i = 0; i < steps; ++i)
      for (int c = 0; c < vocabulary; ++c)
        for (int row = 0; row < 2; ++row) {
          const double value = right[static_cast<std::size_t>((n - row * behind + i) * vocabulary + c)];
          BOOST_CHECK_SMALL(static_cast<double>(found(row, i, c)) - value, tolerance * (1 + std::abs(value)));
        }
  }
  // A position behind the last one of the cache.
  tensor<std::int32_t, dims<2, dyn<"steps">>> one(shape(2, 1));
  const auto why = failure(error_code::out_of_range, [&] { step(one, tensor<std::int32_t, dims<2>>{0, capacity}); });
  BOOST_CHECK_NE(why.find("it is 15"), std::string::npos);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(greedy_texts_are_those_of_pytorch, T, element_types) {
  graph g(1);
  const auto net = nn::named(gpt<T>(), "gpt");
  session s{g};
  nn::generator<4> write(s, net, {.max_tokens = 10, .temperature = 0});
  fill_model(s, net);
  std::vector<std::vector<std::int32_t>> seen(3);
  const auto observe = [&](std::size_t text, std::int32_t token) {
    seen[text].push_back(token);
    return true;
  };
  BOOST_CHECK(write(prompts, observe) == greedy());
  BOOST_CHECK(seen == greedy());
  // Each text alone, and again after others, in any row.
  for (std::size_t i = 0; i < prompts.size(); ++i) BOOST_CHECK(write({prompts[i]})[0] == greedy()[i]);
  BOOST_CHECK(write({prompts[2], prompts[0]})[1] == greedy()[0]);
  BOOST_CHECK(write({}).empty());
}

BOOST_AUTO_TEST_CASE(texts_end) {
  graph g(1);
  const auto net = nn::named(gpt<float>(), "gpt");
  session s{g};
  nn::generator<3> write(s, net, {.max_tokens = 10, .end_token = 9, .temperature = 0});
  fill_model(s, net);
  const auto texts = write(prompts);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto whole = greedy()[i];
    const auto end = std::find(whole.begin(), whole.end(), 9);
    BOOST_CHECK(texts[i] == std::vector<std::int32_t>(whole.begin(), end == whole.end() ? end : end + 1));
  }
  const auto two =
      write(prompts, [count = std::make_shared<int>()](std::size_t, std::int32_t) { return ++*count < 4; });
  BOOST_CHECK_EQUAL(two[0].size() + two[1].size() + two[2].size(), 6u);
  // 8 and 10 tokens need 17 positions.
  nn::token_lists long_prompt{std::vector<std::int32_t>(8, 1)};
  nn::generator<3> endless(s, net, {.max_tokens = 10, .temperature = 0});
  BOOST_CHECK_NE(failure(error_code::out_of_range, [&] { endless(long_prompt); }).find("assign_slice"),
                 std::string::npos);
  // A text that ends at the last position, while others go on.
  const nn::token_lists full{std::vector<std::int32_t>(capacity, 1), {7}};
  const auto last = endless(full, [](std::size_t text, std::int32_t) { return text == 1; });
  BOOST_CHECK_EQUAL(last[0].size(), 1u);
  BOOST_CHECK(last[1] == greedy()[1]);
  failure(error_code::invalid_argument, [&] { write({{1}, {}}); });
  failure(error_code::invalid_argument, [&] { write({{1}, {1}, {1}, {1}}); });
  failure(error_code::out_of_range, [&] { write({{1, vocabulary}}); });
}

/// The scores of the token after a text, by a model of one row that reads the whole text.
struct scorer {
  using matrix = dims<1, dyn<"steps">>;
  graph g{1};
  gpt<double> net = nn::named(gpt<double>(), "gpt");
  node<std::int32_t, matrix> tokens = placeholder<std::int32_t, matrix>(g, "tokens");
  node<double, dims<1, dyn<"steps">, vocabulary>> logits =
      let(net(tokens, constant(g, tensor<std::int32_t, dims<1>>{0})));
  session s{g};
  scorer() { fill_model(s, net); }

  std::vector<double> logits_after(const std::vector<std::int32_t>& text) {
    tensor<std::int32_t, matrix> in(shape(1, static_cast<std::int64_t>(text.size())));
    std::copy(text.begin(), text.end(), in.data());
    const auto found = s.eval(logits, with(tokens, in));
    return {found.data() + (text.size() - 1) * vocabulary, found.data() + text.size() * vocabulary};
  }
  /// The log-probability of each token after the text.
  std::vector<double> operator()(const std::vector<std::int32_t>& text) {
    std::vector<double> x = logits_after(text);
    double sum = 0;
    for (const double e : x) sum += std::exp(e);
    for (double& e : x) e -= std::log(sum);
    return x;
  }
};

BOOST_AUTO_TEST_CASE(logits_must_be_numbers) {
  const auto net = [cache = nn::kv_cache<1, 1, 4>()](const auto& tokens, const auto& at) {
    using D = dims_t<std::remove_cvref_t<decltype(tokens)>>;
    constexpr auto steps = extent_of<D, 1>();
    const auto x = let(cast<float>(reshape<dims<1, 1, steps, 1>>(tokens)));
    const auto kept = cache.append(x, x, at);
    const auto y = attention(x, kept.keys, kept.values, {.causal = true}, query_position(kept.positions));
    const auto logits =
        let(expand_dims<2>(reshape<dims<1, steps>>(y)) * constant(graph_of(x), tensor<float, dims<3>>{1, 2, 3}));
    return let(logits / (2.f - cast<float>(expand_dims<2>(tokens))) * (2.f - cast<float>(expand_dims<2>(tokens))));
  };
  graph g;
  session s{g};
  for (const double temperature : {0., 1.}) {
    nn::generator<1> write(s, net, {.max_tokens = 1, .temperature = temperature});
    BOOST_CHECK_EQUAL(write({{2, 1}})[0].size(), 1u);
    CHECK_SAYS(failure(error_code::invalid_argument, [&] { write({{1, 2}}); }), "are not numbers");
  }
  nn::beam_search<1, 1> search(s, net, {.max_tokens = 1});
  CHECK_SAYS(failure(error_code::invalid_argument, [&] { search({{1, 2}}); }), "are not numbers");
}

BOOST_AUTO_TEST_CASE(a_seed_determines_the_text) {
  const auto texts = [](std::uint64_t seed, double top_p = 1, std::int64_t top_k = 0, double penalty = 1) {
    graph g(1);
    const auto net = nn::named(gpt<float>(), "gpt");
    session s{g};
    nn::generator<3> write(
        s, net, {.max_tokens = 11, .top_k = top_k, .top_p = top_p, .repetition_penalty = penalty, .seed = seed});
    fill_model(s, net);
    std::array<nn::token_lists, 2> both{write(prompts), write(prompts)};
    return both;
  };
  const auto first = texts(3);
  BOOST_CHECK(first == texts(3));
  BOOST_CHECK(first != texts(4));
  BOOST_CHECK(first[0] != first[1]);
  BOOST_CHECK(first[0] != greedy());
  const auto by_k = texts(3, 1, 1), by_p = texts(3, 1e-9);
  const nn::token_lists right = greedy();
  for (std::size_t i = 0; i < 3; ++i) {
    BOOST_CHECK(std::equal(right[i].begin(), right[i].end(), by_k[0][i].begin()));
    BOOST_CHECK(std::equal(right[i].begin(), right[i].end(), by_p[1][i].begin()));
  }
  // The penalty applies to the tokens of the prompt and of the text, as in transformers.
  scorer by_hand;
  const auto different = texts(3, 1, 1, 1.3)[0];
  for (std::size_t i = 0; i < 3; ++i) {
    std::vector<std::int32_t> whole = prompts[i];
    for (const std::int32_t token : different[i]) {
      std::vector<double> next = by_hand.logits_after(whole);
      for (std::int32_t t = 0; t < vocabulary; ++t)
        if (double& x = next[static_cast<std::size_t>(t)]; std::find(whole.begin(), whole.end(), t) != whole.end())
          x = x < 0 ? x * 1.3 : x / 1.3;
      BOOST_CHECK_EQUAL(token, std::max_element(next.begin(), next.end()) - next.begin());
      whole.push_back(token);
    }
  }
}

/// All continuations of a text of at most `left` tokens, the best of which beam search finds if it is wide enough.
void search(scorer& of, const std::vector<std::int32_t>& prompt, nn::scored_text text, int left, double penalty,
            int end, std::vector<nn::scored_text>& found) {
  const auto finish = [&](nn::scored_text t) {
    t.score /= std::pow(static_cast<double>(t.tokens.size()), penalty);
    found.push_back(t);
  };
  if (left == 0) return finish(text);
  std::vector<std::int32_t> whole = prompt;
  whole.insert(whole.end(), text.tokens.begin(), text.tokens.end());
  const std::vector<double> next = of(whole);
  for (std::int32_t t = 0; t < vocabulary; ++t) {
    nn::scored_text longer = text;
    longer.tokens.push_back(t);
    longer.score += next[static_cast<std::size_t>(t)];
    if (t == end)
      finish(longer);
    else
      search(of, prompt, longer, left - 1, penalty, end, found);
  }
}

BOOST_AUTO_TEST_CASE(a_wide_beam_search_finds_the_best_texts) {
  // 11 + 10 * 11 texts of at most 2 tokens, and 121 beams: nothing is cut.
  scorer by_hand;
  for (const double penalty : {0.0, 1.0, 2.0}) {
    graph g(1);
    const auto net = nn::named(gpt<double>(), "gpt");
    session s{g};
    nn::beam_search<2, 40> find(s, net, {.max_tokens = 2, .end_token = 9, .length_penalty = penalty});
    fill_model(s, net);
    const auto found = find({prompts[0], prompts[1]});
    for (std::size_t i = 0; i < 2; ++i) {
      std::vector<nn::scored_text> all;
      search(by_hand, prompts[i], {}, 2, penalty, 9, all);
      std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
      BOOST_REQUIRE_EQUAL(found[i].size(), 40u);
      for (std::size_t k = 0; k < 5; ++k) {
        BOOST_CHECK(found[i][k].tokens == all[k].tokens);
        BOOST_CHECK_CLOSE(found[i][k].score, all[k].score, 1e-9);
      }
    }
  }
}

/// A beam search by whole texts, without caches: transformers' rules.
std::vector<nn::scored_text> search_by_hand(scorer& of, const std::vector<std::int32_t>& prompt, std::size_t width,
                                            int max_tokens, int end, double penalty) {
  std::vector<nn::scored_text> beams{{}}, found;
  const auto finish = [&](nn::scored_text t) {
    t.score /= std::pow(static_cast<double>(t.tokens.size()), penalty);
    found.push_back(t);
  };
  for (int n = 0; n < max_tokens; ++n) {
    std::vector<nn::scored_text> all;
    for (const nn::scored_text& b : beams) {
      std::vector<std::int32_t> whole = prompt;
      whole.insert(whole.end(), b.tokens.begin(), b.tokens.end());
      const auto next = of(whole);
      for (std::int32_t t = 0; t < vocabulary; ++t) {
        all.push_back(b);
        all.back().tokens.push_back(t);
        all.back().score += next[static_cast<std::size_t>(t)];
      }
    }
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
    beams.clear();
    for (std::size_t rank = 0; rank < all.size() && rank < 2 * width && beams.size() < width; ++rank)
      if (all[rank].tokens.back() != end)
        beams.push_back(all[rank]);
      else if (rank < width)
        finish(all[rank]);
  }
  for (const auto& b : beams) finish(b);
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
  if (found.size() > width) found.resize(width);
  return found;
}

template <int Width>
void compare_beams(double penalty, int end) {
  scorer by_hand;
  graph g(1);
  const auto net = nn::named(gpt<double>(), "gpt");
  session s{g};
  nn::beam_search<3, Width> find(s, net, {.max_tokens = 9, .end_token = end, .length_penalty = penalty});
  fill_model(s, net);
  for (int repeat = 0; repeat < 2; ++repeat) {
    const auto found = find(prompts);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const auto right = search_by_hand(by_hand, prompts[i], Width, 9, end, penalty);
      BOOST_REQUIRE_EQUAL(found[i].size(), right.size());
      for (std::size_t k = 0; k < right.size(); ++k) {
        BOOST_CHECK(found[i][k].tokens == right[k].tokens);
        BOOST_CHECK_CLOSE(found[i][k].score, right[k].score, 1e-9);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(beams_branch_in_place) {
  for (const double penalty : {0.0, 1.0}) compare_beams<4>(penalty, 9);
  compare_beams<3>(1.0, -1);
}

BOOST_AUTO_TEST_CASE(a_beam_of_one_text_is_greedy) {
  graph g(1);
  const auto net = nn::named(gpt<float>(), "gpt");
  session s{g};
  nn::beam_search<3, 1> find(s, net, {.max_tokens = 10});
  fill_model(s, net);
  const auto found = find(prompts);
  for (std::size_t i = 0; i < 3; ++i) BOOST_CHECK(found[i][0].tokens == greedy()[i]);
}

/// A stack of transformer layers with rotary positions, with caches or without.
struct stack {
  nn::transformer_encoder<nn::transformer_encoder_layer<2, 16>, 2> encoder{
      {.norm_first = true, .causal = true, .rotary = nn::rotary{.base = 100}}};
  std::array<nn::kv_cache<2, 4, 8>, 2> caches;
};

BOOST_AUTO_TEST_CASE(attention_layers_take_caches_in_order) {
  graph g(1);
  const auto net = nn::named(stack(), "stack");
  using operand = dims<2, dyn<"steps">, 8>;
  const auto x = placeholder<float, operand>(g, "x");
  const auto at = placeholder<std::int32_t, dims<2>>(g, "at");
  const auto whole = let(net.encoder(x)), part = let(net.encoder(x, nn::cached(net.caches, at)));
  session s{g};
  tensor<float, operand> in(shape(2, 6, 8));
  for (std::size_t i = 0; i < in.elements(); ++i) in.data()[i] = std::sin(static_cast<float>(i * i));
  const auto right = s.eval(whole, with(x, in));
  for (std::int64_t from = 0, steps = 4; from < 6; from += steps, steps = 1) {
    tensor<float, operand> some(shape(2, steps, 8));
    for (int b = 0; b < 2; ++b)
      for (std::int64_t i = 0; i < steps; ++i)
        for (int f = 0; f < 8; ++f) some(b, i, f) = in(b, from + i, f);
    const auto n = static_cast<std::int32_t>(from);
    const auto found = s.eval(part, with(x, some), with(at, tensor<std::int32_t, dims<2>>{n, n}));
    for (int b = 0; b < 2; ++b)
      for (std::int64_t i = 0; i < steps; ++i)
        for (int f = 0; f < 8; ++f) BOOST_CHECK_SMALL(found(b, i, f) - right(b, from + i, f), 1e-5f);
  }
  const std::array<nn::kv_cache<2, 4, 8>, 1> one;
  failure(error_code::invalid_argument, [&] { net.encoder(x, nn::cached(one, at)); });
  failure(error_code::invalid_argument, [&] { net.encoder(x, nn::cached(nn::kv_cache<1, 8, 8>(), at)); });
}

/// An encoder whose result a decoder attends to.
struct translator {
  nn::embedding<5, 8> sources, targets;
  nn::transformer_encoder<nn::transformer_encoder_layer<2, 16>, 1> encoder;
  nn::transformer_decoder<nn::transformer_decoder_layer<2, 16>, 2> decoder{
      {.norm_first = true, .causal = true, .rotary = nn::rotary{}}, true};
  nn::dense<5> logits;

  auto operator()(const auto& text, const auto& memory, const auto&... more) const {
    return let(logits(decoder(targets(text), memory, more...)));
  }
};

BOOST_AUTO_TEST_CASE(beams_of_a_decoder_read_the_memory_of_an_encoder) {
  constexpr int beams = 3, sources = 2, rows = beams * sources, tokens = 4;
  graph g(11);
  const auto net = nn::named(translator(), "translator");
  const auto source = placeholder<std::int32_t, dims<sources, 3>>(g, "source");
  const auto text = placeholder<std::int32_t, dims<sources, dyn<"steps">>>(g, "text");
  const auto encoded = let(net.encoder(net.sources(source)));
  const auto memory = variable<float, dims<rows, 3, 8>>(g, "memory", init::zeros{}, variable_kind::local);
  const auto set =
      assign(memory, reshape<dims<rows, 3, 8>>(broadcast_to<dims<sources, beams, 3, 8>>(expand_dims<1>(encoded))));
  const auto logits = log_softmax(net(text, encoded));
  const std::array<nn::kv_cache<2, 4, 8>, 2> caches;
  session s{g};
  nn::beam_search<sources, beams> find(
      s, [&](const auto& t, const auto& at) { return net(t, memory, nn::cached(caches, at)); },
      {.max_tokens = tokens, .length_penalty = 0});
  const tensor<std::int32_t, dims<sources, 3>> words{1, 2, 3, 4, 0, 2};
  s.run(fetch(set), with(source, words));
  const auto found = find({{0}, {2}});
  BOOST_REQUIRE_EQUAL(found.size(), std::size_t{sources});
  for (std::size_t k = 0; k < beams; ++k) {
    tensor<std::int32_t, dims<sources, dyn<"steps">>> whole(shape(sources, tokens));
    for (std::size_t i = 0; i < sources; ++i) {
      BOOST_REQUIRE_EQUAL(found[i][k].tokens.size(), std::size_t{tokens});
      whole.data()[i * tokens] = i == 0 ? 0 : 2;
      std::copy_n(found[i][k].tokens.begin(), tokens - 1, whole.data() + i * tokens + 1);
    }
    const auto all = s.eval(logits, with(source, words), with(text, whole));
    for (std::size_t i = 0; i < sources; ++i) {
      double score = 0;
      for (std::size_t t = 0; t < tokens; ++t)
        score +=
            static_cast<double>(all.data()[(i * tokens + t) * 5 + static_cast<std::size_t>(found[i][k].tokens[t])]);
      BOOST_CHECK_CLOSE(found[i][k].score, score, 1e-2);
    }
  }
}

/// A GPT-2 with caches writes the texts that it writes when it reads each whole text again.
template <auto Rows, class T>
void compare_with_whole_texts(graph& g, std::size_t rows) {
  constexpr nn::gpt2_options sizes{
      .layers = 2, .heads = heads, .width = features, .vocabulary = vocabulary, .context = context};
  const auto net = nn::named(nn::gpt2<sizes, T>{.stddev = 0.7}, "gpt2");
  const std::array<nn::kv_cache<heads, features / heads, context, T>, 2> caches;
  using texts = dims<dyn<"texts">, dyn<"steps">>;
  const auto ids = placeholder<std::int32_t, texts>(g, "ids");
  const auto logits = net(ids);
  session s{g};
  const auto next = [&](const auto& tokens, const auto& at) { return net(tokens, nn::cached(caches, at)); };
  nn::generator<Rows> write(s, next, {.max_tokens = 9, .temperature = 0});
  nn::token_lists whole(prompts.begin(), prompts.begin() + static_cast<std::ptrdiff_t>(rows));
  const nn::token_lists written = write(whole);
  BOOST_CHECK(write(whole) == written);
  for (std::size_t i = 0; i < rows; ++i)
    for (const std::int32_t token : written[i]) {
      const auto size = static_cast<std::int64_t>(whole[i].size());
      tensor<std::int32_t, texts> in(shape(1, size));
      std::copy(whole[i].begin(), whole[i].end(), in.data());
      const auto found = s.eval(logits, with(ids, in));
      const T* const last = found.data() + (size - 1) * vocabulary;
      BOOST_CHECK_EQUAL(token, std::max_element(last, last + vocabulary) - last);
      whole[i].push_back(token);
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(gpt2_takes_caches, T, element_types) {
  for (const std::size_t rows : {std::size_t{1}, std::size_t{3}}) {
    graph g(5);
    g.set(dyn<"batch">, rows);
    compare_with_whole_texts<dyn<"batch">, T>(g, rows);
  }
  graph g(6);
  compare_with_whole_texts<3, T>(g, 3);

  const nn::gpt2<nn::gpt2_options{.layers = 1, .heads = 2, .width = 8, .vocabulary = 5, .context = 6}> net;
  const nn::kv_cache<2, 4, 6> cache;
  const auto ids = placeholder<std::int32_t, dims<2, 3>>(g, "ids");
  const auto places = placeholder<std::int32_t, dims<3>>(g, "places");
  const auto counts = placeholder<std::int64_t, dims<2>>(g, "counts");
  failure(error_code::invalid_argument, [&] { net(ids, nn::cached(cache, places)); });
  failure(error_code::invalid_argument, [&] { net(ids, nn::cached(cache, counts)); });
}

BOOST_AUTO_TEST_CASE(texts_of_a_matrix) {
  using matrix = tensor<std::int32_t, dims<dyn<"texts">, dyn<"steps">>>;
  const matrix padded(shape(2, 3), {1, 2, 3, 4, 5, 6});
  BOOST_CHECK((nn::unpadded(padded, {2, 3}) == nn::token_lists{{1, 2}, {4, 5, 6}}));
  BOOST_CHECK((nn::unpadded(padded, {1, 0}, nn::padding_side::left) == nn::token_lists{{3}, {}}));
  failure(error_code::invalid_argument, [&] { nn::unpadded(padded, {2}); });
  failure(error_code::out_of_range, [&] { nn::unpadded(padded, {2, 4}); });
}

}  // namespace
