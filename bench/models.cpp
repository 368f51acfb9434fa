// SPDX-License-Identifier: BSL-1.0
// Times a training step, or inference, of convolutional networks and a GPT, and one more token with caches, as
// peers/model_step.py times PyTorch's: the same layers, numbers in memory, momentum 0.9. Prints one JSON object for
// each: median and minimum of a step.
#include <array>
#include <cstdint>
#include <cstdio>
#include <weft/nn.hpp>
#include <weft/nn/kv_cache.hpp>
#include <weft/nn/positions.hpp>
#include <weft/weft.hpp>

#include "networks.hpp"
#include "timing.hpp"

using namespace weft;

namespace {

constexpr const char* usage =
    "bench_models [lenet|gpt|gpt_token [--batch N] [--threads N] [--infer] [--explain]] [--seconds S]";

struct asked {
  int batch, threads;
  bool infer, explain;
  double seconds;
};

void lenet(const asked& a) {
  graph g(1);
  auto images = placeholder<float, bench::lenet_images>(g, "images");
  auto labels = placeholder<std::int32_t, bench::label_dims>(g, "labels");
  const bench::network n = bench::lenet(g, images, labels);

  session s{g, {.threads = a.threads}};
  const auto x = bench::random_images<bench::lenet_images>(shape(a.batch, 28, 28, 1));
  const auto y = bench::some_labels(a.batch);
  bench::timing t;
  const bench::window window{.seconds = a.seconds, .warm_up = 3, .at_most = 1'000'000};
  if (a.infer) {
    auto step = s.prepare(fetch(n.logits), feed(images));
    t = bench::time(window, [&] { return step(x); });
    if (a.explain) std::fputs(step.explain().c_str(), stdout);
  } else {
    auto step = s.prepare(fetch(n.loss, n.train), feed(images, labels));
    t = bench::time(window, [&] { return step(x, y); });
    if (a.explain) std::fputs(step.explain().c_str(), stdout);
  }
  std::printf(
      "{\"peer\": \"weft\", \"model\": \"lenet\", \"mode\": \"%s\", \"batch\": %d, \"threads\": %d, \"ms_median\": "
      "%.4f, \"ms_min\": %.4f, \"items_per_s\": %.2f}\n",
      a.infer ? "infer" : "train", a.batch, a.threads, t.median * 1e3, t.least * 1e3, a.batch / t.median);
  std::fflush(stdout);
}

/// A block of the GPT of peers/model_step.py.
struct block {
  nn::layer_norm<> norm1{.epsilon = 1e-5}, norm2{.epsilon = 1e-5};
  nn::dense<768> qkv;
  nn::dense<256> out, down;
  nn::dense<1024> up{.activation = nn::gelu};
  nn::kv_cache<4, 64, 256> cache;

  auto after(const auto& x, const auto& attended) const {
    const auto y = let(x + out(attended));
    return let(y + down(up(norm2(y))));
  }
  template <class X>
  auto operator()(const X& x, const auto& at) const {
    constexpr auto batch = extent_of<dims_t<X>, 0>();
    const auto [q, k, v] = split<2, 3>(qkv(norm1(x)));
    const auto heads = [&](const auto& h) { return transpose<0, 2, 1, 3>(reshape<dims<batch, 1, 4, 64>>(h)); };
    const auto [keys, values, first] = cache.append(heads(k), heads(v), at);
    const auto h = attention(heads(q), keys, values, {.causal = true}, query_position(first));
    return after(x, reshape<dims<batch, 1, 256>>(transpose<0, 2, 1, 3>(h)));
  }
  /// Without a cache.
  auto operator()(const node<float, dims<8, 256, 256>>& x) const {
    const auto [q, k, v] = split<2, 3>(qkv(norm1(x)));
    const auto heads = [](const auto& h) { return transpose<0, 2, 1, 3>(reshape<dims<8, 256, 4, 64>>(h)); };
    const auto h = attention(heads(q), heads(k), heads(v), {.causal = true});
    return after(x, reshape<dims<8, 256, 256>>(transpose<0, 2, 1, 3>(h)));
  }
};
struct gpt {
  nn::embedding<256, 256> words;
  nn::positional_embedding<256> places;
  std::array<block, 4> blocks;
  nn::layer_norm<> norm{.epsilon = 1e-5};

