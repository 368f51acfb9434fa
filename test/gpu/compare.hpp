// SPDX-License-Identifier: BSL-1.0
#pragma once

// Runs every operation of a graph twice on the same inputs, by its kernel for CPUs and by the emulation of its kernel
// for GPUs, and compares what they write.

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>
#include <weft/graph/extent_bindings.hpp>
#include <weft/graph/gradients.hpp>
#include <weft/graph/leaves.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/gpu/all.hpp>
#include <weft/ops/reduce/reduce.hpp>
#include <weft/train/optimizer.hpp>
#include "emulated.hpp"

namespace compare {

using namespace weft;

struct options {
  double tolerance = 4e-6;      ///< relative to the larger of 1 and the value; for doubles a millionth of it
  double low = -2, high = 2;    ///< bounds of random inputs
  std::set<std::string> exact;  ///< operations whose bits must be the same
  std::size_t offset = 0;       ///< by which buffers are moved off their alignment, in bytes
  std::map<std::string, std::vector<double>> values;       ///< those of leaves, by name
  std::vector<std::vector<std::byte>>* written = nullptr;  ///< takes what the GPU wrote, node by node
};

struct value_key {
  std::uint32_t node, output;
  friend bool operator<(value_key a, value_key b) { return a.node != b.node ? a.node < b.node : a.output < b.output; }
};

inline double element(dtype type, const std::byte* p, std::size_t i) {
  const auto at = [&]<class T>(T x) {
    std::memcpy(&x, p + i * sizeof(T), sizeof(T));
    return static_cast<double>(x);
  };
  switch (type) {
    case dtype::boolean:
      return at(bool{});
    case dtype::int8:
      return at(std::int8_t{});
    case dtype::int16:
      return at(std::int16_t{});
    case dtype::int32:
      return at(std::int32_t{});
    case dtype::int64:
      return at(std::int64_t{});
    case dtype::uint8:
      return at(std::uint8_t{});
    case dtype::uint16:
      return at(std::uint16_t{});
    case dtype::uint32:
      return at(std::uint32_t{});
    case dtype::uint64:
      return at(std::uint64_t{});
    case dtype::float16:
      return static_cast<float>(at(half{}));
    case dtype::bfloat16:
      return static_cast<float>(at(bfloat16{}));
    case dtype::float32:
      return at(float{});
    default:
      return at(double{});
  }
}

inline void set_element(dtype type, std::byte* p, std::size_t i, double v) {
  const auto put = [&]<class T>(T x) { std::memcpy(p + i * sizeof(T), &x, sizeof(T)); };
  switch (type) {
    case dtype::boolean:
      return put(v > 0);
    case dtype::int8:
      return put(static_cast<std::int8_t>(v));
    case dtype::int16:
      return put(static_cast<std::int16_t>(v));
    case dtype::int32:
      return put(static_cast<std::int32_t>(v));
    case dtype::int64:
      return put(static_cast<std::int64_t>(v));
    case dtype::uint8:
      return put(static_cast<std::uint8_t>(std::abs(v)));
    case dtype::uint16:
      return put(static_cast<std::uint16_t>(std::abs(v)));
    case dtype::uint32:
      return put(static_cast<std::uint32_t>(std::abs(v)));
    case dtype::uint64:
      return put(static_cast<std::uint64_t>(std::abs(v)));
    case dtype::float16:
      return put(half(static_cast<float>(v)));
    case dtype::bfloat16:
      return put(bfloat16(static_cast<float>(v)));
    case dtype::float32:
      return put(static_cast<float>(v));
    default:
      return put(v);
  }
}

/// Something to be fed, of fixed extents.
template <class T, int... Extents>
auto input(graph& g, const char* name) {
  return placeholder<T, dims<Extents...>>(g, name);
}

/// Nodes that a test is not interested in but for their being in the graph.
template <class... Nodes>
void recorded(const Nodes&...) {}

/// Something to be fed, whose extents a compiler does not know: one instantiation for all lengths. The inputs of a
/// graph have the same extents.
template <class T>
auto input(graph& g, const char* name, int first, int middle, int last) {
  g.set(dyn<"first">, first), g.set(dyn<"middle">, middle), g.set(dyn<"last">, last);
  return placeholder<T, dims<dyn<"first">, dyn<"middle">, dyn<"last">>>(g, name);
}

/// Returns how many launches the graph took.
inline std::size_t run(const graph& g, const options& o = {}) {
  gpu::emulated_platform small({.multiprocessors = 1}), large({.multiprocessors = 132});
  thread_pool threads(1);
  std::mt19937 engine(7);
  std::map<value_key, std::vector<std::byte>> values;
  std::size_t launches = 0;
  extent_bindings known;
  for (const auto& [code, size] : g.fixed_extents()) known.bind(code, size);
  const auto resolved = [&](value_info info) {
    info.extents = known.resolve(g, "compare", info.extents);
    return info;
  };

  for (std::uint32_t n = 0; n < g.size(); ++n) {
    const node_def& c = g[n].def;
    if (!c.op->prepare_cpu) {  // a leaf, or an alias
      for (std::uint32_t k = 0; k < c.outputs.size(); ++k) {
        const value_info info = resolved(c.outputs[k]);
        std::vector<std::byte> bytes(info.bytes() + 64);
        const auto given = o.values.find(g[n].name);
        std::uniform_real_distribution<double> uniform(o.low, o.high);
        if (c.op->alias)
          bytes = values[{c.inputs[0].node, c.inputs[0].output}];
        else if (is_operation<constant_op>(c.op))
          std::memcpy(bytes.data(), g[n].init.data.data(), info.bytes());
        else
          for (std::size_t i = 0; i < info.extents.elements(); ++i)
            set_element(info.type, bytes.data(), i,
                        given != o.values.end() ? given->second[i % given->second.size()] : uniform(engine));
        values[{n, k}] = bytes;
      }
      continue;
    }
    BOOST_TEST_CONTEXT("node " << n << " " << c.op->name) {
      const std::size_t inputs = c.inputs.size(), outputs = c.outputs.size(), all = inputs + outputs;
      std::vector<value_info> in, out;
      for (const auto& v : c.inputs) in.push_back(resolved(g[v.node].def.outputs[v.output]));
      for (const auto& v : c.outputs) out.push_back(resolved(v));
      std::vector<std::uint32_t> slots(all);
      std::vector<std::size_t> bytes(all);
      for (std::size_t k = 0; k < all; ++k) {
        slots[k] = static_cast<std::uint32_t>(k);
        bytes[k] = k < inputs ? in[k].bytes() : out[k - inputs].bytes();
      }
      const prepare_context p{c, in.data(), out.data(), slots.data(), slots.data() + inputs};

      // By the CPU.
      std::vector<std::vector<std::byte>> host(all);
      std::vector<std::byte*> host_frame(all);
      for (std::size_t k = 0; k < all; ++k) {
        host[k] = k < inputs ? values[{c.inputs[k].node, c.inputs[k].output}]
                             : std::vector<std::byte>(bytes[k] + 64, std::byte{0xff});
        host_frame[k] = host[k].data();
      }
      bool refused = false;
      try {
        const std::unique_ptr<kernel> k(c.op->prepare_cpu(p));
        k->run({host_frame.data(), &threads, nullptr});
      } catch (const error&) {
        refused = true;  // a label out of range
      }

      // By the GPU, forwards and backwards, in one object and in another, directly and recorded.
      BOOST_TEST_REQUIRE((c.op->gpu && c.op->gpu->prepare));
      if (c.op->gpu->exists) BOOST_TEST(c.op->gpu->exists(c));
      std::vector<std::vector<std::byte>> first;
      for (int pass = 0; pass < 4; ++pass) {
        gpu::emulate_backwards = pass % 2 == 1;
        auto& d = (pass < 2 ? small : large).device(0);  // every GPU has the same bits
        const auto q = d.make_queue();
        const std::unique_ptr<kernel> k(c.op->gpu->prepare(p, d));
        if (pass == 0) BOOST_TEST(!k->describe().empty());
        std::vector<std::byte*> memory(all), frame(all);
        for (std::size_t i = 0; i < all; ++i) {
          memory[i] = d.allocate(bytes[i] + o.offset + 1);
          BOOST_TEST_REQUIRE((memory[i] != nullptr));
          frame[i] = memory[i] + o.offset;
          if (i < inputs) q->copy(frame[i], values[{c.inputs[i].node, c.inputs[i].output}].data(), bytes[i]);
        }
        const std::size_t before = d.count().launches;
        owned<gpu::recording> recorded;
        if (pass >= 2) q->begin_recording();
        k->run({frame.data(), nullptr, q.get()});
        if (pass >= 2) recorded = q->end_recording();
        if (pass == 0) launches += d.count().launches - before;
        if (pass >= 2) q->launch(*recorded);
        if (pass >= 2 && !c.op->writes) q->launch(*recorded);  // tickets are back where they were
        std::vector<std::vector<std::byte>> results(all);
        for (std::size_t i = 0; i < all; ++i) {
          if (i < inputs && i >= static_cast<std::size_t>(c.op->writes)) continue;
          results[i].resize(bytes[i]);
          q->copy(results[i].data(), frame[i], bytes[i]);
        }
        q->synchronize();
        for (auto* m : memory) d.deallocate(m);
        BOOST_TEST(d.mistakes().empty());
        for (const auto& m : d.mistakes()) BOOST_TEST_MESSAGE(m);
        if (pass == 0)
          first = results;
        else
          BOOST_TEST((results == first), "other bits in pass " << pass);
      }
      gpu::emulate_backwards = false;
      if (o.written) o.written->insert(o.written->end(), first.begin(), first.end());

      for (std::size_t i = 0; i < all; ++i) {
        if (i < inputs && i >= static_cast<std::size_t>(c.op->writes)) continue;
        if (i >= inputs && c.op->writes) continue;  // the variable itself
        const value_info& info = i < inputs ? in[i] : out[i - inputs];
        const std::size_t elements = info.extents.elements();
        std::size_t wrong = 0;
        double worst = 0;
        for (std::size_t e = 0; e < elements && !refused; ++e) {
          const double x = element(info.type, host[i].data(), e), y = element(info.type, first[i].data(), e);
          if (std::isnan(x) && std::isnan(y)) continue;
          const double bound = is_floating(info.type) && !o.exact.count(c.op->name)
                                   ? o.tolerance * (info.type == dtype::float64 ? 1e-6 : 1) * std::max(1.0, std::abs(x))
                                   : 0;
          if (x == y || std::abs(x - y) <= bound) continue;
          if (!wrong++)
            BOOST_TEST_MESSAGE("output " << i << " element " << e << ": " << x << " by the CPU, " << y
                                         << " by the GPU");
          worst = std::max(worst, std::abs(x - y));
        }
        BOOST_TEST(wrong == 0u, wrong << " of " << elements << " elements differ, by " << worst);
        if (refused)
          values[{n, static_cast<std::uint32_t>(i - inputs)}] = first[i];
        else if (i >= inputs)
          values[{n, static_cast<std::uint32_t>(i - inputs)}] = host[i];
      }
      if (c.op->writes) values[{n, 0}] = host[0];
    }
  }
  return launches;
}

}  // namespace compare
