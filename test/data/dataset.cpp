#include <boost/test/unit_test.hpp>

#include <weft/data/dataset.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

using namespace weft;

namespace {

constexpr int features = 3;

/// Example i is {i, i + 1, i + 2} / 255 with label i.
data::dataset<features> numbers(int count) {
  std::vector<std::uint8_t> values;
  std::vector<std::int32_t> labels;
  for (int i = 0; i < count; ++i) {
    for (int j = 0; j < features; ++j) values.push_back(static_cast<std::uint8_t>(i + j));
    labels.push_back(i);
  }
  return {values, labels};
}

std::vector<std::size_t> order(const data::dataset<features>& d) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < d.size(); ++i) all.push_back(d.index(i));
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(batches_hold_every_example_and_the_last_is_what_is_left) {
  std::vector<std::int64_t> sizes;
  std::int32_t next = 0;
  for (auto [x, y] : numbers(10).batches(4)) {
    sizes.push_back(x.extent(0));
    BOOST_TEST(x.extent(1) == features);
    BOOST_TEST(y.extent(0) == x.extent(0));
    for (std::int64_t i = 0; i < x.extent(0); ++i, ++next) {
      BOOST_TEST(y(i) == next);
      for (int j = 0; j < features; ++j) BOOST_TEST(x(i, j) == static_cast<float>(next + j) / 255.0f);
    }
  }
  BOOST_TEST(sizes == (std::vector<std::int64_t>{4, 4, 2}), boost::test_tools::per_element());
  BOOST_TEST(numbers(10).batch_count(4) == 3u);
}

BOOST_AUTO_TEST_CASE(batches_reuse_their_tensors_unless_they_are_kept) {
  std::set<const float*> places;
  for (auto [x, y] : numbers(100).batches(10)) places.insert(std::as_const(x).data());
  BOOST_TEST(places.size() == 1u);

  std::vector<tensor<std::int32_t, dims<dyn<"batch">>>> kept;
  for (auto [x, y] : numbers(30).batches(10)) kept.push_back(y);
  for (int i = 0; i < 3; ++i) BOOST_TEST(std::as_const(kept[static_cast<std::size_t>(i)])(0) == 10 * i);
}

BOOST_AUTO_TEST_CASE(no_examples_make_no_batch) {
  for (auto [x, y] : numbers(0).batches(4)) BOOST_ERROR("a batch of nothing");
  BOOST_CHECK_THROW(numbers(4).batches(0), error);
}

BOOST_AUTO_TEST_CASE(a_shuffle_is_a_permutation_of_seed_and_epoch_alone) {
  const auto d = numbers(200);
  const auto once = order(d.shuffled(1, 2));
  BOOST_TEST(once == order(numbers(200).shuffled(1, 2)), boost::test_tools::per_element());
  BOOST_TEST((once != order(d.shuffled(1, 3))));
  BOOST_TEST((once != order(d.shuffled(2, 2))));
  BOOST_TEST((once != order(d)));
  auto sorted = once;
  std::sort(sorted.begin(), sorted.end());
  BOOST_TEST(sorted == order(d), boost::test_tools::per_element());
  // The bits themselves: they may not change from one release to the next.
  BOOST_TEST(order(numbers(8).shuffled(1)) == (std::vector<std::size_t>{4, 3, 1, 2, 0, 6, 5, 7}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_shuffle_favours_no_place) {
  std::vector<int> first(10);
  for (std::uint64_t epoch = 0; epoch < 10'000; ++epoch) ++first[numbers(10).shuffled(7, epoch).index(0)];
  for (int count : first) BOOST_TEST((count > 850 && count < 1150));
}

BOOST_AUTO_TEST_CASE(shards_are_disjoint_and_whole) {
  const auto d = numbers(11).shuffled(5);
  std::multiset<std::size_t> seen;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto part = d.shard(i, 3);
    BOOST_TEST((part.size() == 3 || part.size() == 4));
    for (std::size_t example : order(part)) seen.insert(example);
  }
  std::vector<std::size_t> all(11);
  std::iota(all.begin(), all.end(), 0u);
  BOOST_TEST(seen == std::multiset<std::size_t>(all.begin(), all.end()), boost::test_tools::per_element());
  BOOST_CHECK_THROW(d.shard(3, 3), error);
}

BOOST_AUTO_TEST_CASE(together_the_shards_batches_are_the_whole_ones) {
  // What a synchronous step on two workers sees is what a single process sees on a batch of twice the size.
  const auto d = numbers(40).shuffled(9);
  const auto a = d.shard(0, 2), b = d.shard(1, 2);
  std::multiset<std::size_t> whole, halves;
  for (std::size_t i = 20; i < 40; ++i) whole.insert(d.index(i));
  for (std::size_t i = 10; i < 20; ++i) halves.insert({a.index(i), b.index(i)});
  BOOST_TEST(whole == halves, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(values_and_labels_must_fit) {
  BOOST_CHECK_THROW(data::dataset<features>({1, 2, 3, 4}, {0}), error);
  BOOST_CHECK_THROW(data::dataset<features>({1, 2, 3}, {0, 1}), error);
}
