// SPDX-License-Identifier: BSL-1.0
// word2vec (Mikolov et al., Distributed Representations of Words and Phrases and their Compositionality, 2013):
// skip-gram with negative sampling, in one process, or by workers whose tables are on parameter servers. A step reads
// some rows of the tables, and a worker sends the gradients of these rows alone. A made corpus mixes common words with
// those of 20 topics, so the nearest words of a word must be of its topic. In the usual run, 95% of them are, or the
// program ends with an error. `--help` lists the flags.
//
//   weft_launch -n 3 --ps 1 -- word2vec --strategy async    (on a cluster of a parameter server and two workers)
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <weft/distributed.hpp>
#include <weft/distributed/cluster/environment.hpp>
#include <weft/distributed/parameter/update_rule.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/ops/index/sort.hpp>
#include <weft/ops/losses/classification.hpp>
#include <weft/train/adagrad.hpp>
#include <weft/train/supervised_session.hpp>
#include <weft/weft.hpp>

#include "../command_line.hpp"
#include "../result_file.hpp"

using namespace weft;

namespace {

constexpr double stated_share = 0.95;
constexpr const char* topics[] = {"sea",  "wood",  "bread", "song", "road", "cloth", "law",  "star",  "horse", "wine",
                                  "king", "metal", "rain",  "game", "ship", "paint", "bird", "money", "house", "war"};
constexpr int topic_count = 20, words_of_topic = 40, common_words = 50;
constexpr int topic_words = topic_count * words_of_topic, vocabulary = topic_words + common_words;
constexpr int width = 32, negatives = 5, nearest_words = 5, window = 3;
constexpr std::size_t sentence = 20;  // words

struct flags {
  std::string strategy = "local";
  std::int64_t steps = 8000, batch_size = 256, sentences = 20'000, threads = 0, seed = 1;
  double learning_rate = 1;
};

std::string name_of(std::int32_t word) {
  if (word >= topic_words) return "the" + std::to_string(word - topic_words);
  return topics[word / words_of_topic] + std::to_string(word % words_of_topic);
}

/// Makes sentences of one topic each. Three words of ten are common to all topics.
std::vector<std::int32_t> make_corpus(const flags& f) {
  std::mt19937_64 random(static_cast<std::uint64_t>(f.seed));
  std::vector<std::int32_t> words;
  for (std::int64_t i = 0; i < f.sentences; ++i) {
    const auto topic = static_cast<std::int32_t>(random() % topic_count);
    for (std::size_t k = 0; k < sentence; ++k)
      words.push_back(random() % 10 < 3
                          ? topic_words + static_cast<std::int32_t>(random() % common_words)
                          : topic * words_of_topic + static_cast<std::int32_t>(random() % words_of_topic));
  }
  return words;
}

using batch_dims = dims<dyn<"batch">>;
using others_dims = dims<dyn<"batch">, negatives>;

/// Pairs of near words of a sentence and, for each pair, words that are drawn from the whole corpus.
class pairs {
 public:
  tensor<std::int32_t, batch_dims> word, context;
  tensor<std::int32_t, others_dims> others;

  pairs(const std::vector<std::int32_t>& corpus, std::int64_t count, std::uint64_t seed)
      : word(shape(count)), context(shape(count)), others(shape(count, negatives)), corpus_(corpus), random_(seed) {}

  void draw() {
    for (std::int64_t i = 0; i < word.extent(0); ++i) {
      const std::size_t at = random_() % (corpus_.size() - window), by = 1 + random_() % window;
      const std::size_t to = at % sentence + by < sentence ? at + by : at - by;
      const bool turned = random_() % 2 == 0;
      word(i) = corpus_[turned ? to : at], context(i) = corpus_[turned ? at : to];
      for (int k = 0; k < negatives; ++k) others(i, k) = corpus_[random_() % corpus_.size()];
    }
  }

 private:
  const std::vector<std::int32_t>& corpus_;
  std::mt19937_64 random_;
};

struct skip_gram {
  graph g;
  node<std::int32_t, batch_dims> word = placeholder<std::int32_t, batch_dims>(g, "word");
  node<std::int32_t, batch_dims> context = placeholder<std::int32_t, batch_dims>(g, "context");
  node<std::int32_t, others_dims> others = placeholder<std::int32_t, others_dims>(g, "others");
  node<float> loss;
  effect train;
  node<std::int32_t, dims<topic_words, nearest_words + 1>> nearest;  ///< the words that are nearest, itself included

