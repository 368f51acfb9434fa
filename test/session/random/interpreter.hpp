// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>
#include <weft/weft.hpp>

#include "blocks.hpp"
#include "crash.hpp"
#include "session_on_cpu.hpp"

/// A graph one node at a time, and by plans.
namespace random_programs {

struct value_of {
  shape extents;
  dtype type = dtype::float64;
  std::vector<double> elements;  // room enough for them, of whatever type

  std::size_t count() const { return extents.elements(); }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(elements.data());
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(elements.data());
  }
  double number(std::size_t i) const {
    switch (type) {
      case dtype::float64:
        return elements[i];
      case dtype::float32:
        return double{as<float>()[i]};
      case dtype::int32:
        return as<std::int32_t>()[i];
      case dtype::int64:
        return static_cast<double>(as<std::int64_t>()[i]);
      case dtype::boolean:
        return as<bool>()[i] ? 1 : 0;
      default:
        return 0;
    }
  }
  void set(std::size_t i, double x) {
    if (type == dtype::float64)
      elements[i] = x;
    else
      as<float>()[i] = static_cast<float>(x);
  }
};

using values = std::map<std::pair<std::uint32_t, std::uint32_t>, value_of>;

/// The value that a leaf or a variable of the program holds at first.
template <class World>
value_of first_value(const random_program& p, char kind, std::size_t number_of_value, dtype type) {
  value_of v{World::extents_of_kind(kind, p.rows), type, {}};
  v.elements.resize(v.count());
  for (std::size_t i = 0; i < v.count(); ++i)
    if (kind == 'L')
      v.as<std::int32_t>()[i] =
          static_cast<std::int32_t>(word(p.seed, number_of_value, i) >> 40) % static_cast<std::int32_t>(World::width);
    else if (kind == 'B')
      v.as<bool>()[i] = (word(p.seed, number_of_value, i) >> 40) % 2 == 1;
    else
      v.set(i, number(p.seed, number_of_value, i) * World::scale_of_kind(kind));
  return v;
}

/// Sets the values that the leaves are fed, and the variables that the program itself has.
template <class World>
void set_first_values(const World& at, const random_program& p, values& fed, values& variables) {
  for (std::size_t v = 0; v < at.kinds.size(); ++v) {
    const bool variable = at.kinds[v] == 'r' || at.kinds[v] == 'w';
    if (!variable && v >= std::strlen(leaves)) continue;
    const symbol s = at.values[v];
    (variable ? variables : fed)[{s.id().node, 0}] = first_value<World>(p, at.kinds[v], v, s.type());
  }
}

/// One node at a time. Every node sees a variable's value from before the step, except for those that read what a
/// write yields; writers of one variable come one after the other, in the order of their numbers.
class interpreter {
 public:
  interpreter(const graph& g, const values& fed, int devices = 1)
      : session_(g, {.threads = 1, .devices = devices}), graph_(g), fed_(fed) {}

  /// All variables as a session has them at first, and then as these say.
  void begin(const values& variables) {
    variables_.clear();
    for (std::uint32_t n = 0; n < graph_.size(); ++n) {
      if (!is_operation<variable_op>(graph_[n].def.op)) continue;
      const value_info info = session_.variable_info(n);
      value_of& v = variables_[{n, 0}];
      v = {info.extents, info.type, std::vector<double>(info.extents.elements())};
      session_.read_variable(n, v.elements.data());
    }
    for (const auto& [v, x] : variables) variables_[v] = x;
  }
  const value_of& variable(std::uint32_t n) const { return variables_.at({n, 0}); }

  /// From now on every result is moved at random: each element by as much as rounding to float could, were its whole
  /// tensor as large as its largest element, and half and bfloat16 to a neighbour or not.
  void disturb(unsigned seed) { noise_.emplace(seed); }

