// SPDX-License-Identifier: BSL-1.0
// Times Weft on the first GPU: steps of the 784-100-10 classifier and of LeNet, a fused elementwise pass beside a copy,
// matrix products in a step beside cuBLASLt called directly, and what a replayed step costs the host and takes in all.
// bench/gpu_torch.py times PyTorch's steps. Prints one JSON object a line.
//
//     bench_gpu [mlp] [lenet] [elementwise] [matmul] [overhead] [--seconds S] [--explain]
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <weft/cuda.hpp>

#include "networks.hpp"
#include "timing.hpp"

using namespace weft;

namespace {

struct asked {
  double seconds;
  bool explain;
};

session_options on_gpu() {
  session_options o;
  o.device = cuda{0};
  return o;
}

void print_step(const char* model, const char* data, int batch, const bench::timing& t) {
  std::printf(
      "{\"peer\": \"weft%s\", \"model\": \"%s\", \"data\": \"%s\", \"batch\": %d, \"us_median\": %.2f, "
      "\"us_min\": %.2f}\n",
      gpu::math.allow_tf32 ? " tf32" : "", model, data, batch, t.median * 1e6, t.least * 1e6);
  std::fflush(stdout);
}

/// Times a step whose batch comes from the host, and one whose batch is on the GPU already: a constant. `build(g,
/// images, labels)` returns the network.
template <class Images, class Build>
void time_steps(const asked& a, const char* model, const tensor<float, Images>& x, const Build& build) {
  const int batch = static_cast<int>(x.extents()[0]);
  const auto y = bench::some_labels(batch);
  const auto time_step = [&](const char* data, auto& step, const auto& call) {
    const bench::timing t = bench::time({.seconds = a.seconds}, call);
    if (a.explain) std::fputs(step.explain().c_str(), stdout);
    print_step(model, data, batch, t);
  };
  {
    graph g(1);
    auto images = placeholder<float, Images>(g, "images");
    auto labels = placeholder<std::int32_t, bench::label_dims>(g, "labels");
    const bench::network n = build(g, images, labels);
    session s{g, on_gpu()};
    auto step = s.prepare(fetch(n.loss, n.train), feed(images, labels));
    time_step("from the host", step, [&] { return step(x, y); });
    auto locked = tensor<float, Images>(x.extents(), gpu::pinned_allocator{});
    __builtin_memcpy(locked.data(), x.data(), x.elements() * sizeof(float));
    time_step("from pinned memory", step, [&] { return step(locked, y); });
  }
  {
    graph g(1);
    g.set(dyn<"batch">, batch);
    auto images = constant(g, x);
    auto labels = constant(g, y);
    const bench::network n = build(g, images, labels);
    session s{g, on_gpu()};
    auto step = s.prepare(fetch(n.loss, n.train));
    time_step("on the GPU", step, [&] { return step(); });
  }
}

void mlp(const asked& a, int batch) {
  time_steps(a, "mlp", bench::random_images<bench::mlp_images>(shape(batch, 784)),
             [](auto&... of) { return bench::mlp(of...); });
}

void lenet(const asked& a, int batch) {
  time_steps(a, "lenet", bench::random_images<bench::lenet_images>(shape(batch, 28, 28, 1)),
             [](auto&... of) { return bench::lenet(of...); });
}

/// Computes a value, and leaves it where it is.
template <class T, class D>
effect kept(graph& g, const node<T, D>& x, const char* name) {
  const sequence<symbol> members{x.erased()};
  return detail::group(g, members, name);
}

/// A queue's work, `calls` times over, by the clock of the host.
template <class F>
double seconds_of(gpu::queue& q, int calls, F&& f) {
  f();
  q.synchronize();
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    const auto start = bench::steady::now();
    for (int i = 0; i < calls; ++i) f();
    q.synchronize();
    const double t = bench::seconds_since(start) / calls;
    if (best == 0 || t < best) best = t;
  }
  return best;
}