  explicit skip_gram(const flags& f) : g(static_cast<std::uint64_t>(f.seed)) {
    auto words = variable<float, dims<vocabulary, width>>(g, "words", init::uniform{-0.1, 0.1});
    auto contexts = variable<float, dims<vocabulary, width>>(g, "contexts", init::zeros{});
    const auto x = gather(words, word);
    const auto score = sum<1>(x * gather(contexts, context));
    const auto score_of_others = sum<2>(expand_dims<1>(x) * gather(contexts, others));
    loss = mean(sigmoid_cross_entropy(score, 1) + sum<1>(sigmoid_cross_entropy(score_of_others, 0)));
    train = adagrad{.learning_rate = f.learning_rate}.minimize(loss);

    const auto of_topics = slice<0, 0, topic_words>(words);
    const auto directions = let(of_topics / expand_dims<1>(sqrt(sum<1>(square(of_topics)))));
    nearest = top_k<nearest_words + 1>(matmul<transpose_of::b>(directions, directions)).indices;
  }
};

/// Returns the share of the nearest words of topics' words that are of the same topic. Prints those of three words.
double share_of_topic(session& s, const skip_gram& m) {
  const auto nearest = s.eval(m.nearest);
  std::int64_t right = 0;
  for (std::int32_t word = 0; word < topic_words; ++word) {
    std::string shown = name_of(word) + ":";
    for (int k = 0, count = 0; count < nearest_words; ++k) {
      const std::int32_t other = nearest(word, k);
      if (other == word) continue;
      shown += " " + name_of(other), ++count;
      right += other / words_of_topic == word / words_of_topic;
    }
    if (word % (topic_words / 3) == 0 && word < topic_words - 3) std::printf("%s\n", shown.c_str());
  }
  return static_cast<double>(right) / (topic_words * nearest_words);
}

/// Trains by a session, or a replicated session, whose own session is `local`. Returns the share of near words that are
/// right, in the process that reports.
template <class Session>
std::optional<double> train(const flags& f, Session& s, session& local, const skip_gram& m, int worker, int workers) {
  const std::vector<std::int32_t> corpus = make_corpus(f);
  pairs batch(corpus, f.batch_size, static_cast<std::uint64_t>(f.seed * workers + worker));
  supervised_session run(s, {}, {stop_at_step(f.steps)});
  auto step = run.prepare(fetch(m.loss, m.train), feed(m.word, m.context, m.others));
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 1; !run.should_stop(); ++i) {
    batch.draw();
    const double loss = static_cast<double>(std::get<0>(step(batch.word, batch.context, batch.others)));
    check_cost(loss, run.global_step(), f.learning_rate);
    if (worker == 0 && i % 1000 == 0) {
      std::printf("step %lld: cost %.4f\n", static_cast<long long>(run.global_step()), loss);
      std::fflush(stdout);
    }
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::int64_t steps = run.global_step();
  run.close();
  if (run.signal() != 0) end_by_signal(run.signal());
  if (worker != 0) return {};
  const double share = share_of_topic(local, m);
  std::printf("%.4f of the nearest words are of the same topic\n%.0f pairs/s, %.1f s of training\n", share,
              static_cast<double>(steps * f.batch_size) / seconds, seconds);
  return share;
}

/// A task of a cluster: a parameter server, or a worker.
std::optional<double> take_part(const flags& f) {
  environment_options options;
  options.ps = 1;  // weft_launch sets another number
  server here(cluster_spec::from_environment(options));
  if (here.job() == "ps") {
    const join_report ended = here.join();
    if (ended.signal != 0) {
      here.stop();
      end_by_signal(ended.signal);
    }
    if (ended.interrupted) throw *ended.interrupted;
    if (ended.finished.empty()) refuse("no worker has finished");
    return {};
  }
  const skip_gram m(f);
  const auto train_by = [&](auto strategy) {
    replicated_session s(m.g, here, strategy, {.threads = static_cast<int>(f.threads)});
    return train(f, s, s.local(), m, here.index(), here.cluster().num_tasks("worker"));
  };
  if (f.strategy == "sync") return train_by(parameter_server<synchronous>{});
  return train_by(parameter_server<asynchronous>{});
}

std::optional<double> train_alone(const flags& f) {
  const skip_gram m(f);
  session s{m.g, {.threads = static_cast<int>(f.threads)}};
  return train(f, s, s, m, 0, 1);
}

}  // namespace

int main(int argc, char** argv) try {
  flags f;
  std::optional<double> least_share;
  command_line line("Trains word2vec on a made corpus, in one process or on parameter servers");
  line.add("strategy", f.strategy, {"local", "async", "sync"},
           "local: one process; async, sync: a task of a cluster that a launcher names");
  line.add("steps", f.steps, 1, 1'000'000'000, "steps, in total over all workers if async");
  line.add("batch_size", f.batch_size, 1, 100'000, "pairs of words per step");
  line.add("sentences", f.sentences, 1, 10'000'000, "sentences of 20 words in the corpus");
  line.add("learning_rate", f.learning_rate, "learning rate of adagrad");
  line.add("threads", f.threads, 0, max_threads(), "threads for computation; 0: one per core");
  line.add("seed", f.seed, 0, 1'000'000'000, "seed of the corpus, the initial tables and the pairs");
  line.add("least_share", least_share, 1, "fail if fewer of the nearest words are right; 0.95 for the default flags");
  if (!line.parse(argc, argv)) {
    check_output();
    return 0;
  }
  const flags usual;
  const bool is_usual = f.steps == usual.steps && f.batch_size == usual.batch_size && f.sentences == usual.sentences &&
                        f.learning_rate == usual.learning_rate;
  update_rules::add<adagrad>();  // parameter servers find optimizers by name
  const std::optional<double> share = f.strategy == "local" ? train_alone(f) : take_part(f);
  check_output();
  const double least = least_share ? *least_share : is_usual ? stated_share : 0;
  if (share && !(*share >= least)) refuse(std::to_string(*share) + " of the nearest words are right: too few");
} catch (...) {
  return tell_failure();
}