  /// A step: what is fetched, after all writers among what is needed have run.
  void step(const sequence<value>& fetches, const std::vector<std::uint32_t>& targets, std::int64_t number) {
    number_ = number;
    known_ = fed_;
    before_ = variables_;
    needed_.assign(graph_.size(), 0);
    for (const value& f : fetches) need(f.node);
    for (const std::uint32_t t : targets) need(t);
    for (std::uint32_t n = 0; n < graph_.size(); ++n)
      if (needed_[n]) compute(n);
  }
  const value_of& operator()(value v) const { return known_.at({v.node, v.output}); }

 private:
  struct single {
    template <class Session>
    single(Session& s, plan::step_request r) : request(r), step(s, r) {}
    plan::step_request request;
    prepared_step step;
  };

  void need(std::uint32_t n) {
    if (needed_[n] || fed_.count({n, 0})) return;
    needed_[n] = 1;
    for (const value& v : graph_[n].def.inputs) need(v.node);
    for (const std::uint32_t c : graph_[n].control) need(c);
  }

  void compute(std::uint32_t n) {
    const node_def& what = graph_[n].def;
    if (known_.count({n, 0}) || is_operation<group_op>(what.op)) return;
    if (is_operation<variable_op>(what.op))
      known_[{n, 0}] = before_.at({n, 0});
    else if (what.op->writes)
      write(n);
    else
      run(n);
  }

  void write(std::uint32_t n) {
    const node_def& what = graph_[n].def;
    const std::string name = what.op->name;
    std::vector<double>& v = variables_.at({what.inputs[0].node, 0}).elements;
    const auto number = [&](std::size_t i) { return weft::detail::literal_value<double>(what.literals[i]); };
    const auto slot = [&](std::size_t i) -> std::vector<double>& {
      return variables_.at({what.inputs[i].node, 0}).elements;
    };
    if (name == "adam") {
      slot(3)[0] *= number(1);
      slot(4)[0] *= number(2);
    }
    const auto update = [&](std::size_t i, double x) {
      if (name == "assign") {
        v[i] = x;
      } else if (name == "assign_add") {
        v[i] += x;
      } else if (name == "gradient_descent") {
        v[i] -= number(0) * x;
      } else if (name == "momentum") {
        slot(1)[i] = number(1) * slot(1)[i] + x;
        v[i] -= number(0) * slot(1)[i];
      } else {
        BOOST_REQUIRE_EQUAL(name, "adam");
        double &m = slot(1)[i], &s = slot(2)[i];
        m = number(1) * m + (1 - number(1)) * x;
        s = number(2) * s + (1 - number(2)) * x * x;
        v[i] -= number(0) * std::sqrt(1 - slot(4)[0]) / (1 - slot(3)[0]) * m / (std::sqrt(s) + number(3));
      }
    };
    // A gradient of all elements or, of a variable whose rows were gathered, lists of rows and of their numbers.
    const std::size_t lists = what.attributes.size() > 1 ? static_cast<std::size_t>(what.attributes[1]) : 0;
    const auto operand = [&](std::size_t back) -> const value_of& {
      const value in = what.inputs[what.inputs.size() - back];
      return known_.at({in.node, in.output});
    };
    if (lists == 0)
      for (std::size_t i = 0; i < v.size(); ++i) update(i, operand(1).elements[i]);
    for (std::size_t list = lists; list > 0; --list) {
      const value_of &rows = operand(2 * list), &numbers = operand(2 * list - 1);
      const std::size_t width = rows.count() / numbers.count();
      for (std::size_t k = 0; k < numbers.count(); ++k)
        for (std::size_t e = 0; e < width && numbers.as<std::int64_t>()[k] >= 0; ++e)
          update(static_cast<std::size_t>(numbers.as<std::int64_t>()[k]) * width + e, rows.elements[k * width + e]);
    }
    move(variables_.at({what.inputs[0].node, 0}));
    known_[{n, 0}] = variables_.at({what.inputs[0].node, 0});
  }

