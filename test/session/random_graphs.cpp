// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <sys/wait.h>
#include <unistd.h>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>
#include <weft/control_flow.hpp>
#include <weft/graph/random.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/ops/index/sort.hpp>
#include <weft/ops/index/unique.hpp>
#include <weft/ops/linear_algebra/lu.hpp>
#include <weft/ops/random/dropout.hpp>
#include <weft/ops/random/shuffle.hpp>
#include <weft/ops/reduce/scan.hpp>
#include <weft/weft.hpp>

#include "random/interpreter.hpp"

using namespace weft;

// Programs at random: typed graphs over all operations, from a seed, on a small set of types, so that few are compiled
// and many are run. Each is run by a plan that reuses buffers and fuses kernels, on one device, on several, and with
// two lanes, for several steps that write variables, and on a GPU (test/cuda/on_gpu.hpp); against an interpreter of the
// same graph that does one node at a time on the CPU, each in a plan of its own where every value is fed and fetched
// and nothing can be reused; and its gradients against differences. A program that fails is made smaller and
// printed; one that crashes is printed too.
//
// With a GPU, one program in twenty thousand compares values there that are equal on a CPU, and finds them apart by a
// rounding: a report whose graph has a comparison and no other difference is of that kind.
//
//   WEFT_RANDOM_SECONDS=3600 WEFT_RANDOM_FROM=1000000 test_session_random_graphs      goes on with other seeds
//   WEFT_RANDOM_FROM=1234 WEFT_RANDOM_COUNT=1 test_session_random_graphs              runs that seed again

namespace {

using namespace random_programs;
using doubles = world<double, 4>;

random_program any_program(unsigned seed) {
  std::mt19937 random(seed);
  random_program p{seed, seed % 7 == 0 ? 1 : seed % 5 == 0 ? 17 : 3, {}};
  extend(doubles::known(), p, random, 6 + random() % 18, writes);
  return p;
}
random_program program_that_writes(unsigned seed) {
  std::mt19937 random(seed);
  random_program p{seed, seed % 7 == 0 ? 1 : seed % 5 == 0 ? 17 : 3, {}};
  for (std::size_t n = 6 + random() % 18; p.steps.size() < n;)
    extend(doubles::known(), p, random, 1, 0, random() % 8 == 0 ? unsigned{writes} : 0);
  return p;
}
/// Writes come in the last quarter, where they are not differentiated.
random_program program_that_writes_at_last(unsigned seed) {
  random_program p = any_program(seed);
  std::mt19937 random(seed + 1);
  extend(doubles::known(), p, random, p.steps.size() / 3, 0);
  return p;
}
random_program smooth_program(unsigned seed) {
  std::mt19937 random(seed);
  random_program p{seed, 2, {}};
  extend(doubles::known(), p, random, 2 + random() % 5, 0, smooth);
  return p;
}

bool close(double a, double b) {
  return a == b || std::abs(a - b) <= 1e-9 * (1 + std::abs(a) + std::abs(b)) || (a != a && b != b);
}

verdict differ(const value_of& found, const value_of& right, const std::string& where) {
  if (found.count() != right.count())
    return where + " has " + std::to_string(found.count()) + " elements, not " + std::to_string(right.count());
  for (std::size_t e = 0; e < found.count(); ++e)
    if (!close(found.number(e), right.number(e)))
      return where + "[" + std::to_string(e) + "] is " + std::to_string(found.number(e)) + ", not " +
             std::to_string(right.number(e));
  return {};
}

struct built {
  doubles w;
  values fed, variables;

