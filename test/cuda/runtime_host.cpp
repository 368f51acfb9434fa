// SPDX-License-Identifier: BSL-1.0
// Checks what Weft asks of the CUDA runtime, and in which order: memory, queues, recordings and failures, by a stand-in
// for the runtime. Compiled by the host's compiler; it runs anywhere.
#include <boost/test/unit_test.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>
#include <weft/device/gpu/cuda.hpp>
#include <weft/device/gpu/pinned_allocator.hpp>
#include <weft/session/gpu_session.hpp>
#include <weft/weft.hpp>

#include "cuda_runtime.hpp"
#include "errors.hpp"

using namespace weft;
using standin::cuda_runtime;
using test::code_of;

namespace {

/// A machine with GPUs, installed as long as it lives. At its end nothing is left, and no mistake was made.
struct machine {
  explicit machine(cuda_runtime::settings s = {}) : cuda(s) {
    gpus.emplace();
    gpu::installed_platform = &*gpus;
  }
  ~machine() {
    gpu::installed_platform = nullptr;
    gpus.reset();
    for (const std::string& m : cuda.mistakes) BOOST_ERROR(m);
    for (const std::string& l : cuda.left()) BOOST_ERROR(l + " is left");
    BOOST_CHECK_EQUAL(cuda.last_error, cudaSuccess);
  }
  gpu::cuda_device& device(int ordinal = 0) { return static_cast<gpu::cuda_device&>(gpus->at(ordinal)); }

  cuda_runtime cuda;
  std::optional<gpu::cuda_platform> gpus;
};

/// One device, with memory and a queue.
struct one : machine {
  gpu::cuda_device& d = device();
  owned<gpu::queue> q = d.make_queue();

  std::byte* pinned(float first, float second = 0) {
    std::byte* const host = d.allocate_host(2 * sizeof(float));
    reinterpret_cast<float*>(host)[0] = first;
    reinterpret_cast<float*>(host)[1] = second;
    return host;
  }
  static float& number(std::byte* host, int i = 0) { return reinterpret_cast<float*>(host)[i]; }
};

const gpu::function doubling{
    .name = "doubling", .device = &standin::doubling_kernel, .argument_bytes = sizeof(standin::doubling)};

void launch_doubling(gpu::queue& q, std::byte* data, std::size_t n, unsigned threads = 256) {
  standin::doubling d{reinterpret_cast<float*>(data), n};
  void* arguments[] = {&d};
  q.launch(doubling, {1, threads}, arguments);
}

/// An operation whose kernel takes workspace as a library's call does: twice x.
template <int N = 1000>
struct twice {
  static constexpr std::size_t bytes = N * sizeof(float);
  class on_gpu final : public kernel {
   public:
    explicit on_gpu(const prepare_context& p) : from_(p.input_slots[0]), to_(p.output_slots[0]) {}
    void run(const kernel_context& f) override {
      std::byte* const room = f.queue->workspace(bytes);
      f.queue->copy(room, f.buffers[from_], bytes);
      launch_doubling(*f.queue, room, N);
      f.queue->copy(f.buffers[to_], room, bytes);
    }
    std::size_t workspace_bytes() const override { return bytes; }
    std::string describe() const override { return "twice"; }

   private:
    std::uint32_t from_, to_;
  };
  static constexpr gpu::preparation preparation{
      .prepare = [](const prepare_context& p, gpu::device&) -> kernel* { return new on_gpu(p); }};
  static constexpr operation op = {
      .name = "twice", .prepare_cpu = [](const prepare_context&) -> kernel* { return nullptr; }, .gpu = &preparation};

  static auto of(const node<float, dims<N>>& x) {
    node_def c;
    c.op = &op;
    c.inputs = {x.id()};
    c.outputs = {x.erased().info()};
    return node<float, dims<N>>(x.erased().builder()->record(c));
  }
};

/// A model of two inputs and two results, one of them early.
template <int N>
struct model_of {
  using op = twice<N>;
  graph g;
  node<float, dims<N>> x = placeholder<float, dims<N>>(g, "x"), y = placeholder<float, dims<N>>(g, "y");
  node<float, dims<N>> early = op::of(x), late = op::of(op::of(op::of(early))), other = op::of(y);
};
using model = model_of<1000>;

}  // namespace