// One read and one write of each element, as a copy.
void elementwise(const asked& a) {
  auto& device = gpu::installed_platform->at(0);
  std::int64_t n = std::int64_t{1} << 28;
  while (static_cast<std::size_t>(n) * 16 > device.info().memory_bytes) n /= 2;
  const std::size_t bytes = static_cast<std::size_t>(n) * sizeof(float);

  double copy = 0;
  {
    auto q = device.make_queue();
    std::byte *from = device.allocate(bytes), *to = device.allocate(bytes);
    q->clear(from, bytes);
    copy = seconds_of(*q, 10, [&] { q->copy(to, from, bytes); });
    device.deallocate(from);
    device.deallocate(to);
  }
  graph g(1);
  g.set(dyn<"n">, n);
  auto x = variable<float, dims<dyn<"n">>>(g, "x", init::zeros{});
  auto y = variable<float, dims<dyn<"n">>>(g, "y", init::zeros{});
  auto update = assign(y, x * 0.5f + 1.0f / (abs(x) + 2.0f));
  const effect all = kept(g, update, "update");
  session s{g, on_gpu()};
  auto step = s.prepare(fetch(all));
  const bench::timing t = bench::time({.seconds = a.seconds, .warm_up = 5}, [&] { step(); });
  if (a.explain) std::fputs(step.explain().c_str(), stdout);
  const double gb = 2 * static_cast<double>(bytes) / 1e9;
  std::printf("{\"peer\": \"copy\", \"workload\": \"elementwise\", \"elements\": %lld, \"gb_per_s\": %.1f}\n",
              static_cast<long long>(n), gb / copy);
  std::printf("{\"peer\": \"weft\", \"workload\": \"elementwise\", \"elements\": %lld, \"gb_per_s\": %.1f}\n",
              static_cast<long long>(n), gb / t.median);
  std::fflush(stdout);
}

#if defined(WEFT_HAS_CUBLASLT)

/// Products of n x n matrices in a step, beside cuBLASLt called directly.
template <class T>
void products(const asked& a, bool tf32, std::int64_t n) {
  constexpr int calls = 16;  // of a step, and of the library between two looks at the clock
  gpu::math.allow_tf32 = tf32;
  const auto row = [&](const char* peer, double seconds) {
    std::printf("{\"peer\": \"%s\", \"workload\": \"matmul %s\", \"n\": %lld, \"tflop_per_s\": %.1f}\n", peer,
                tf32 ? "tf32" : name(dtype_of<T>), static_cast<long long>(n),
                2e-12 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n) / seconds);
    std::fflush(stdout);
  };

  // One after the other, since equal products are one; elements of this size keep the size of what they multiply.
  using square = dims<dyn<"n">, dyn<"n">>;
  const double most = std::sqrt(3.0 / static_cast<double>(n));
  graph g(1);
  g.set(dyn<"n">, n);
  const auto x = variable<T, square>(g, "x", init::uniform{-1, 1});
  const auto w = variable<T, square>(g, "w", init::uniform{-most, most});
  node<T, square> y = matmul(x, w);
  for (int i = 1; i < calls; ++i) y = matmul(y, w);
  const effect all = kept(g, y, "products");
  session s{g, on_gpu()};
  auto step = s.prepare(fetch(all));
  const auto ours = [&] {
    return bench::time({.seconds = 1e9, .warm_up = 2, .at_most = 5}, [&] { step(); }).least / calls;
  };

  // Directly: the library's own matrices by columns, its first advice, the same workspace.
  auto& device = gpu::installed_platform->at(0);
  auto& library = static_cast<gpu::cuda_libraries&>(*device.library()).get<gpu::cublaslt>();
  const auto extent = static_cast<std::size_t>(n);
  const gpu::cublaslt_problem problem{{extent, extent, extent}, dtype_of<T>, gpu::matmul_epilogue::none, false, tf32,
                                      gpu::math.workspace_bytes};
  gpu::cublaslt_description d(problem);
  cublasLtMatmulPreferenceOpaque_t wish;
  cublasLtMatmulPreferenceInit(&wish);
  std::uint64_t room = problem.workspace;
  cublasLtMatmulPreferenceSetAttribute(&wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room);
  cublasLtMatmulHeuristicResult_t advice;
  int found = 0;
  cublasLtMatmulAlgoGetHeuristic(library.handle(), &d.operation, &d.first, &d.second, &d.result, &d.result, &wish, 1,
                                 &advice, &found);
  auto q = device.make_queue();
  auto& stream = static_cast<gpu::cuda_queue&>(*q);
  std::byte* workspace = stream.workspace(problem.workspace);
  std::vector<T> host(extent * extent);
  for (std::size_t i = 0; i < host.size(); ++i)  // random: products of zeros need less power, and run faster
    host[i] = static_cast<T>(static_cast<float>((i * 2654435761u) >> 7 & 0xffff) / 32768.f - 1);
  std::byte* buffers[3];
  for (std::byte*& b : buffers) {
    b = device.allocate(host.size() * sizeof(T));
    q->copy(b, host.data(), host.size() * sizeof(T));
  }
  const float one = 1, zero = 0;
  const auto direct = [&] {
    return seconds_of(*q, calls, [&] {
      cublasLtMatmul(library.handle(), &d.operation, &one, buffers[1], &d.first, buffers[0], &d.second, &zero,
                     buffers[2], &d.result, buffers[2], &d.result, &advice.algo, workspace, room, stream.stream());
    });
  };

  // In turn, since the card slows down as it gets warm.
  double best_direct = 0, best_ours = 0;
  for (int round = 0; round < 3; ++round) {
    const double t = found ? direct() : 0, u = ours();
    if (round == 0 || t < best_direct) best_direct = t;
    if (round == 0 || u < best_ours) best_ours = u;
  }
  if (a.explain) std::fputs(step.explain().c_str(), stdout);
  if (found) row("cublasLt", best_direct);
  row("weft", best_ours);
  for (std::byte* b : buffers) device.deallocate(b);
}