  explicit built(const random_program& p) : w(p) { set_first_values(w, p, fed, variables); }
  /// The steps behind those that are there.
  void extend(const random_program& p) {
    w.extend(p, w.values.size() - std::strlen(leaves));
    set_first_values(w, p, fed, variables);
  }
};

/// The first quarters of a program.
random_program part(random_program p, std::size_t quarters) {
  p.steps.resize(p.steps.size() * quarters / 4);
  return p;
}

verdict check_steps(built& b, const sequence<value>& fetches, way how) {
  planned p(b.w.g, fetches, b.w.targets, b.fed, how);
  interpreter right(b.w.g, b.fed, how.devices);
  p.begin(b.variables);
  right.begin(b.variables);
  for (int step = 0; step < 3; ++step) {
    p.in().set_step_number(step);
    const auto& found = p.run();
    right.step(fetches, b.w.targets, step);
    const std::string when = std::string(how.name) + ", step " + std::to_string(step) + ": ";
    for (std::size_t i = 0; i < fetches.size(); ++i)
      if (verdict bad = differ(found[i], right(fetches[i]), when + b.w.g[fetches[i].node].name))
        return *bad + "\n" + p.explain();
    verdict bad;
    p.variables([&](std::uint32_t n, const value_of& v) {
      if (!bad) bad = differ(v, right.variable(n), when + "the variable " + b.w.g[n].name);
    });
    if (bad) return *bad + "\n" + p.explain();
  }
  return {};
}

constexpr way one_device{"one device", 1, 1}, two_lanes{"two lanes", 1, 2}, three_devices{"three devices", 3, 1};

verdict check_values(const random_program& p) {
  built b(p);
  const doubles& w = b.w;
  sequence<value> fetches{w.last<doubles::M>().id(), w.last<doubles::R>().id(), w.last<doubles::W>().id()};
  if (p.seed % 3 == 0) fetches.push_back(w.values[w.values.size() / 2].id());
  if (p.seed % 4 == 0) fetches.push_back(w.last<doubles::L>().id());
  if (p.seed % 4 == 1) fetches.push_back(w.last<doubles::B>().id());
  if (p.seed % 5 == 0) fetches.push_back(w.last<doubles::P>().id());
  if (p.seed % 6 == 0) fetches.push_back(w.last<doubles::C>().id());
  return check_steps(b, fetches, p.seed % 2 ? one_device : two_lanes);
}

verdict check_training(const random_program& p) {
  built b(part(p, 3));
  const auto loss = b.w.loss();
  const auto all = loss + 0.1 * sum(square(b.w.first<doubles::r>()));
  const effect train = p.seed % 3 == 0   ? gradient_descent{.learning_rate = 0.05}.minimize(all)
                       : p.seed % 3 == 1 ? momentum{.learning_rate = 0.05}.minimize(all)
                                         : adam{.learning_rate = 0.05, .epsilon = 1e-3}.minimize(all);
  b.w.targets.push_back(train.erased().id().node);
  b.extend(p);
  sequence<value> fetches{loss.id(), b.w.last<doubles::R>().id()};
  if (p.seed % 4 == 0) fetches.push_back(b.w.first<doubles::r>().id());
  return check_steps(b, fetches, p.seed % 5 < 3 ? one_device : two_lanes);
}

/// Values in the middle are fed in place of what is computed.
verdict check_feeds(const random_program& p) {
  built b(p);
  for (std::size_t v = std::strlen(leaves) + p.seed % 3; v < b.w.values.size(); v += 5) {
    const char kind = b.w.kinds[v];
    const symbol s = b.w.values[v];
    const node_def& what = b.w.g[s.id().node].def;
    if (is_operation<variable_op>(what.op) || is_operation<placeholder_op>(what.op) || what.op->writes ||
        what.outputs.size() != 1)
      continue;
    b.fed[{s.id().node, s.id().output}] = first_value<doubles>(p, kind, v, s.type());
  }
  return check_steps(b, {b.w.last<doubles::M>().id(), b.w.last<doubles::S>().id(), b.w.last<doubles::W>().id()},
                     one_device);
}

/// Along a direction, by differences: where two widths agree, for there are kinks. The first of `fetches` is the value,
/// and the others its gradients with respect to `inputs`.
verdict check_differences(const random_program& p, built& b, const sequence<value>& fetches,
                          const sequence<value>& inputs) {
  planned f(b.w.g, fetches, {}, b.fed, one_device);
  f.begin(b.variables);
  const auto run = [&] {
    f.in().set_step_number(0);
    return f.run();
  };
  const std::vector<value_of> at = run();
  const values there = b.fed;
  std::mt19937 random(p.seed);
  std::vector<std::vector<double>> direction;
  double slope = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    direction.emplace_back();
    for (std::size_t e = 0; e < at[1 + i].count(); ++e) {
      direction[i].push_back(std::uniform_real_distribution(-1.0, 1.0)(random));
      slope += direction[i][e] * at[1 + i].elements[e];
    }
  }
  const auto value_at = [&](double h) {
    b.fed = there;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      for (std::size_t e = 0; e < direction[i].size(); ++e)
        b.fed[{inputs[i].node, 0}].elements[e] += h * direction[i][e];
    return run()[0].elements[0];
  };
  const double h = 1e-5, wide = (value_at(h) - value_at(-h)) / (2 * h),
               narrow = (value_at(h / 4) - value_at(-h / 4)) / (h / 2);
  b.fed = there;
  const double size = 1 + std::abs(slope) + std::abs(at[0].elements[0]);
  if (!(std::abs(wide - narrow) <= 1e-6 * size)) return {};
  if (std::abs(narrow - slope) <= 1e-5 * size) return {};
  return "the slope is " + std::to_string(slope) + " by gradients, " + std::to_string(narrow) + " by differences\n" +
         f.explain();
}

