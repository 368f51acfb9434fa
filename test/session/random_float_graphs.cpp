// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "random/interpreter.hpp"

using namespace weft;

// Programs at random on the path that users run: float, matrices of 64 columns and up to 600 rows, two threads, the
// libraries that are there, panels, some products of half and bfloat16. The reference is the same program in double,
// one node at a time on one thread.
//
// How far float may be from it is measured, not guessed (Monte Carlo arithmetic: Parker 1997): the reference is
// computed again a few times, with every node's result moved at random by what one rounding to float may move it (and
// what is rounded to half or bfloat16 to a neighbour there). So the bound grows with the program's condition, and with
// what was added up on the way to a small number, for gradients too. An element may differ by 40 times the largest
// distance that a moved reference had, in which a float sum of some thousand terms has room; an element that differs by
// more is computed with 60 more moved references before it counts, for a comparison, a sort or a maximum may lie
// between two numbers that are nearly equal. The last test changes results by a ten-thousandth, and sees that it is
// found.

namespace {

using namespace random_programs;
using floats = world<float, 64>;
using doubles = world<double, 64>;

constexpr double factor = 40;

random_program float_program(unsigned seed) {
  std::mt19937 random(seed);
  constexpr std::int64_t sizes[] = {1, 3, 17, 64, 100, 301, 600};
  random_program p{seed, sizes[random() % 7], {}};
  extend(floats::known(), p, random, 4 + random() % 12, writes | (seed % 4 == 1 ? 0 : unsigned{rounds}));
  return p;
}

/// The program in one type, with its loss, gradients and training.
template <class World>
struct model {
  World w;
  values fed, variables;
  sequence<value> fetches;

  explicit model(const random_program& p) : w(p) {
    set_first_values(w, p, fed, variables);
    const auto loss = w.loss();
    const auto [dm, dr, dw, dk] =
        gradients(loss, w.template first<typename World::M>(), w.template first<typename World::R>(),
                  w.template first<typename World::W>(), w.template first<typename World::K>());
    const auto second = sum(square(dm)) + sum(dr);
    fetches = {loss.id(),
               dm.id(),
               dr.id(),
               dw.id(),
               dk.id(),
               w.template last<typename World::M>().id(),
               w.template last<typename World::L>().id()};
    if (p.seed % 5 == 0) {
      const auto [dd] = gradients(second, w.template first<typename World::W>());
      fetches.push_back(dd.id());
    }
    const auto all = loss + 0.1 * sum(square(w.template first<typename World::r>())) +
                     0.1 * mean(square(w.template first<typename World::w>()));
    const effect train =
        p.seed % 3 == 0   ? gradient_descent{.learning_rate = 0.05}.minimize(all)
        : p.seed % 3 == 1 ? momentum{.learning_rate = 0.05}.minimize(all)
                          : adam{.learning_rate = 0.05, .beta1 = 0.875, .beta2 = 0.9921875, .epsilon = 1e-2}.minimize(
                                all);  // 1 - beta is exact in float
    w.targets.push_back(train.erased().id().node);
  }
};

/// The number of compared elements, and of those with a bound below a ten-thousandth of their tensor's largest element.
struct {
  std::size_t elements = 0, sharp = 0;
  double worst = 0;  // distance over the moved references' distance
} seen;

/// Whether one element of the plan's results is changed by a ten-thousandth: in the last test.
bool mutated = false;

/// The largest element of the first result from one on that is not zero.
void mutate(std::vector<value_of>& found, std::size_t from) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    value_of& v = found[(from + i) % found.size()];
    std::size_t largest = 0;
    for (std::size_t e = 0; e < v.count(); ++e)
      if (std::abs(v.number(e)) > std::abs(v.number(largest))) largest = e;
    if (v.type != dtype::float32 || v.number(largest) == 0) continue;
    return v.set(largest, v.number(largest) * 1.0001);
  }
}

/// The values that all steps yield, and then the variables; moved where there is noise.
std::vector<value_of> run(interpreter& right, const model<doubles>& m, int steps, unsigned noise) {
  right.begin(m.variables);
  if (noise) right.disturb(noise);
  std::vector<value_of> found;
  for (int s = 0; s < steps; ++s) {
    right.step(m.fetches, m.w.targets, s);
    for (const value& f : m.fetches) found.push_back(right(f));
  }
  for (std::uint32_t n = 0; n < m.w.g.size(); ++n)
    if (is_operation<variable_op>(m.w.g[n].def.op)) found.push_back(right.variable(n));
  return found;
}