// ---- memory ----

BOOST_AUTO_TEST_CASE(memory_comes_from_a_pool_of_its_own_in_a_stream_of_its_own) {
  one m;
  std::byte* const p = m.d.allocate(1000);
  std::byte* const none = m.d.allocate(0);
  BOOST_CHECK(p && none);
  BOOST_CHECK_EQUAL(m.cuda.count("cudaMemPoolCreate device 0"), 1u);
  BOOST_CHECK_EQUAL(m.cuda.count("cudaMalloc "), 0u);
  // The host waits for the stream in which a block is taken, and no queue has to.
  const auto taken = m.cuda.find("cudaMallocFromPoolAsync 1000 stream ");
  BOOST_REQUIRE_EQUAL(taken.size(), 1u);
  const std::string stream = m.cuda.log[taken[0]].substr(std::string("cudaMallocFromPoolAsync 1000").size());
  BOOST_CHECK_EQUAL(m.cuda.log[taken[0] + 1], "cudaStreamSynchronize" + stream);
  m.q->clear(p, 1000);
  BOOST_CHECK_EQUAL(m.cuda.count("cudaMemsetAsync 1000" + stream), 0u);
  m.d.deallocate(p);
  m.d.deallocate(none);
  m.d.deallocate(nullptr);
}

BOOST_AUTO_TEST_CASE(memory_is_given_back_when_the_queues_that_may_use_it_are_done) {
  machine m({.devices = 2});
  auto& d = m.device(0);
  const auto q = d.make_queue(), idle = d.make_queue(), far = m.device(1).make_queue();
  std::byte* const p = d.allocate(1000);
  std::byte* const there = m.device(1).allocate(1000);
  q->clear(p, 1000);
  far->wait_for(*q);
  far->copy(there, p, 1000);  // a queue of another GPU
  const std::size_t waits = m.cuda.count("cudaStreamSynchronize");
  const std::size_t before = m.cuda.log.size();
  d.deallocate(p);
  BOOST_CHECK_EQUAL(m.cuda.count("cudaStreamSynchronize"), waits);  // the host waits for nothing
  const auto released = m.cuda.find("cudaFreeAsync");
  BOOST_REQUIRE_EQUAL(released.size(), 1u);
  std::size_t recorded = 0, waited = 0;
  for (const std::size_t i : m.cuda.find("cudaEventRecord")) recorded += i >= before && i < released[0];
  for (const std::size_t i : m.cuda.find("cudaStreamWaitEvent")) waited += i >= before && i < released[0];
  BOOST_CHECK_EQUAL(recorded, 3u);
  BOOST_CHECK_EQUAL(waited, 3u);
  // Handed out again, it can be used in any queue at once: the stand-in would find a use without order.
  std::byte *const next = d.allocate(2000), *const smaller = d.allocate(300);
  idle->clear(next, 2000);
  idle->clear(smaller, 300);
  for (std::byte* each : {next, smaller}) d.deallocate(each);
  m.device(1).deallocate(there);
}

BOOST_AUTO_TEST_CASE(memory_is_given_back_in_order_even_if_events_fail) {
  for (const std::size_t failing : {1u, 2u}) {
    one m;
    std::byte* const p = m.d.allocate(1000);
    m.q->clear(p, 1000);
    m.cuda.fail(failing, cudaErrorUnknown);
    m.d.deallocate(p);
  }
}

BOOST_AUTO_TEST_CASE(what_was_given_back_is_handed_out_again_in_order) {
  one m;
  m.d.open_share(1 << 20);
  std::byte* const p = m.d.allocate(4096);
  m.q->clear(p, 4096);
  m.d.deallocate(p);
  std::byte* const again = m.d.allocate(4096);
  BOOST_CHECK(again == p);
  const auto other = m.d.make_queue();
  other->clear(again, 4096);
  m.d.deallocate(again);
  m.d.close_share(1 << 20);
}