verdict check_gradients(const random_program& p) {
  built b(p);
  const auto m = b.w.first<doubles::M>(), n = b.w.first<doubles::M>(1);
  const auto row = b.w.first<doubles::R>();
  const auto weights = b.w.first<doubles::W>();
  const auto filters = b.w.first<doubles::K>();
  const auto pictures = b.w.first<doubles::P>();
  const auto column = b.w.first<doubles::C>();
  const auto loss = b.w.loss();
  const auto [dm, dn, dr, dw] = gradients(loss, m, n, row, weights);
  const auto [dk, dp, dc] = gradients(loss, filters, pictures, column);
  const sequence<value> inputs{m.id(), n.id(), row.id(), weights.id(), filters.id(), pictures.id(), column.id()};
  sequence<value> fetches{loss.id(), dm.id(), dn.id(), dr.id(), dw.id(), dk.id(), dp.id(), dc.id()};
  if (p.seed % 2 == 0) {
    const auto [second] = gradients(sum(square(dm)) + sum(dn), weights);
    fetches.push_back(second.id());
  }
  if (verdict bad = check_steps(b, fetches, p.seed % 3 ? one_device : three_devices)) return bad;
  for (const auto& i : p.steps)
    if (doubles::known()[i.block].flags & (stops | rounds)) return {};
  return check_differences(p, b, fetches, inputs);
}

/// Up to the third order, along a direction: what is differentiated is a gradient of the one before.
verdict check_third_gradients(const random_program& p) {
  built b(p);
  const auto m = b.w.first<doubles::M>();
  const auto weights = b.w.first<doubles::W>();
  const auto row = b.w.first<doubles::R>();
  const auto along_m = b.w.first<doubles::M>(1);
  const auto next = [&](const auto& y) {
    const auto [dm, dw, dr] = gradients(y, m, weights, row);
    return std::tuple{dm, dw, dr, let(sum(dm * along_m) + 0.5 * sum(dw) - sum(dr))};
  };
  const auto [m1, w1, r1, first] = next(b.w.loss());
  const auto [m2, w2, r2, second] = next(first);
  const auto [m3, w3, r3, third] = next(second);
  const sequence<value> inputs{m.id(), weights.id(), row.id()};
  if (verdict bad = check_steps(b, {third.id(), m3.id(), w3.id(), r3.id()}, one_device)) return bad;
  if (verdict bad = check_differences(p, b, {first.id(), m2.id(), w2.id(), r2.id()}, inputs)) return "second: " + *bad;
  if (verdict bad = check_differences(p, b, {second.id(), m3.id(), w3.id(), r3.id()}, inputs)) return "third: " + *bad;
  return {};
}