  single& alone(std::uint32_t n) {
    std::unique_ptr<single>& known = alone_[n];
    if (known) return *known;
    const node_def& what = graph_[n].def;
    plan::step_request request;
    request.feeds.push_back({fed_.begin()->first.first, 0});  // has the batch's size
    sequence<value> others = what.inputs;                     // and the results that it runs after
    for (const std::uint32_t c : graph_[n].control)
      if (known_.count({c, 0})) others.push_back({c, 0});
    for (const value& in : others) {
      if (is_operation<constant_op>(graph_[in.node].def.op)) continue;
      if (is_operation<random_position_op>(graph_[in.node].def.op)) continue;  // the session's
      bool twice = false;
      for (const value& other : request.feeds) twice = twice || other == in;
      if (!twice) request.feeds.push_back(in);
    }
    for (std::uint32_t o = 0; o < what.outputs.size(); ++o) request.fetches.push_back({n, o});
    return *(known = std::make_unique<single>(session_, request));
  }

  void run(std::uint32_t n) {
    single& s = alone(n);
    std::vector<weft::plan::fed_value> fed;
    for (const value& in : s.request.feeds) {
      const value_of& k = known_.at({in.node, in.output});
      fed.push_back({k.elements.data(), k.extents});
    }
    std::vector<value_of> results(s.request.fetches.size());
    session_.set_step_number(number_);
    s.step.run(fed.data(), [&](std::size_t i, const shape& extents) -> void* {
      results[i].extents = extents;
      results[i].elements.resize(extents.elements());
      return results[i].elements.data();
    });
    for (std::uint32_t o = 0; o < results.size(); ++o) {
      if (fed_.count({n, o})) continue;
      results[o].type = graph_.info({n, o}).type;
      move(results[o]);
      known_[{n, o}] = std::move(results[o]);
    }
  }

  void move(value_of& v) {
    if (!noise_) return;
    if (v.type == dtype::float16 || v.type == dtype::bfloat16) {
      for (std::size_t i = 0; i < v.count(); ++i)
        if (std::uint16_t& bits = v.as<std::uint16_t>()[i]; (bits & 0x7fff) != 0)
          bits = static_cast<std::uint16_t>(bits + (*noise_)() % 3 - 1);
    } else if (v.type == dtype::float64) {
      double largest = 0;
      for (std::size_t i = 0; i < v.count(); ++i) largest = std::fmax(largest, std::abs(v.elements[i]));
      constexpr double unit = 1.0 / (1 << 24) / (1 << 30);
      const auto any = [&] { return unit * static_cast<double>(static_cast<std::int32_t>((*noise_)()) / 2); };
      for (std::size_t i = 0; i < v.count(); ++i) v.elements[i] += any() * std::abs(v.elements[i]) + any() * largest;
    }
  }

  session_on_cpu session_;
  const graph& graph_;
  const values& fed_;
  values known_, variables_, before_;
  std::vector<char> needed_;
  std::map<std::uint32_t, std::unique_ptr<single>> alone_;
  std::optional<std::mt19937> noise_;
  std::int64_t number_ = 0;
};

/// The words of what is wrong; nothing if all is well.
using verdict = std::optional<std::string>;

struct way {
  const char* name;
  int devices, lanes, threads = 1;
};

class planned {
 public:
  planned(const graph& g, const sequence<value>& fetches, const std::vector<std::uint32_t>& targets, const values& fed,
          way how)
      : session_(g, {.threads = how.threads, .inter_op_threads = how.lanes, .devices = how.devices}),
        graph_(g),
        fed_(fed) {
    plan::step_request request;
    request.fetches = fetches;
    for (const std::uint32_t t : targets) request.targets.push_back(t);
    for (const auto& [v, x] : fed) request.feeds.push_back({v.first, v.second});
    step_.emplace(session_, request);
    for (std::size_t i = 0; i < fetches.size(); ++i) found_.push_back({{}, g.info(fetches[i]).type, {}});
  }

  session& in() { return session_; }
  std::string explain() const { return step_->explain(); }

  const std::vector<value_of>& run() {
    std::vector<weft::plan::fed_value> fed;
    for (const auto& [v, x] : fed_) fed.push_back({x.elements.data(), x.extents});
    step_->run(fed.data(), [&](std::size_t i, const shape& extents) -> void* {
      found_[i].extents = extents;
      found_[i].elements.assign(extents.elements(), 0);
      return found_[i].elements.data();
    });
    return found_;
  }