BOOST_AUTO_TEST_CASE(taking_memory_and_giving_it_back_is_no_part_of_a_recording) {
  one m;
  m.d.open_share(1 << 20);
  const auto helper = m.d.make_queue();
  std::byte *const p = m.d.allocate(4096), *const old = m.d.allocate(512), *const older = m.d.allocate(512);
  m.q->clear(old, 512);       // given before the recording: it may still be at work
  helper->clear(older, 512);  // the same of a queue that takes part later
  m.q->begin_recording();
  m.q->clear(p, 4096);
  helper->wait_for(*m.q);
  m.d.deallocate(old);
  m.d.deallocate(older);
  std::byte* const fresh = m.d.allocate(512);
  helper->copy(fresh, p, 512);
  m.q->wait_for(*helper);
  const auto r = m.q->end_recording();
  BOOST_CHECK(r);
  m.q->launch(*r);
  helper->wait_for(*m.q);  // records nothing any more
  helper->clear(fresh, 512);
  m.q->wait_for(*helper);
  m.q->launch(*r);
  m.q->synchronize();
  m.q->clear(p, 4096);  // and so does no queue any more
  helper->clear(fresh, 512);
  for (std::byte* each : {p, fresh}) m.d.deallocate(each);
  m.d.close_share(1 << 20);
}

BOOST_AUTO_TEST_CASE(what_is_given_back_is_kept_within_the_shares_of_sessions_and_given_away_when_they_close) {
  one m;
  constexpr std::size_t mega = 1 << 20;
  const std::size_t free = m.d.free_bytes();
  const auto once = [&](std::size_t bytes) { m.d.deallocate(m.d.allocate(bytes)); };
  m.d.open_share(10 * mega);
  std::byte* const held = m.d.allocate(2 * mega);
  once(4 * mega);
  BOOST_CHECK_EQUAL(m.cuda.reserved_bytes(0), 6 * mega);
  BOOST_CHECK_EQUAL(m.d.free_bytes(), free - 2 * mega);  // kept memory is free
  once(3 * mega);
  BOOST_CHECK_EQUAL(m.cuda.reserved_bytes(0), 9 * mega);
  std::byte* const more = m.d.allocate(5 * mega);  // kept memory makes room first
  BOOST_CHECK(m.cuda.max_reserved_bytes[0] <= 10 * mega);
  m.d.deallocate(more);
  m.d.open_share(20 * mega);
  once(13 * mega);
  BOOST_CHECK(m.cuda.reserved_bytes(0) >= 20 * mega);
  m.d.close_share(10 * mega);
  BOOST_CHECK_EQUAL(m.cuda.reserved_bytes(0), 2 * mega);
  m.d.close_share(20 * mega);
  once(mega);  // no session: kept until somebody waits for a stream
  m.q->synchronize();
  m.d.deallocate(held);
  m.d.deallocate(m.d.allocate(1));
  BOOST_CHECK(m.cuda.reserved_bytes(0) <= 512u);
}

BOOST_AUTO_TEST_CASE(a_share_of_the_whole_card_leaves_something_for_libraries) {
  machine m({.memory_bytes = std::size_t{1} << 30});
  auto& d = m.device();
  d.open_share(std::size_t{1} << 30);
  for (const std::size_t part : {300u, 290u, 280u}) d.deallocate(d.allocate(part << 20));
  BOOST_CHECK(m.cuda.reserved_bytes(0) <= std::size_t{512} << 20);
  d.close_share(std::size_t{1} << 30);
}

BOOST_AUTO_TEST_CASE(a_full_card_gives_away_what_it_keeps_before_it_refuses) {
  machine m({.memory_bytes = std::size_t{1} << 30});
  auto& d = m.device();
  d.open_share(std::size_t{1} << 30);
  std::byte* const most = d.allocate(std::size_t{600} << 20);
  d.deallocate(d.allocate(std::size_t{300} << 20));
  std::byte* const rest = d.allocate(std::size_t{310} << 20);
  BOOST_CHECK(rest != nullptr);
  BOOST_CHECK(d.allocate(std::size_t{200} << 20) == nullptr);
  BOOST_CHECK_EQUAL(m.cuda.last_error, cudaSuccess);
  for (std::byte* p : {most, rest}) d.deallocate(p);
  d.deallocate(d.allocate(std::size_t{300} << 20));
  void* others = nullptr;
  BOOST_CHECK_EQUAL(cudaMalloc(&others, std::size_t{600} << 20), cudaSuccess);
  std::byte* const beside = d.allocate(std::size_t{200} << 20);  // within the share, but not beside what is kept
  BOOST_CHECK(beside != nullptr);
  d.deallocate(beside);
  cudaFree(others);
  d.close_share(std::size_t{1} << 30);
}