void widen(std::vector<std::vector<double>>& spread, const std::vector<value_of>& exact,
           const std::vector<value_of>& moved) {
  spread.resize(exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    spread[i].resize(exact[i].count());
    for (std::size_t e = 0; e < exact[i].count(); ++e) {
      const double distance = std::abs(exact[i].number(e) - moved[i].number(e));
      spread[i][e] = distance > spread[i][e] || distance != distance ? distance : spread[i][e];
    }
  }
}

bool within(double found, double exact, double spread) {
  if (found == exact || (found != found && exact != exact)) return true;
  if (!(std::abs(exact) < 1e30) || spread != spread) return true;  // beyond what float holds, or nearly
  return std::abs(found - exact) <= factor * spread;
}

verdict check_float(const random_program& p) {
  constexpr int steps = 2;
  model<floats> f(p);
  const model<doubles> d(p);
  planned plan(f.w.g, f.fetches, f.w.targets, f.fed,
               p.seed % 2 ? way{"two threads", 1, 1, 2} : way{"two lanes", 1, 2, 2});
  plan.begin(f.variables);
  std::vector<value_of> found;
  for (int s = 0; s < steps; ++s) {
    plan.in().set_step_number(s);
    for (const value_of& v : plan.run()) found.push_back(v);
  }
  std::vector<std::string> names;
  for (int s = 0; s < steps; ++s)
    for (const value& v : f.fetches) names.push_back("step " + std::to_string(s) + ": " + f.w.g[v.node].name);
  plan.variables([&](std::uint32_t n, const value_of& v) {
    found.push_back(v);
    names.push_back("the variable " + f.w.g[n].name);
  });
  if (mutated) mutate(found, p.seed % found.size());

  interpreter right(d.w.g, d.fed);
  const std::vector<value_of> exact = run(right, d, steps, 0);
  if (exact.size() != found.size()) return "the graphs differ";
  std::vector<std::vector<double>> spread;
  const auto worst = [&]() -> verdict {
    for (std::size_t i = 0; i < exact.size(); ++i)
      for (std::size_t e = 0; e < exact[i].count(); ++e)
        if (!within(found[i].number(e), exact[i].number(e), spread[i][e])) {
          char numbers[200];
          std::snprintf(numbers, sizeof numbers, "[%zu] is %.9g, not %.9g +- %.2g", e, found[i].number(e),
                        exact[i].number(e), factor * spread[i][e]);
          return names[i] + numbers + "\n" + plan.explain();
        }
    return {};
  };
  unsigned noise = 1;
  for (; noise <= 4; ++noise) widen(spread, exact, run(right, d, steps, noise));
  verdict bad = worst();
  for (; bad && noise <= 64; ++noise) widen(spread, exact, run(right, d, steps, noise));
  if (bad) bad = worst();
  for (std::size_t i = 0; i < exact.size(); ++i) {
    double largest = 0;
    for (std::size_t e = 0; e < exact[i].count(); ++e) largest = std::fmax(largest, std::abs(exact[i].number(e)));
    for (std::size_t e = 0; e < exact[i].count(); ++e) {
      ++seen.elements;
      seen.sharp += factor * spread[i][e] <= 1e-4 * largest;
      const double distance = std::abs(found[i].number(e) - exact[i].number(e));
      if (spread[i][e] > 0) seen.worst = std::fmax(seen.worst, distance / spread[i][e]);
    }
  }
  return bad;
}

}  // namespace

BOOST_AUTO_TEST_CASE(float_programs_compute_what_double_does) {
  // The bound is a measured one, and has been exceeded once in some two hundred programs: new seeds are for runs by
  // hand.
  run_seeds(floats::known(), "float", float_program, check_float, 0, slow ? 4 : 50, false);
  BOOST_TEST_MESSAGE("elements " << seen.elements << ", sharp " << seen.sharp << ", worst " << seen.worst);
  BOOST_TEST(static_cast<double>(seen.sharp) > 0.7 * static_cast<double>(seen.elements));
}
BOOST_AUTO_TEST_CASE(a_ten_thousandth_is_found) {
  mutated = true;
  unsigned found = 0, of = 0;
  for (unsigned seed = 0; of < (slow ? 4 : 24); ++seed) {
    random_program p = float_program(seed);
    if (p.seed % 4 == 1) continue;  // those round to half
    p.rows = 17;
    ++of;
    found += judge(floats::known(), "mutated", check_float, p).has_value();
  }
  mutated = false;
  BOOST_TEST(found * 6 >= of * 5);  // 94 of the first 100: what a program rounds or leaves out hides some
}
