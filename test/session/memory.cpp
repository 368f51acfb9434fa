// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>
#include <weft/ops/index/gather.hpp>
#include <weft/session/step_plan.hpp>
#include <weft/weft.hpp>

#include "counted_allocations.hpp"
#include "errors.hpp"

using namespace weft;
using test::allocations_of;

namespace {

using batch = dims<dyn<"batch">>;
using images = dims<dyn<"batch">, 20>;

// A user's allocator: counts, and gives out of one region until that is used up.
struct region {
  static inline std::size_t blocks = 0, bytes = 0, most = std::size_t{1} << 20;
  static inline bool crooked = false;
  static void* allocate(std::size_t n) {
    if (bytes + n > most) throw std::bad_alloc();
    ++blocks;
    bytes += n;
    std::byte* const p = static_cast<std::byte*>(std::aligned_alloc(128, (n + 255) / 128 * 128));
    return crooked ? p + 8 : p;
  }
  static void deallocate(void* p) {
    --blocks;
    std::free(static_cast<std::byte*>(p) - (crooked ? 8 : 0));
  }
};
static_assert(Allocator<region> && Allocator<host_allocator> && !Allocator<int>);

}  // namespace

BOOST_AUTO_TEST_CASE(the_counter_counts) {
  if (!COUNTS_MALLOC) return;
  BOOST_CHECK_GE(allocations_of([] {
                   void* volatile p = ::operator new(100);
                   ::operator delete(p);
                   p = ::operator new(100, std::align_val_t{64});
                   ::operator delete(p, std::align_val_t{64});
                   p = std::malloc(10);
                   std::free(p);
                 }),
                 3u);
}

BOOST_AUTO_TEST_CASE(the_steady_state_allocates_nothing) {
  for (const int threads : {1, 2}) {
    graph g;
    const auto x = placeholder<float, images>(g);
    const auto labels = placeholder<std::int32_t, batch>(g);
    const auto w1 = variable<float, dims<20, 300>>(g, "w1", init::normal{});
    const auto b1 = variable<float, dims<300>>(g, "b1");
    const auto w2 = variable<float, dims<300, 10>>(g, "w2", init::normal{});
    const auto hidden = sigmoid(matmul(x, w1) + b1);
    const auto logits = matmul(hidden, w2);
    const auto loss = mean(softmax_cross_entropy(logits, labels));
    const auto train = momentum{.learning_rate = 0.1}.minimize(loss);
    session s{g, {.threads = threads}};
    auto step = s.prepare(fetch(loss, train, softmax(logits), sum<0>(hidden), w1), feed(x, labels));
    const tensor<float, images> full(shape(200, 20)), ragged(shape(30, 20));
    const tensor<std::int32_t, batch> full_labels(shape(200)), ragged_labels(shape(30));
    const auto epoch = [&] {
      for (int i = 0; i < 5; ++i) {
        const auto result = step(full, full_labels);
        BOOST_REQUIRE(std::get<0>(result) >= 0);
      }
    };
    epoch();
    step(ragged, ragged_labels);
    epoch();
    if (COUNTS_MALLOC) BOOST_CHECK_EQUAL(allocations_of(epoch), 0u);
    const auto alternating = [&] {
      for (int i = 0; i < 3; ++i) {
        BOOST_REQUIRE_EQUAL(std::get<2>(step(full, full_labels)).extent(0), 200);
        BOOST_REQUIRE_EQUAL(std::get<2>(step(ragged, ragged_labels)).extent(0), 30);
      }
    };
    alternating();
    if (COUNTS_MALLOC) BOOST_CHECK_EQUAL(test::allocations_outside("libdnnl", alternating), 0u);
  }
}