BOOST_AUTO_TEST_CASE(other_gpus_reach_the_pool_when_both_are_open) {
  machine m({.devices = 3});
  m.device(2);
  BOOST_CHECK_EQUAL(m.cuda.count("cudaMemPoolSetAccess"), 0u);
  m.device(0);
  BOOST_CHECK_EQUAL(m.cuda.count("cudaMemPoolSetAccess of 0 by 2"), 1u);
  BOOST_CHECK_EQUAL(m.cuda.count("cudaMemPoolSetAccess of 2 by 0"), 1u);
  BOOST_CHECK_EQUAL(m.cuda.count("cudaMemPoolSetAccess"), 2u);
  BOOST_CHECK_EQUAL(m.cuda.count("cudaDeviceEnablePeerAccess"), 2u);
  m.device(0), m.device(2);
  BOOST_CHECK_EQUAL(m.cuda.count("cudaMemPoolCreate"), 2u);
  BOOST_CHECK_EQUAL(m.cuda.count("cudaMemPoolSetAccess"), 2u);
}

BOOST_AUTO_TEST_CASE(without_pools_memory_is_cudaMallocs) {
  for (const cuda_runtime::settings& s :
       {cuda_runtime::settings{.pools = false}, cuda_runtime::settings{.devices = 2, .peers = false}}) {
    machine m(s);
    auto& d = m.device(0);
    if (s.devices == 2) m.device(1);
    d.open_share(1 << 20);
    std::byte* const p = d.allocate(1000);
    BOOST_CHECK(p != nullptr);
    const auto q = d.make_queue();
    q->clear(p, 1000);
    d.deallocate(p);
    BOOST_CHECK_EQUAL(m.cuda.count("cudaMalloc 1000"), 1u);
    BOOST_CHECK_EQUAL(m.cuda.count("cudaFree"), 1u);
    BOOST_CHECK_EQUAL(m.cuda.count("cudaMemPool"), 0u);
    const std::size_t calls = m.cuda.calls;
    BOOST_CHECK(d.allocate(std::size_t{1} << 40) == nullptr);  // more than the card has: nobody is asked
    BOOST_CHECK_EQUAL(m.cuda.calls, calls);
    BOOST_CHECK(d.allocate(std::size_t{4} << 30) != nullptr);
    BOOST_CHECK(d.allocate(1) == nullptr);
    while (!m.cuda.blocks.empty()) d.deallocate(const_cast<std::byte*>(m.cuda.blocks.begin()->first));
    d.close_share(1 << 20);
  }
}

BOOST_AUTO_TEST_CASE(a_full_card_is_an_error_with_a_table_of_who_holds_it) {
  machine m({.memory_bytes = std::size_t{1} << 30});
  auto& d = m.device();
  std::string text;
  {
    detail::gpu_memory memory(d, std::size_t{1} << 30, true);
    const gpu::device_memory first(memory, std::size_t{700} << 20, "hidden/weights"), small(memory, 1000, "bias");
    const gpu::device_memory others(d, std::size_t{200} << 20, "others");
    const auto next = [&] { gpu::device_memory(memory, std::size_t{200} << 20, "a step's intermediate values"); };
    BOOST_CHECK(code_of(next, &text) == error_code::resource_exhausted);
    BOOST_CHECK(test::contains(text, "a step's intermediate values"));
    BOOST_CHECK(test::contains(text, "needs 209715200 bytes on /device:GPU:0"));
    BOOST_CHECK(test::contains(text, "734003200 bytes  hidden/weights"));
    BOOST_CHECK(test::contains(text, "1024 bytes  bias"));
    BOOST_CHECK(test::contains(text, "no block of that size is free"));
  }
  BOOST_CHECK_EQUAL(m.cuda.reserved_bytes(0), 0u);
  BOOST_CHECK(code_of([&] { gpu::device_memory(d, std::size_t{2} << 30, "all"); }, &text) ==
              error_code::resource_exhausted);
  BOOST_CHECK(test::contains(text, "cannot allocate 2147483648 bytes on GPU 0"));
  BOOST_CHECK(code_of([&] { detail::gpu_memory(d, std::size_t{2} << 30, false); }, &text) ==
              error_code::resource_exhausted);
}