  void begin(const values& variables) {
    for (const auto& [v, x] : variables) session_.write_variable(v.first, x.elements.data());
  }
  value_of read(std::uint32_t n) {
    const value_info info = session_.variable_info(n);
    value_of v{info.extents, info.type, {}};
    v.elements.resize(v.count());
    session_.read_variable(n, v.elements.data());
    return v;
  }
  /// Calls each(node, value) for all variables, slots among them.
  template <class Each>
  void variables(Each each) {
    for (std::uint32_t n = 0; n < graph_.size(); ++n)
      if (is_operation<variable_op>(graph_[n].def.op)) each(n, read(n));
  }

 private:
  session session_;
  const graph& graph_;
  const values& fed_;
  std::optional<prepared_step> step_;
  std::vector<value_of> found_;
};

// ---- which programs, and what is said of one that fails ----

using check = verdict (*)(const random_program&);

inline verdict judge(const blocks_known& known, const char* name, check by, const random_program& p) {
  running(std::string(name) + "\n" + to_string(known, p));
  verdict words;
  try {
    words = by(p);
  } catch (const error& e) {
    // The one order that a step cannot have; where it is made of two writes and a read between them.
    if (!std::strstr(e.what(), "after a write and runs after another write")) words = std::string("throws ") + e.what();
  } catch (const std::exception& e) {
    words = std::string("throws ") + e.what();
  }
  running("");
  return words;
}

/// Leaves out what is not needed for the failure, and says what is left.
inline std::string shrunk(const blocks_known& known, const char* name, check by, random_program p, std::string words) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (std::size_t i = p.steps.size(); i-- > 0;) {
      const random_program less = without(known, p, i);
      if (const verdict still = judge(known, name, by, less)) p = less, words = *still, smaller = true;
    }
  }
  return std::string(name) + ": seed " + std::to_string(p.seed) + ", " + std::to_string(p.steps.size()) +
         " steps left: " + words + "\n" + to_string(known, p);
}

inline const char* setting(const char* name) { return std::getenv(name); }

/// Where a program takes long, on an emulated GPU and under sanitizers, there are fewer.
#if defined(WEFT_GPU_EMULATION) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool slow = true;
#else
inline constexpr bool slow = false;
#endif

/// A seed that no run had before, the same for all tests of this one.
inline unsigned fresh_seed() {
  static const unsigned seed = [] {
    const unsigned s = std::random_device()() % 2'000'000'000;
    std::printf("fresh seeds from %u\n", s);
    std::fflush(stdout);
    return s;
  }();
  return seed;
}

/// Programs of the fixed seeds and, with `fresh`, a quarter as many of new ones. WEFT_RANDOM_FROM and WEFT_RANDOM_COUNT
/// say which instead, and WEFT_RANDOM_SECONDS how long to go on.
template <class Make>
void run_seeds(const blocks_known& known, const char* name, Make make, check by, unsigned from, unsigned count,
               bool fresh = true) {
  const crash_report reports;
  const char* const seconds = setting("WEFT_RANDOM_SECONDS");
  const char* const other = setting("WEFT_RANDOM_FROM");
  const char* const many = setting("WEFT_RANDOM_COUNT");
  if (many) count = static_cast<unsigned>(std::strtoul(many, nullptr, 10));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds ? std::atoi(seconds) : 0);
  const auto go = [&](unsigned first, unsigned n) {
    unsigned seed = first;
    for (; seed - first < n || std::chrono::steady_clock::now() < end; ++seed) {
      const random_program p = make(seed);
      if (const verdict bad = judge(known, name, by, p)) {
        BOOST_ERROR(shrunk(known, name, by, p, *bad));
        return;
      }
    }
    if (seconds) std::printf("%s: %u programs\n", name, seed - first);
  };
  if (other || seconds || many)
    return go(other ? static_cast<unsigned>(std::strtoul(other, nullptr, 10)) : from, count);
  go(from, count);
  if (fresh) go(fresh_seed(), count / 4);
}

}  // namespace random_programs
