// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/plan/program.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

/// Creates one arena for each lane and, for each GPU lane, one on the host for its copies to the host. If the program
/// uses GPUs, host memory is page-locked.
inline void list_arenas(program& p) {
  const std::size_t lanes = p.lanes.size(), cpu_lanes = lanes - p.gpus;
  p.arenas.resize(p.gpus ? 2 * lanes : lanes);
  for (std::size_t l = 0; l < p.arenas.size() && p.gpus; ++l) p.arenas[l].kind = arena_info::kind_type::pinned;
  for (std::uint32_t g = 0; g < p.gpus; ++g) p.arenas[cpu_lanes + g] = {arena_info::kind_type::gpu, g};
}

/// Assigns each instruction to the lane of its device on which it can start first, according to a cost model: one unit
/// per element read or written and per 16 multiply-adds, and 2,000 units to wait for another lane. The lanes of the CPU
/// devices come first, followed by one lane for each GPU. `info(b)`: the type and extents of a buffer when the step
/// first runs.
template <class Info>
void assign_lanes(program& p, const Info& info) {
  constexpr double hand_over = 2000;
  p.lanes.resize(p.cpus * p.lanes_per_device + p.gpus);
  list_arenas(p);
  const auto first_lane = [&](device_number d) {
    return static_cast<std::uint32_t>(d.gpu ? p.cpus * p.lanes_per_device + d.ordinal : d.ordinal * p.lanes_per_device);
  };
  const auto elements = [&](std::uint32_t b) { return static_cast<double>(info(b).extents.elements()); };
  const auto multiply_adds = [&](std::uint32_t n) {
    if (!p.op(n).multiply_adds) return 0.0;
    const auto operand = [&](std::size_t k) { return info(p.buffer_of(p.def(n).inputs[k])).extents; };
    return p.op(n).multiply_adds(operand(0), operand(1), info(p.nodes[n].first_buffer).extents);
  };
  sequence<double> lane_free(p.lanes.size(), 0), available(p.buffers.size(), 0);
  sequence<std::uint32_t> made_on(p.buffers.size(), none);
  for (std::uint32_t i = 0; i < p.instructions.size(); ++i) {
    instruction& in = p.instructions[i];
    const std::uint32_t first = first_lane(in.on),
                        count = in.on.gpu ? 1 : static_cast<std::uint32_t>(p.lanes_per_device);
    in.lane = first;
    if (p.lanes.size() > 1) {
      double cost = 0, best = 0;
      // A value that is received again must stay in the memory of the same lane.
      const std::uint32_t before = in.kind == instruction_kind::receive ? made_on[in.writes[0]] : none;
      for (const std::uint32_t b : in.reads) cost += elements(b);
      for (const std::uint32_t b : in.writes) cost += elements(b);
      if (in.kind == instruction_kind::compute) cost += multiply_adds(in.leader != none ? in.leader : in.node) / 16;
      for (std::uint32_t l = first; l < first + count; ++l) {
        double start = lane_free[l];
        for (const std::uint32_t b : in.reads) {
          const double ready = available[b] + (made_on[b] != none && made_on[b] != l ? hand_over : 0);
          start = ready > start ? ready : start;
        }
        if (before != none ? l == before : l == first || start < best) in.lane = l, best = start;
      }
      lane_free[in.lane] = best + cost;
      for (const std::uint32_t b : in.writes) available[b] = best + cost, made_on[b] = in.lane;
    }
    p.lanes[in.lane].push_back(i);
  }
}

/// Adds dependencies: each instruction waits for the last instruction in each other lane that it must follow. It
/// follows the last writer of every buffer that it accesses, the readers since then of every buffer that it writes and,
/// if it is `ordered`, the previous `ordered` instruction.
inline void add_dependencies(program& p) {
  const std::size_t lanes = p.lanes.size();
  if (lanes < 2) return;
  // The last writer of each buffer, and its last reader in each lane since then.
  sequence<std::uint32_t> writer(p.buffers.size(), none), readers(p.buffers.size() * lanes, none);
  sequence<std::uint32_t> latest(lanes, none);
  std::uint32_t last_effect = none;
  for (std::uint32_t i = 0; i < p.instructions.size(); ++i) {
    instruction& in = p.instructions[i];
    latest.assign(lanes, none);
    const auto follow = [&](std::uint32_t j) {
      if (j == none || p.instructions[j].lane == in.lane) return;
      std::uint32_t& last = latest[p.instructions[j].lane];
      if (last == none || last < j) last = j;
    };
    if (in.kind == instruction_kind::compute && p.op(in.node).ordered) follow(last_effect), last_effect = i;
    for (const std::uint32_t b : in.reads) follow(writer[b]);
    for (const std::uint32_t b : in.writes) {
      follow(writer[b]);
      for (std::size_t l = 0; l < lanes; ++l) follow(readers[b * lanes + l]);
    }
    for (const std::uint32_t b : in.reads) readers[b * lanes + in.lane] = i;
    for (const std::uint32_t b : in.writes) {
      writer[b] = i;
      for (std::size_t l = 0; l < lanes; ++l) readers[b * lanes + l] = none;
    }
    for (const std::uint32_t j : latest)
      if (j != none) in.dependencies.push_back(j);
  }
}

}  // namespace weft::plan

WEFT_COLD_END