BOOST_AUTO_TEST_CASE(a_share_taken_at_once_goes_back_at_once) {
  one m;
  {
    detail::gpu_memory memory(m.d, 1 << 20, false);
    BOOST_CHECK_EQUAL(m.cuda.reserved_bytes(0), 1u << 20);
    const gpu::device_memory some(memory, 1000, "some");
    m.q->clear(some.data(), 1000);
  }
  m.q->synchronize();
  m.d.deallocate(m.d.allocate(1));  // waits for what was given back
  BOOST_CHECK(m.cuda.reserved_bytes(0) <= 512u);
}

// ---- queues and recordings ----

BOOST_AUTO_TEST_CASE(queues_launch_copy_clear_and_wait) {
  one m;
  std::byte *const host = m.pinned(3, 4), *const p = m.d.allocate(8);
  const auto other = m.d.make_queue();
  m.q->copy(p, host, 8);
  m.q->copy(p, host, 0);
  launch_doubling(*m.q, p, 2);
  other->wait_for(*m.q);
  other->copy(host, p, 8);
  other->synchronize();
  BOOST_CHECK_EQUAL(m.number(host, 0), 6);
  BOOST_CHECK_EQUAL(m.number(host, 1), 8);
  BOOST_CHECK_EQUAL(m.cuda.count("cudaMemcpyAsync"), 2u);
  m.d.clear(p, 8);
  m.q->copy(host, p, 8);
  m.q->synchronize();
  BOOST_CHECK_EQUAL(m.number(host, 1), 0);
  m.d.deallocate(p);
  m.d.deallocate_host(host);
}

BOOST_AUTO_TEST_CASE(a_launch_that_cannot_be_names_the_kernel_and_the_next_call_is_clean) {
  one m;
  std::byte* const p = m.d.allocate(8);
  std::string text;
  BOOST_CHECK(code_of([&] { launch_doubling(*m.q, p, 2, 5000); }, &text) == error_code::internal);
  BOOST_CHECK(test::contains(text, "doubling"));
  BOOST_CHECK(test::contains(text, "1x1 blocks of 5000 threads"));
  BOOST_CHECK_EQUAL(m.cuda.last_error, cudaSuccess);
  const gpu::function absent{.name = "absent"};
  const gpu::function foreign{.name = "foreign", .device = &text};
  void* none[] = {nullptr};
  BOOST_CHECK(code_of([&] { m.q->launch(absent, {}, none); }, &text) == error_code::unimplemented);
  BOOST_CHECK(test::contains(text, "absent"));
  BOOST_CHECK(code_of([&] { m.q->launch(foreign, {}, none); }) == error_code::unimplemented);
  m.cuda.fail(1, cudaErrorIllegalAddress);
  BOOST_CHECK(code_of([&] { m.q->synchronize(); }, &text) == error_code::internal);
  BOOST_CHECK(test::contains(text, "this process can no longer use the device"));
  launch_doubling(*m.q, p, 0);
  standin::doubling d{reinterpret_cast<float*>(p), 2};
  void* arguments[] = {&d};
  m.q->launch(doubling, {.blocks = 0}, arguments);  // nothing to do
  m.q->launch(doubling, {.shared_bytes = 100u << 10}, arguments);
  BOOST_CHECK_EQUAL(m.cuda.count("cudaFuncSetAttribute 102400"), 1u);
  BOOST_CHECK(code_of([&] { m.q->launch(doubling, {.shared_bytes = 1u << 20}, arguments); }) == error_code::internal);
  m.d.deallocate(p);
}