BOOST_AUTO_TEST_CASE(results_of_extents_that_alternate_are_the_callers) {
  graph g;
  const auto x = placeholder<float, batch>(g);
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(x * 2.0f), feed(x));
  const auto numbers = [](int n, float first) {
    tensor<float, batch> t{shape(n)};
    for (int i = 0; i < n; ++i) t(i) = first + static_cast<float>(i);
    return t;
  };
  std::vector<tensor<float, batch>> kept;
  for (int i = 0; i < 60; ++i) kept.push_back(step(numbers(1 + i % 20, static_cast<float>(i))));  // more than plans
  for (int i = 0; i < 60; ++i)
    for (int k = 0; k < 1 + i % 20; ++k) BOOST_REQUIRE_EQUAL(kept[static_cast<std::size_t>(i)](k), 2 * (i + k));
}

// oneDNN's own are a table of arguments for each call of a primitive, and buffers of its matrix product: its interface
// has no other way. The memory that Weft gives it, scratch included, is there since the step was planned.
BOOST_AUTO_TEST_CASE(steps_by_a_library_allocate_nothing_of_ours) {
  if (!COUNTS_MALLOC) return;
  graph g;
  const auto x = placeholder<float, dims<dyn<"batch">, 12, 12, 8>>(g);
  const auto labels = placeholder<std::int32_t, batch>(g);
  const auto w = variable<float, dims<3, 3, 8, 16>>(g, "w", init::he_normal{});
  const auto b = variable<float, dims<16>>(g, "b");
  const auto v = variable<float, dims<576, 100>>(g, "v", init::glorot_normal{});
  const auto u = variable<float, dims<100, 10>>(g, "u", init::glorot_normal{});
  const auto pooled = max_pool2d<2>(relu(conv2d(x, w) + b));
  const auto logits = matmul(sigmoid(matmul(reshape<dims<dyn<"batch">, 576>>(pooled), v)), u);
  const auto loss = mean(softmax_cross_entropy(logits, labels));
  const auto train = momentum{.learning_rate = 0.01}.minimize(loss);
  session s{g, {.threads = 2}};
  auto step = s.prepare(fetch(loss, train), feed(x, labels));
  for (const int n : {16, 4}) {
    const tensor<float, dims<dyn<"batch">, 12, 12, 8>> images(shape(n, 12, 12, 8));
    const tensor<std::int32_t, batch> classes{shape(n)};
    for (int i = 0; i < 3; ++i) step(images, classes);
    BOOST_CHECK_EQUAL(test::allocations_outside("libdnnl", [&] { step(images, classes); }), 0u);
  }
}

/// Allocations of a training step with products of T.
template <class T>
std::size_t of_mixed_precision() {
  graph g;
  const auto x = placeholder<float, images>(g);
  const auto w = variable<float, dims<20, 300>>(g, "w", init::normal{});
  const auto v = variable<float, dims<300, 10>>(g, "v", init::normal{});
  const auto hidden = relu(cast<float>(matmul(cast<T>(x), cast<T>(w))));
  const auto loss = mean(square(cast<float>(matmul(cast<T>(hidden), cast<T>(v)))));
  const auto train = gradient_descent{.learning_rate = 0.1}.minimize(loss);
  session s{g, {.threads = 2}};
  auto step = s.prepare(fetch(loss, train), feed(x));
  const tensor<float, images> batch_of_200(shape(200, 20));
  for (int i = 0; i < 3; ++i) step(batch_of_200);
  return allocations_of([&] { step(batch_of_200); });
}

BOOST_AUTO_TEST_CASE(products_of_storage_types_allocate_nothing) {
  if (!COUNTS_MALLOC) return;
  BOOST_CHECK_EQUAL(of_mixed_precision<half>(), 0u);
#if !defined(WEFT_HAS_DNNL)
  BOOST_CHECK_EQUAL(of_mixed_precision<bfloat16>(), 0u);
#else
  BOOST_TEST_MESSAGE("oneDNN's own: " << of_mixed_precision<bfloat16>() << " a step");
#endif
}