  auto operator()(const auto& token, const auto& at) const {
    auto h = let(places(words(token), nn::step_positions(at, token)));
    for (const block& b : blocks) h = b(h, at);
    return matmul<transpose_of::b>(norm(h), words.table);
  }
  auto operator()(const node<std::int32_t, dims<8, 256>>& ids) const {
    auto h = let(places(words(ids)));
    for (const block& b : blocks) h = b(h);
    return matmul<transpose_of::b>(norm(h), words.table);
  }
};

/// A training step of 8 texts of 256 tokens.
void gpt_train(const asked& a) {
  graph g(1);
  const auto ids = placeholder<std::int32_t, dims<8, 256>>(g, "ids"),
             next = placeholder<std::int32_t, dims<8, 256>>(g, "next");
  const auto net = nn::named(gpt(), "gpt");
  const auto loss = mean(softmax_cross_entropy(net(ids), next));
  const auto train = momentum{.learning_rate = 1e-3, .momentum = 0.9}.minimize(loss);
  session s{g, {.threads = a.threads}};
  auto step = s.prepare(fetch(loss, train), feed(ids, next));
  tensor<std::int32_t, dims<8, 256>> x, y;
  for (int i = 0; i < 8 * 256; ++i) x.data()[i] = i * 7919 % 256, y.data()[i] = i * 104729 % 256;
  const auto t = bench::time({.seconds = a.seconds, .warm_up = 3, .at_most = 1'000'000}, [&] { return step(x, y); });
  if (a.explain) std::fputs(step.explain().c_str(), stdout);
  std::printf(
      "{\"peer\": \"weft\", \"model\": \"gpt\", \"mode\": \"train\", \"batch\": 8, \"threads\": %d, "
      "\"ms_median\": %.4f, \"ms_min\": %.4f, \"items_per_s\": %.2f}\n",
      a.threads, t.median * 1e3, t.least * 1e3, 8 / t.median);
  std::fflush(stdout);
}

/// Token 255 of texts, whose earlier keys and values are cached.
template <int Batch>
void gpt_token(const asked& a) {
  graph g(1);
  const auto token = placeholder<std::int32_t, dims<Batch, 1>>(g, "token");
  const auto at = placeholder<std::int32_t, dims<Batch>>(g, "at");
  const auto net = nn::named(gpt(), "gpt");
  const auto logits = let(net(token, at));
  session s{g, {.threads = a.threads}};
  auto step = s.prepare(fetch(logits), feed(token, at));
  tensor<std::int32_t, dims<Batch, 1>> tokens;
  tensor<std::int32_t, dims<Batch>> positions;
  for (int b = 0; b < Batch; ++b) tokens(b, 0) = b * 7 % 256, positions(b) = 255;
  const auto t =
      bench::time({.seconds = a.seconds, .warm_up = 3, .at_most = 1'000'000}, [&] { return step(tokens, positions); });
  if (a.explain) std::fputs(step.explain().c_str(), stdout);
  std::printf(
      "{\"peer\": \"weft\", \"model\": \"gpt_token\", \"mode\": \"infer\", \"batch\": %d, \"threads\": %d, "
      "\"ms_median\": %.4f, \"ms_min\": %.4f, \"items_per_s\": %.2f}\n",
      Batch, a.threads, t.median * 1e3, t.least * 1e3, Batch / t.median);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  bench::arguments a(argc, argv);
  const double seconds = a.take("--seconds", 15.0);
  if (a.empty()) {
    lenet({64, 2, false, false, seconds});
    lenet({1, 2, true, false, seconds});
    gpt_train({8, 2, false, false, seconds});
    gpt_token<1>({1, 2, true, false, seconds});
    gpt_token<8>({8, 2, true, false, seconds});
    return 0;
  }
  const bool token = a.take("gpt_token"), whole = a.take("gpt");
  a.take("lenet");
  const bool infer = a.take("--infer"), explain = a.take("--explain");
  const int batch = a.take("--batch", infer || token ? 1 : 64), threads = a.take("--threads", 2);
  a.finish(usage);
  const asked what{batch, threads, infer, explain, seconds};
  if (whole) return gpt_train(what), 0;
  if (token) return batch == 1 ? gpt_token<1>(what) : gpt_token<8>(what), 0;
  lenet({batch, threads, infer, explain, seconds});
}