BOOST_AUTO_TEST_CASE(a_recording_is_made_brought_to_the_gpu_and_launched_in_this_order) {
  one m;
  std::byte *const host = m.pinned(1), *const p = m.d.allocate(4);
  m.q->copy(p, host, 4);
  m.q->begin_recording();
  launch_doubling(*m.q, p, 1);
  m.q->copy(host, p, 4);
  const std::size_t begun = m.cuda.find("cudaStreamBeginCapture").at(0);
  auto r = m.q->end_recording();
  const std::size_t ended = m.cuda.find("cudaStreamEndCapture").at(0), made = m.cuda.find("cudaGraphInstantiate").at(0);
  const std::size_t brought = m.cuda.find("cudaGraphUpload").at(0);
  BOOST_CHECK(begun < ended && ended < made && made < brought);
  BOOST_CHECK_EQUAL(m.cuda.count("cudaGraphDestroy"), 0u);  // its nodes say which part is to be changed
  BOOST_CHECK_EQUAL(m.number(host), 1);
  for (int i = 0; i < 3; ++i) m.q->launch(*r);
  m.q->synchronize();
  BOOST_CHECK_EQUAL(m.number(host), 8);
  BOOST_CHECK_EQUAL(m.cuda.count("cudaGraphLaunch"), 3u);
  r = {};
  BOOST_CHECK_EQUAL(m.cuda.count("cudaGraphExecDestroy"), 1u);
  BOOST_CHECK_EQUAL(m.cuda.count("cudaGraphDestroy"), 1u);
  m.d.deallocate(p);
  m.d.deallocate_host(host);
}

BOOST_AUTO_TEST_CASE(a_recorded_copy_reads_from_elsewhere) {
  one m;
  std::byte *const host = m.pinned(1), *const other = m.pinned(5), *const back = m.pinned(0),
                   *const p = m.d.allocate(4);
  m.q->begin_recording();
  m.q->copy(p, host, 4);
  launch_doubling(*m.q, p, 1);
  m.q->copy(back, p, 4);
  const auto r = m.q->end_recording();
  const auto result = [&] {
    m.q->launch(*r);
    m.q->synchronize();
    return m.number(back);
  };
  BOOST_CHECK_EQUAL(result(), 2);
  BOOST_CHECK(r->copy_from(p, other, 4));
  BOOST_CHECK_EQUAL(result(), 10);
  BOOST_CHECK(r->copy_from(p, host, 4));
  BOOST_CHECK_EQUAL(result(), 2);
  float pageable = 3;
  BOOST_CHECK(!r->copy_from(p, &pageable, 4));
  BOOST_CHECK(!r->copy_from(host, other, 4));  // no copy writes there
  BOOST_CHECK_EQUAL(result(), 2);
  m.cuda.last_error = cudaSuccess;
  BOOST_CHECK(m.d.is_page_locked(host, 8));
  BOOST_CHECK(!m.d.is_page_locked(host, 1 << 20));
  BOOST_CHECK(!m.d.is_page_locked(&pageable, 4));
  BOOST_CHECK(!m.d.is_page_locked(p, 4));
  for (std::byte* each : {host, other, back}) m.d.deallocate_host(each);
  m.d.deallocate(p);
}

BOOST_AUTO_TEST_CASE(a_recording_that_cannot_be_made_is_an_error_and_the_queues_go_on) {
  one m;
  const auto helper = m.d.make_queue(), outsider = m.d.make_queue();
  std::byte* const p = m.d.allocate(8);
  float pageable[2] = {};
  const std::function<void()> mistakes[] = {
      [&] { helper->wait_for(*m.q), helper->clear(p, 8); },  // nobody waits for it
      [&] { m.q->copy(pageable, p, 8); },                    // memory that is not page-locked
      [&] { m.q->wait_for(*outsider); },                     // which does not take part
      [&] { m.q->synchronize(); },
      [&] { m.q->begin_recording(); },
  };
  for (const auto& mistake : mistakes) {
    m.q->begin_recording();
    m.q->clear(p, 8);
    code_of(mistake);
    BOOST_CHECK(code_of([&] { m.q->end_recording(); }) == error_code::internal);
    m.q->begin_recording();
    m.q->clear(p, 8);
    helper->wait_for(*m.q);
    helper->clear(p, 8);
    m.q->wait_for(*helper);
    const auto r = m.q->end_recording();
    m.q->launch(*r);
    helper->wait_for(*m.q);
    helper->clear(p, 8);
    helper->synchronize();
  }
  m.d.deallocate(p);
}