/// The gradient that arrives at the last operation is one number: a product's gradient of it does not read the product.
verdict check_gradients_of_sums(const random_program& p) {
  built b(p);
  const auto m = b.w.last<doubles::M>();
  const auto w = b.w.last<doubles::W>();
  const auto loss = p.seed % 4 == 0   ? sum(m)
                    : p.seed % 4 == 1 ? mean(matmul(m, w))
                    : p.seed % 4 == 2 ? sum(matmul(m, w) + b.w.last<doubles::R>())
                                      : mean(matmul<transpose_of::b>(m, w));
  const auto [dm, dr, dw] = gradients(loss, b.w.first<doubles::M>(), b.w.first<doubles::R>(), b.w.first<doubles::W>());
  sequence<value> fetches{dm.id(), dr.id(), dw.id()};
  if (p.seed % 3 != 0) fetches.push_back(loss.id());
  return check_steps(b, fetches, one_device);
}

verdict check_several_devices(const random_program& p) {
  std::mt19937 where(p.seed);
  built b(part(p, 2));
  const device_scope anywhere(b.w.g,
                              [&](const placement_query&) { return device_spec(cpu{static_cast<int>(where() % 3)}); });
  b.extend(p);
  const auto [dm, dw] = gradients(mean(b.w.last<doubles::M>() * b.w.last<doubles::R>()), b.w.first<doubles::M>(),
                                  b.w.first<doubles::W>());
  return check_steps(b, {b.w.last<doubles::M>().id(), dm.id(), dw.id()}, three_devices);
}

/// A program of operations that PyTorch has too.
random_program program_without_draws(unsigned seed) {
  std::mt19937 random(seed);
  random_program p{seed, seed % 4 == 0 ? 1 : seed % 4 == 1 ? 4 : 3, {}};
  extend(doubles::known(), p, random, 5 + random() % 15, draws | writes | rounds);
  return p;
}

/// Writes the programs of seeds 0, 1, ... until every block that PyTorch has occurs `often` times. Skips programs whose
/// blocks have all occurred as often before.
void write_programs(std::ostream& file) {
  constexpr int often = 5;
  std::vector<int> times(doubles::known().size());
  std::size_t rare = 0;
  for (const block_description& b : doubles::known()) rare += !(b.flags & (draws | writes | rounds));
  for (unsigned seed = 0; rare > 0; ++seed) {
    const random_program p = program_without_draws(seed);
    bool wanted = false;
    for (const instruction& i : p.steps) wanted = wanted || times[i.block] < often;
    if (!wanted) continue;
    for (const instruction& i : p.steps) rare -= ++times[i.block] == often;
    file << to_string(doubles::known(), p);
  }
}

/// Compares a program with the values that random_program_values.txt has of it, in its order.
verdict check_against(const random_program& p, const std::vector<double>& values) {
  built b(p);
  const auto loss = b.w.loss();
  const auto [dm, dr, dw, dk, dp] =
      gradients(loss, b.w.first<doubles::M>(), b.w.first<doubles::R>(), b.w.first<doubles::W>(),
                b.w.first<doubles::K>(), b.w.first<doubles::P>());
  const sequence<value> fetches{loss.id(), b.w.last<doubles::M>().id(), dm.id(), dr.id(), dw.id(), dk.id(), dp.id()};
  planned f(b.w.g, fetches, {}, b.fed, one_device);
  f.begin(b.variables);
  std::vector<double> found;
  const auto& results = f.run();
  for (std::size_t i = 0; i < results.size(); ++i) {
    double weighted = 0;
    for (std::size_t e = 0; e < results[i].count(); ++e) {
      if (i < 5) found.push_back(results[i].number(e));
      weighted += results[i].number(e) * static_cast<double>(1 + e % 7);
    }
    if (i >= 5) found.push_back(weighted);  // one number for each of the filters' and the pictures' gradients
  }
  if (found.size() != values.size())
    return std::to_string(values.size()) + " values, not " + std::to_string(found.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    if (!close(found[i], values[i]))
      return "value " + std::to_string(i) + " is " + std::to_string(found[i]) + ", of PyTorch " +
             std::to_string(values[i]) + "\n" + f.explain();
  return {};
}

/// The text that a process writes to standard error that ends in the middle of the program.
std::string last_words(check by, const random_program& p) {
  int ends[2];
  BOOST_REQUIRE_EQUAL(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    for (const int s : crash::signals) std::signal(s, SIG_DFL);
    const crash_report reports;
    judge(doubles::known(), "a test", by, p);
    _exit(0);
  }
  ::close(ends[1]);
  std::string words;
  char some[4096];
  for (ssize_t n; (n = read(ends[0], some, sizeof some)) > 0;) words.append(some, static_cast<std::size_t>(n));
  ::close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  BOOST_CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
  return words;
}

void run(const char* name, random_program (*make)(unsigned), check by, unsigned from, unsigned count) {
  run_seeds(doubles::known(), name, make, by, from, slow ? count : 20 * count);
}

}  // namespace