BOOST_AUTO_TEST_CASE(buffers_are_reused) {
  graph g;
  const auto x = placeholder<float, dims<64, 64>>(g);
  auto y = matmul(x, x);
  for (int i = 0; i < 20; ++i) y = matmul(tanh(y), x);
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(sum(y)), feed(x));
  step(tensor<float, dims<64, 64>>());
  const auto& p = step.prepared().plan();
  BOOST_CHECK_LE(p.arena_bytes(), 3u * 64 * 64 * sizeof(float));  // out of forty values
  BOOST_CHECK_GE(p.kernels(), 21u);
}

BOOST_AUTO_TEST_CASE(a_chain_of_elementwise_nodes_works_in_place) {
  graph g;
  const auto x = placeholder<float, dims<1000>>(g);
  auto y = let(x + 1.0f);
  for (int i = 0; i < 10; ++i) y = let(exp(y) * 0.5f);
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(sum(y)), feed(x));
  step(tensor<float, dims<1000>>());
  BOOST_CHECK_LE(step.prepared().plan().arena_bytes(), 4096u + 64);
}

// The training step of a deep net must keep its activations, but not its gradients.
BOOST_AUTO_TEST_CASE(training_needs_less_than_all_values) {
  graph g;
  const auto x = placeholder<float, dims<32, 64>>(g);
  auto h = let(x * 1.0f);
  for (int i = 0; i < 10; ++i) {
    const auto w = variable<float, dims<64, 64>>(g, str_cat({"w", i}), init::glorot_uniform{});
    const auto b = variable<float, dims<64>>(g, str_cat({"b", i}));
    h = let(tanh(matmul(h, w) + b));
  }
  const auto train = gradient_descent{.learning_rate = 0.01}.minimize(mean(square(h)));
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(train), feed(x));
  step(tensor<float, dims<32, 64>>());
  const std::size_t activation = 32 * 64 * sizeof(float), weights = 64 * 64 * sizeof(float);
  BOOST_CHECK_LE(step.prepared().plan().arena_bytes(), 11 * activation + 3 * activation + 2 * weights);
}

BOOST_AUTO_TEST_CASE(offsets_never_overlap_while_in_use) {
  random_stream random(1, 1);
  for (std::uint64_t round = 0; round < 50; ++round) {
    plan::memory_plan plan;
    struct piece {
      std::size_t offset, bytes;
    };
    std::vector<piece> live;
    std::size_t most = 0, sum = 0;
    for (std::uint64_t i = 0; i < 200; ++i) {
      const double u = random.uniform(round * 1000 + i);
      if (u < 0.45 && !live.empty()) {
        const auto which = static_cast<std::size_t>(u / 0.45 * static_cast<double>(live.size()));
        plan.release(live[which].offset, live[which].bytes);
        sum -= (live[which].bytes + 63) / 64 * 64;
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
        continue;
      }
      const auto bytes = static_cast<std::size_t>(u * 5000);
      const std::size_t at = plan.allocate(bytes);
      BOOST_REQUIRE_EQUAL(at % 64, 0u);
      BOOST_REQUIRE_LE(at + bytes, plan.total());
      for (const piece& p : live) BOOST_REQUIRE(at + bytes <= p.offset || p.offset + p.bytes <= at);
      if (bytes) live.push_back({at, bytes}), sum += (bytes + 63) / 64 * 64;
      if (sum > most) most = sum;
    }
    BOOST_CHECK_LE(plan.total(), most * 3 / 2);  // little is lost to gaps
  }
}