#endif

/// The first GPU, with a clock where the host waits for it.
class clocked_gpu final : public gpu::platform {
 public:
  clocked_gpu() { gpu::installed_platform = this; }
  ~clocked_gpu() override { gpu::installed_platform = before_; }
  int count() override { return 1; }
  gpu::device& at(int) override { return card_; }
  double waited() const { return waited_; }

 private:
  struct queue final : gpu::cuda_queue {
    queue(int ordinal, gpu::allocator* workspaces, double& waited)
        : cuda_queue(ordinal, workspaces), all_waited(waited) {}
    void synchronize() override {
      const auto start = bench::steady::now();
      cuda_queue::synchronize();
      all_waited += bench::seconds_since(start);
    }
    double& all_waited;
  };
  struct card final : gpu::cuda_device {
    explicit card(double& waited) : cuda_device(0), all_waited(waited) {}
    owned<gpu::queue> make_queue(gpu::allocator* workspaces) override {
      return owned<gpu::queue>(new queue(ordinal(), workspaces ? workspaces : this, all_waited));
    }
    double& all_waited;
  };

  gpu::platform* before_ = gpu::installed_platform;
  double waited_ = 0;
  card card_{waited_};
};

/// A step that does next to nothing: how long it takes, and how much of it the host is not waiting for the GPU.
void overhead(const asked& a) {
  const clocked_gpu clock;
  graph g(1);
  auto counter = variable<float, dims<>>(g, "counter", init::zeros{});
  auto up = assign_add(counter, constant(g, 1.0f));
  session s{g, on_gpu()};
  auto step = s.prepare(fetch(up));
  for (int i = 0; i < 1000; ++i) step();
  std::vector<double> all, host;
  for (const auto start = bench::steady::now(); all.empty() || bench::seconds_since(start) < a.seconds;) {
    const double waited = clock.waited();
    const auto begin = bench::steady::now();
    step();
    all.push_back(bench::seconds_since(begin));
    host.push_back(all.back() - (clock.waited() - waited));
  }
  if (a.explain) std::fputs(step.explain().c_str(), stdout);
  const auto row = [](const char* workload, const bench::timing& t) {
    std::printf("{\"peer\": \"weft\", \"workload\": \"%s\", \"us_median\": %.2f, \"us_min\": %.2f}\n", workload,
                t.median * 1e6, t.least * 1e6);
  };
  row("overhead", bench::summarise(std::move(host)));
  row("round trip", bench::summarise(std::move(all)));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) try {
  bench::arguments given(argc, argv);
  const asked a{given.take("--seconds", 2.0), given.take("--explain")};
  const char* suites[] = {"mlp", "lenet", "elementwise", "matmul", "overhead"};
  bool wanted[5], all = true;
  for (int i = 0; i < 5; ++i) {
    wanted[i] = given.take(suites[i]);
    all = all && !wanted[i];
  }
  given.finish("bench_gpu [mlp] [lenet] [elementwise] [matmul] [overhead] [--seconds S] [--explain]");
  if (gpu::installed_platform->count() == 0) {
    std::printf("skipped: %s\n", gpu::installed_platform->reason().c_str());
    return 77;
  }
  // One that fails is told, and the others go on.
  int failed = 0;
  const auto attempt = [&](const char* what, auto&& f) {
    try {
      f();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s: %s\n", what, e.what());
      ++failed;
    }
  };
  for (const bool tf32 : {false, true}) {
    gpu::math.allow_tf32 = tf32;
    if (all || wanted[0]) attempt("mlp", [&] { mlp(a, 100); });
    if (all || wanted[1])
      for (const int batch : {64, 1024}) attempt("lenet", [&] { lenet(a, batch); });
  }
  gpu::math.allow_tf32 = false;
  if (all || wanted[2]) attempt("elementwise", [&] { elementwise(a); });
#if defined(WEFT_HAS_CUBLASLT)
  if (all || wanted[3])
    for (const std::int64_t n : {4096, 8192}) {
      attempt("matmul", [&] { products<bfloat16>(a, false, n); });
      attempt("matmul", [&] { products<float>(a, true, n); });
    }
#endif
  gpu::math.allow_tf32 = false;
  if (all || wanted[4]) attempt("overhead", [&] { overhead(a); });
  return failed ? 1 : 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}