BOOST_AUTO_TEST_CASE(a_queue_may_end_before_the_recording_that_it_takes_part_in) {
  one m;
  std::byte* const p = m.d.allocate(8);
  auto helper = m.d.make_queue();
  m.q->clear(p, 8);
  m.q->begin_recording();
  helper->wait_for(*m.q);
  m.q = {};
  helper = {};
  m.q = m.d.make_queue();
  m.d.deallocate(p);
}

// ---- sessions ----

BOOST_AUTO_TEST_CASE(a_step_runs_is_recorded_and_launched_without_a_use_out_of_order) {
  for (const bool grows : {true, false}) {
    machine m({.memory_bytes = std::size_t{1} << 30});
    model net;
    session_options o{.threads = 1, .device = cuda{0}};
    o.gpu.allow_growth = grows;
    o.gpu.virtual_devices = {1 << 20};
    {
      session s{net.g, o};
      auto step = s.prepare(fetch(net.early, net.late, net.other), feed(net.x, net.y));
      tensor<float, dims<1000>> x, y;
      for (int i = 1; i <= 5; ++i) {
        x.data()[0] = x.data()[999] = static_cast<float>(i), y.data()[500] = static_cast<float>(2 * i);
        const auto [early, late, other] = step(x, y);
        BOOST_CHECK_EQUAL(early.data()[999], 2.f * static_cast<float>(i));
        BOOST_CHECK_EQUAL(late.data()[0], 16.f * static_cast<float>(i));
        BOOST_CHECK_EQUAL(other.data()[500], 4.f * static_cast<float>(i));
      }
      BOOST_CHECK(test::contains(step.explain(), "launched as a whole"));
      BOOST_CHECK(test::contains(step.explain(), "gpu:0  4000 bytes of workspace for library calls"));
    }
    BOOST_CHECK_EQUAL(m.cuda.count("cudaStreamBeginCapture"), 1u);
    BOOST_CHECK_EQUAL(m.cuda.count("cudaGraphInstantiate"), 1u);
    BOOST_CHECK_EQUAL(m.cuda.count("cudaGraphLaunch"), 4u);
    BOOST_CHECK_EQUAL(m.cuda.count("cudaLaunchKernel"), 10u);  // 5 in the first run, 5 recorded
    // From the third run on there is one launch, and one wait for it.
    const auto launches = m.cuda.find("cudaGraphLaunch");
    for (std::size_t i = 1; i < launches.size(); ++i) BOOST_CHECK_EQUAL(launches[i] - launches[i - 1], 2u);
  }
}

BOOST_AUTO_TEST_CASE(what_is_fed_in_page_locked_memory_is_read_where_it_lies) {
  machine m;
  model_of<20000> net;
  session s{net.g, {.threads = 1, .device = cuda{0}}};
  auto step = s.prepare(fetch(net.late, net.other), feed(net.x, net.y));
  using batch = tensor<float, dims<20000>>;
  batch a(shape{20000}, gpu::pinned_allocator{}), b(shape{20000}, gpu::pinned_allocator{}), c;
  const auto run = [&](batch& x, batch& y) {
    x.data()[19999] += 3, y.data()[0] += 2;
    const auto [late, other] = step(x, y);
    BOOST_CHECK_EQUAL(late.data()[19999], 16 * x.data()[19999]);
    BOOST_CHECK_EQUAL(other.data()[0], 2 * y.data()[0]);
  };
  for (int i = 0; i < 3; ++i) run(a, b), run(b, a), run(c, a), run(c, c);
  run(a, b);
  BOOST_CHECK_EQUAL(m.cuda.count("cudaStreamBeginCapture"), 1u);
  BOOST_CHECK(test::contains(step.explain(), "fed values read in place: 2 of 2"));
  const std::size_t before = m.cuda.log.size();
  run(a, b);
  const std::vector<std::string> calls(m.cuda.log.begin() + static_cast<std::ptrdiff_t>(before), m.cuda.log.end());
  const std::string change = "cudaGraphExecMemcpyNodeSetParams1D 80000", ask = "cudaPointerGetAttributes";
  BOOST_REQUIRE_EQUAL(calls.size(), 8u);
  for (std::size_t i = 0; i < 6; ++i) BOOST_CHECK_EQUAL(calls[i], i < 4 ? ask : change);
  BOOST_CHECK_EQUAL(calls[6].rfind("cudaGraphLaunch", 0), 0u);
}