BOOST_AUTO_TEST_CASE(plans_compute_what_single_nodes_compute) {
  run("values", program_that_writes, check_values, 0, 120);
}
BOOST_AUTO_TEST_CASE(plans_train_what_single_nodes_train) {
  run("training", program_that_writes_at_last, check_training, 40000, 100);
}
BOOST_AUTO_TEST_CASE(plans_take_values_in_the_middle) { run("feeds", any_program, check_feeds, 50000, 60); }
BOOST_AUTO_TEST_CASE(plans_compute_the_gradients_of_any_graph) {
  run("gradients", any_program, check_gradients, 10000, 80);
}
BOOST_AUTO_TEST_CASE(gradients_of_gradients_of_gradients) {
  run("third gradients", smooth_program, check_third_gradients, 60000, 20);
}
BOOST_AUTO_TEST_CASE(plans_compute_the_gradients_of_sums) {
  run("gradients of sums", any_program, check_gradients_of_sums, 30000, 60);
}
BOOST_AUTO_TEST_CASE(several_devices_compute_the_same) {
  run("several devices", any_program, check_several_devices, 20000, 60);
}

BOOST_AUTO_TEST_CASE(a_crash_prints_the_program) {
  const check crashes[] = {
      [](const random_program&) -> verdict {
        volatile int* volatile nowhere = nullptr;
        *nowhere = 1;
        return {};
      },
      [](const random_program&) -> verdict { std::abort(); },
      [](const random_program&) -> verdict { std::terminate(); },
      [](const random_program&) -> verdict {
        raise(SIGILL);
        return {};
      },
#if defined(__SANITIZE_ADDRESS__)
      [](const random_program&) -> verdict {
        volatile std::size_t behind = 3;
        return std::to_string(std::vector<int>(3).data()[behind]);
      },
#endif
  };
  const random_program p = any_program(7);
  for (const check by : crashes) {
    const std::string words = last_words(by, p);
    BOOST_CHECK_MESSAGE(words.find("a test\n" + to_string(doubles::known(), p)) != std::string::npos, words);
  }
}

// random_program_values.txt has programs and what PyTorch computes of them: make_random_program_values.py. With
// WEFT_RANDOM_WRITE=FILE this writes the programs that it reads.
BOOST_AUTO_TEST_CASE(programs_compute_what_pytorch_computes) {
  if (const char* const to = setting("WEFT_RANDOM_WRITE")) {
    std::ofstream file(to);
    write_programs(file);
    return;
  }
  const crash_report reports;
  std::ifstream file(TEST_DATA "/session/random_program_values.txt");
  std::string word, line;
  unsigned programs = 0;
  random_program p;
  std::getline(file, line);  // where it comes from
  while (std::getline(file, line)) {
    std::istringstream words(line);
    words >> word;
    if (word == "program") {
      p = {};
      words >> p.seed >> p.rows;
    } else if (word == "values") {
      std::vector<double> right;
      for (double x; words >> x;) right.push_back(x);
      running("PyTorch's\n" + to_string(doubles::known(), p));
      if (const verdict bad = check_against(p, right)) BOOST_ERROR(*bad + "\n" + to_string(doubles::known(), p));
      ++programs;
    } else {
      BOOST_REQUIRE_MESSAGE(read_step(doubles::known(), p, line), line);
    }
  }
  BOOST_CHECK_EQUAL(programs, 122u);
}
