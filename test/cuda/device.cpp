// SPDX-License-Identifier: BSL-1.0
// The CUDA device itself: memory, queues, recordings, errors, and the libraries' products beside the definition.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>
#include <weft/device/cpu/definitions.hpp>
#include <weft/device/gpu/matmul_tiled.hpp>
#if defined(WEFT_HAS_CUBLASLT)
  #include <weft/device/gpu/matmul_cublaslt.hpp>
#endif

#include "errors.hpp"

using namespace weft;
using test::code_of;

namespace {

struct doubled {
  float* data;
  WEFT_HOST_DEVICE void operator()(std::size_t i) const { data[i] *= 2; }
};

/// A float array on the first GPU.
struct array {
  gpu::device& d = gpu::installed_platform->at(0);
  std::size_t n;
  float* data;
  explicit array(std::size_t size) : n(size), data(reinterpret_cast<float*>(d.allocate(4 * size))) {}
  array(const array&) = delete;
  array& operator=(const array&) = delete;
  ~array() { d.deallocate(reinterpret_cast<std::byte*>(data)); }
};

std::vector<float> counted(std::size_t n) {
  std::vector<float> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<float>(i % 1000);
  return v;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_device_knows_itself) {
  auto& d = gpu::installed_platform->at(0);
  const gpu::device_info info = d.info();
  BOOST_CHECK(!info.name.empty());
  BOOST_CHECK(info.memory_bytes > (std::size_t{1} << 28));
  BOOST_CHECK(info.multiprocessors > 0);
  BOOST_CHECK(info.compute_major >= 7);
  BOOST_CHECK(&gpu::installed_platform->at(0) == &d);
  BOOST_CHECK(code_of([] { gpu::installed_platform->at(1000); }) == error_code::invalid_argument);
}

BOOST_AUTO_TEST_CASE(bytes_come_back_as_they_went) {
  array there(100'000);
  const auto q = there.d.make_queue();
  const std::vector<float> out = counted(there.n);
  std::vector<float> back(there.n);
  q->copy(there.data, out.data(), 4 * there.n);
  q->copy(back.data(), there.data, 4 * there.n);
  q->synchronize();
  BOOST_CHECK(back == out);
  q->clear(there.data, 4 * there.n);
  q->copy(back.data(), there.data, 4 * there.n);
  q->synchronize();
  BOOST_CHECK(back == std::vector<float>(there.n));
}

BOOST_AUTO_TEST_CASE(a_queue_waits_for_another) {
  array a(1 << 22), b(1 << 22);
  const auto first = a.d.make_queue(), second = a.d.make_queue();
  const std::vector<float> out = counted(a.n);
  auto* host = reinterpret_cast<float*>(a.d.allocate_host(4 * a.n));
  for (int round = 0; round < 20; ++round) {
    first->copy(a.data, out.data(), 4 * a.n);
    gpu::launch_each(*first, "doubled", doubled{a.data}, a.n);
    second->wait_for(*first);
    second->copy(b.data, a.data, 4 * a.n);
    second->copy(host, b.data, 4 * a.n);
    second->synchronize();
    BOOST_REQUIRE_EQUAL(host[a.n - 1], 2 * out[a.n - 1]);
    BOOST_REQUIRE_EQUAL(host[777], 2 * out[777]);
  }
  a.d.deallocate_host(reinterpret_cast<std::byte*>(host));
}

BOOST_AUTO_TEST_CASE(a_recording_does_its_work_each_time) {
  array a(5000), b(5000);
  const auto q = a.d.make_queue(), helper = a.d.make_queue();
  const std::vector<float> ones(a.n, 1);
  q->copy(a.data, ones.data(), 4 * a.n);
  q->synchronize();
  q->begin_recording();
  gpu::launch_each(*q, "doubled", doubled{a.data}, a.n);
  helper->wait_for(*q);
  helper->copy(b.data, a.data, 4 * a.n);
  q->wait_for(*helper);
  const auto work = q->end_recording();
  std::vector<float> back(a.n);
  q->copy(back.data(), a.data, 4 * a.n);
  q->synchronize();
  BOOST_CHECK_EQUAL(back[0], 1);  // nothing was done while it was recorded
  for (int i = 0; i < 10; ++i) q->launch(*work);
  q->copy(back.data(), b.data, 4 * a.n);
  q->synchronize();
  BOOST_CHECK_EQUAL(back[0], 1024);
  BOOST_CHECK_EQUAL(back[a.n - 1], 1024);
}

BOOST_AUTO_TEST_CASE(too_much_memory_is_refused_and_the_device_goes_on) {
  auto& d = gpu::installed_platform->at(0);
  BOOST_CHECK(d.allocate(std::size_t{1} << 46) == nullptr);
  array a(10);
  const auto q = a.d.make_queue();
  q->clear(a.data, 40);
  q->synchronize();
}

BOOST_AUTO_TEST_CASE(a_launch_that_cannot_be_names_the_kernel_and_the_device_goes_on) {
  array a(10);
  const auto q = a.d.make_queue();
  gpu::function missing;
  missing.name = "absent";
  std::string sentence;
  void* none[] = {nullptr};
  BOOST_CHECK(code_of([&] { q->launch(missing, {}, none); }, &sentence) == error_code::unimplemented);
  BOOST_CHECK(sentence.find("absent") != std::string::npos);
  gpu::function f = gpu::function_of<gpu::each<doubled>>("doubled");
  gpu::each<doubled> body{{a.data}, a.n};
  void* arguments[] = {&body};
  BOOST_CHECK(code_of([&] { q->launch(f, {1, 5000, 1, 0}, arguments); }, &sentence) == error_code::internal);
  BOOST_CHECK(sentence.find("doubled") != std::string::npos);
  q->launch(f, {1, 256, 1, 0}, arguments);
  q->synchronize();
}

#if defined(WEFT_HAS_CUBLASLT)

namespace {

template <class T>
T some_number(std::size_t i) {
  return static_cast<T>(static_cast<float>((i * 37) % 11) - 5);  // exact in every type
}

/// One product by cuBLASLt and by the definition; all numbers are small integers.
template <class T>
void check_product(matmul_shape s, gpu::matmul_epilogue e, bool accumulate, bool tf32) {
  auto& d = gpu::installed_platform->at(0);
  auto& libraries = static_cast<gpu::cuda_libraries&>(*d.library());
  const auto q = d.make_queue();
  const double alpha = accumulate ? -1 : 1;
  std::vector<T> host[4] = {std::vector<T>(s.m * s.k), std::vector<T>(s.k * s.n), std::vector<T>(s.m * s.n),
                            std::vector<T>(s.n)};
  std::vector<double> wide[4];
  std::byte* buffers[4];
  for (std::size_t k = 0; k < 4; ++k) {
    for (std::size_t i = 0; i < host[k].size(); ++i) {
      host[k][i] = some_number<T>(i + 3 * k);
      wide[k].push_back(static_cast<double>(host[k][i]));
    }
    buffers[k] = d.allocate(host[k].size() * sizeof(T));
    q->copy(buffers[k], host[k].data(), host[k].size() * sizeof(T));
  }
  matmul_naive<double>(s, alpha, wide[0].data(), wide[1].data(), accumulate ? 1 : 0, wide[2].data());
  const gpu::cublaslt_problem problem{s, dtype_of<T>, e, accumulate, tf32, gpu::math.workspace_bytes};
  owned<kernel> nothing_after;
  const owned<kernel> k(gpu::cublaslt_kernel::make(libraries, problem, {0, 1, 2, 3}, alpha, nothing_after));
  BOOST_REQUIRE(k);
  k->run({buffers, nullptr, q.get()});
  q->copy(host[2].data(), buffers[2], host[2].size() * sizeof(T));
  q->synchronize();
  const bool relu = e == gpu::matmul_epilogue::relu || e == gpu::matmul_epilogue::bias_relu;
  const bool bias = e == gpu::matmul_epilogue::bias || e == gpu::matmul_epilogue::bias_relu;
  for (std::size_t i = 0; i < wide[2].size(); ++i) {
    double expected = wide[2][i] + (bias ? wide[3][i % s.n] : 0);
    if (relu && expected < 0) expected = 0;
    // The sums are exact; a narrow type rounds the result.
    const double tolerance = sizeof(T) == 2 ? std::abs(expected) / 100 : 0;
    BOOST_REQUIRE_SMALL(static_cast<double>(host[2][i]) - expected, tolerance);
  }
  for (std::byte* b : buffers) d.deallocate(b);
}

template <class T>
void check_products(bool tf32 = false) {
  using e = gpu::matmul_epilogue;
  const std::tuple<std::size_t, std::size_t, std::size_t> sizes[] = {
      {1, 8, 8}, {64, 64, 64}, {100, 104, 784}, {72, 8, 40}};
  for (const auto& [m, n, k] : sizes)
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        const matmul_shape s{m, n, k, ta, tb};
        check_product<T>(s, e::none, false, tf32);
        check_product<T>(s, e::none, true, tf32);
        if constexpr (sizeof(T) < 8) {
          check_product<T>(s, e::bias, false, tf32);
          check_product<T>(s, e::relu, false, tf32);
          check_product<T>(s, e::bias_relu, false, tf32);
        }
      }
}

}  // namespace

BOOST_AUTO_TEST_CASE(cublaslt_multiplies_floats) { check_products<float>(); }
BOOST_AUTO_TEST_CASE(cublaslt_multiplies_in_tf32) { check_products<float>(true); }
BOOST_AUTO_TEST_CASE(cublaslt_multiplies_doubles) { check_products<double>(); }
BOOST_AUTO_TEST_CASE(cublaslt_multiplies_halves) { check_products<weft::half>(); }
BOOST_AUTO_TEST_CASE(cublaslt_multiplies_bfloat16) { check_products<weft::bfloat16>(); }

BOOST_AUTO_TEST_CASE(a_tuned_algorithm_multiplies_too) {
  gpu::math.tune = true;
  check_product<float>({128, 96, 300, false, false}, gpu::matmul_epilogue::bias_relu, false, false);
  check_product<float>({128, 96, 300, true, false}, gpu::matmul_epilogue::none, true, true);
  gpu::math.tune = false;
}

#endif

// The plain kernel, on the GPU itself.
BOOST_AUTO_TEST_CASE(the_plain_product_is_the_definition) {
  auto& d = gpu::installed_platform->at(0);
  const auto q = d.make_queue();
  const std::tuple<std::size_t, std::size_t, std::size_t> sizes[] = {{1, 1, 1}, {17, 33, 5}, {130, 65, 77}};
  for (const auto& [m, n, k] : sizes)
    for (const int transposed : {0, 1, 2, 3}) {
      const matmul_shape s{m, n, k, (transposed & 1) != 0, (transposed & 2) != 0};
      std::vector<double> a(m * k), b(k * n), c(m * n), expected;
      for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<double>((i * 7) % 13) - 6;
      for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<double>((i * 5) % 11) - 5;
      for (std::size_t i = 0; i < c.size(); ++i) c[i] = static_cast<double>(i % 3);
      expected = c;
      double* there[3];
      const std::vector<double>* from[] = {&a, &b, &c};
      for (int i = 0; i < 3; ++i) {
        there[i] = reinterpret_cast<double*>(d.allocate(from[i]->size() * 8));
        q->copy(there[i], from[i]->data(), from[i]->size() * 8);
      }
      gpu::launch_tiled_matmul(*q, s, -0.5, there[0], there[1], 1.0, there[2]);
      q->copy(c.data(), there[2], c.size() * 8);
      q->synchronize();
      matmul_naive<double>(s, -0.5, a.data(), b.data(), 1, expected.data());
      BOOST_CHECK(c == expected);
      for (double* p : there) d.deallocate(reinterpret_cast<std::byte*>(p));
    }
}