BOOST_AUTO_TEST_CASE(a_process_that_places_nothing_on_a_gpu_touches_none) {
  machine m;
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  auto y = let(x + 1.0f);
  session s{g, {.threads = 1}};
  BOOST_CHECK_EQUAL(s.eval(y, with(x, tensor<float, dims<3>>{1, 2, 3})).data()[2], 4);
  BOOST_CHECK_EQUAL(m.cuda.calls, m.cuda.count("cudaGetDeviceCount"));
}

// Every call of CUDA fails in turn: that is told or does not matter, nothing is left behind or used out of order, and
// the session's next run is as if nothing had been.
BOOST_AUTO_TEST_CASE(any_call_may_fail) {
  model net;
  model_of<20000> large;
  const auto run = [&](machine& m) {
    auto& second = m.device(1);
    const gpu::device_memory there(second, 100, "the test");
    second.clear(there.data(), 100);
    session_options o{.threads = 1, .device = cuda{0}};
    o.gpu.virtual_devices = {1 << 20};
    session s{net.g, o};
    auto step = s.prepare(fetch(net.early, net.late, net.other), feed(net.x, net.y));
    tensor<float, dims<1000>> x, y;
    for (int i = 1; i <= 3; ++i) {
      x.data()[7] = static_cast<float>(i);
      const auto [early, late, other] = step(x, y);
      BOOST_CHECK_EQUAL(late.data()[7], 16.f * static_cast<float>(i));
    }
    session t{large.g, {.threads = 1, .device = cuda{0}}};
    auto in_place = t.prepare(fetch(large.other), feed(large.y));
    tensor<float, dims<20000>> z(shape{20000}, gpu::pinned_allocator{}), staged;
    for (int i = 1; i <= 4; ++i) {
      auto& in = i == 4 ? staged : z;
      in.data()[7] = static_cast<float>(i);
      BOOST_CHECK_EQUAL(in_place(in).data()[7], 2.f * static_cast<float>(i));
    }
  };
  const auto begin = [](machine& m) {
    m.gpus->count();  // is asked once
    return m.cuda.calls;
  };
  std::size_t calls = 0, told = 0;
  {
    machine m({.devices = 2});
    const std::size_t before = begin(m);
    run(m);
    calls = m.cuda.calls - before;
  }
  BOOST_CHECK(calls > 100);
  for (std::size_t n = 1; n <= calls; ++n)
    for (const cudaError_t with : {cudaErrorUnknown, cudaErrorMemoryAllocation}) {
      machine m({.devices = 2});
      const std::size_t before = begin(m);
      std::string what;
      BOOST_TEST_CONTEXT("call " << n << " of " << calls << " fails") {
        m.cuda.fail(n, with);
        const bool thrown = code_of([&] { run(m); }) != static_cast<error_code>(0);
        what = m.cuda.log[before + n - 1];
        told += thrown;
        for (const char* never_silent :
             {"cudaMallocFrom", "cudaMemcpy", "cudaLaunch", "cudaGraphLaunch", "cudaHostAlloc"})
          if (!thrown && with == cudaErrorUnknown && what.rfind(never_silent, 0) == 0) BOOST_ERROR("not told: " + what);
        if (code_of([&] { run(m); }, &what) != static_cast<error_code>(0)) BOOST_ERROR("again: " + what);
      }
    }
  BOOST_CHECK(told > calls);
}

int main(int count, char** arguments) { return standin::run(count, arguments); }