// The block that a larger batch gives up for a larger one is gone when there is none.
BOOST_AUTO_TEST_CASE(a_step_without_memory_runs_again_once_there_is_some) {
  const std::size_t most_before = region::most;
  graph g;
  const auto x = placeholder<float, images>(g);
  const auto y = sum(exp(matmul(let(sqrt(x)), variable<float, dims<20, 5>>(g, "w", init::ones{}))));
  session s{g, {.threads = 1}, region{}};
  auto step = s.prepare(fetch(y), feed(x));
  const tensor<float, images> few(shape(30, 20)), many(shape(900, 20));
  BOOST_CHECK_EQUAL(step(few), 30 * 5);
  region::most = region::bytes + 1000;
  for (const auto* batch : {&many, &few, &few, &many, &few})
    CHECK_SAYS(test::failure(error_code::resource_exhausted, [&] { step(*batch); }), "memory");
  region::most = ~std::size_t{0};
  BOOST_CHECK_EQUAL(step(few), 30 * 5);
  BOOST_CHECK_EQUAL(step(many), 900 * 5);
  region::most = most_before;
}

BOOST_AUTO_TEST_CASE(a_session_and_a_tensor_take_the_allocator_that_is_given) {
  graph g;
  const auto x = placeholder<float, images>(g);
  const auto w = variable<float, dims<20, 5>>(g, "w", init::ones{});
  const auto y = exp(matmul(let(sqrt(x)), w));
  {
    session s{g, {.threads = 1}, region{}};
    BOOST_CHECK_EQUAL(region::blocks, 1u);  // w
    auto step = s.prepare(fetch(sum(y)), feed(x));
    tensor<float, images> data(shape(30, 20), region{});
    BOOST_CHECK_EQUAL(step(data), 30 * 5);
    BOOST_CHECK_EQUAL(region::blocks, 3u);  // and the plan's, and the data
    const std::size_t before = region::bytes;
    tensor<float, images> copy = data;
    copy(0, 0) = 1;
    BOOST_CHECK_EQUAL(region::bytes - before, 30 * 20 * sizeof(float) + storage::overhead);
    BOOST_CHECK_EQUAL(data(0, 0), 0);
    step(copy);
    BOOST_CHECK_EQUAL(region::blocks, 4u);
  }
  BOOST_CHECK_EQUAL(region::blocks, 0u);
  region::most = region::bytes + 1000;
  BOOST_CHECK_EXCEPTION((tensor<float, dims<300>>(shape(300), region{})), error, [](const error& e) {
    return e.code() == error_code::resource_exhausted && test::contains(e.what(), "cannot allocate the extents [300]");
  });
  BOOST_CHECK_EXCEPTION((session{g, {}, region{}}.run(fetch(sum(y)), with(x, tensor<float, images>(shape(900, 20))))),
                        error, [](const error& e) { return e.code() == error_code::resource_exhausted; });
  region::most = ~std::size_t{0};
  region::crooked = true;
  BOOST_CHECK_EXCEPTION((tensor<float, dims<3>>(shape(3), region{})), error, [](const error& e) {
    return e.code() == error_code::invalid_argument && test::contains(e.what(), "must be aligned to 64 bytes");
  });
  BOOST_CHECK_EQUAL(region::blocks, 0u);
}

// The gradient of rows is rows: a step has no room for one of the variable's extents, and takes none as it goes.
BOOST_AUTO_TEST_CASE(an_update_of_rows_needs_room_for_rows) {
  const std::size_t most_before = region::most;
  region::most = ~std::size_t{0};
  region::crooked = false;
  {
    graph g;
    const auto w = variable<float, dims<50000, 8>>(g, "w");
    const auto n = placeholder<std::int32_t, batch>(g);
    const auto train = momentum{.learning_rate = 0.1}.minimize(sum(square(gather(w, n) - 1.0f)));
    session s{g, {.threads = 2}, region{}};
    const std::size_t before = region::bytes;
    auto step = s.prepare(fetch(train), feed(n));
    const tensor<std::int32_t, batch> numbers(shape(3000));
    step(numbers);
    BOOST_CHECK_LE(region::bytes - before, 4 * 3000 * 8 * sizeof(float));
    const auto steps = [&] {
      for (int i = 0; i < 3; ++i) step(numbers);
    };
    steps();
    if (COUNTS_MALLOC) BOOST_CHECK_EQUAL(allocations_of(steps), 0u);
  }
  region::most = most_before;
}
