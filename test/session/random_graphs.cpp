#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>
#include <weft/ops/linear_algebra.hpp>
#include <weft/ops/scan.hpp>
#include <weft/ops/sort.hpp>
#include <weft/weft.hpp>

#include "session_on_cpu.hpp"

using namespace weft;

// Programs at random: typed graphs over all operations, from a seed, on a small set of types, so that few are compiled
// and many are run. Each is run by a plan that reuses buffers and fuses kernels, on one device, on several, and with
// two lanes, for several steps that write variables, and on a GPU (test/cuda/on_gpu.hpp); against an interpreter of the
// same graph that does one node at a time on the CPU, each in a plan of its own where every value is fed and fetched and
// nothing can be reused; and its gradients against differences. What fails is made smaller and printed.
//
// With a GPU, one program in twenty thousand compares values there that are equal on a CPU, and finds them apart by a
// rounding: a report whose graph has a comparison and no other difference is of that kind.
//
//   WEFT_RANDOM_SECONDS=3600 WEFT_RANDOM_FROM=1000000 test_session_random_graphs      goes on with other seeds

namespace {

using batch = dyn_extent<"batch">;
using matrix = node<double, dims<batch{}, 4>>;
using row = node<double, dims<4>>;
using column = node<double, dims<batch{}, 1>>;
using square_matrix = node<double, dims<4, 4>>;
using scalar = node<double>;
using images = node<double, dims<batch{}, 4, 4, 2>>;
using filters = node<double, dims<3, 3, 2, 2>>;
using labels = node<std::int32_t, dims<batch{}>>;

struct value_of {
  shape extents;
  dtype type = dtype::float64;
  std::vector<double> elements;  // room enough for them, of whatever type

  std::size_t bytes() const { return extents.elements() * size_of(type); }
};

using values = std::map<std::pair<std::uint32_t, std::uint32_t>, value_of>;

/// What a program is made of: a list of choices, of which any part can be left out.
struct choices {
  unsigned seed = 0;
  std::vector<std::uint32_t> steps;  // each grows the graph by something
  std::int64_t rows = 3;

  explicit choices(unsigned s) : seed(s) {
    std::mt19937 random(s);
    rows = s % 7 == 0 ? 1 : s % 5 == 0 ? 17 : 3;
    const std::size_t n = 6 + random() % 18;
    for (std::size_t i = 0; i < n; ++i) steps.push_back(static_cast<std::uint32_t>(random()));
  }
};

struct random_graph {
  graph g;
  std::mt19937 random;
  bool writes;  // variables; not where what is computed is differentiated, since writes have no gradient
  std::vector<matrix> matrices;
  std::vector<row> rows;
  std::vector<column> columns;
  std::vector<square_matrix> weights;
  std::vector<scalar> scalars;
  std::vector<images> pictures;
  std::vector<filters> kernels;
  std::vector<labels> classes;
  std::vector<variable_node<double, dims<4>>> row_variables;
  std::vector<variable_node<double, dims<4, 4>>> weight_variables;
  std::vector<std::uint32_t> targets;  // run for their effect
  values fed;

  template <class N>
  N pick(const std::vector<N>& from) {
    // What is new more often than what is old.
    const std::size_t n = from.size(), k = random() % n;
    return from[random() % 3 == 0 ? k : n - 1 - (n - 1 - k) / 2];
  }

  template <class N>
  void leaf(std::vector<N>& to, const shape& extents) {
    const auto n = placeholder<value_t<N>, dims_t<N>>(g);
    value_of v{extents, dtype_of<value_t<N>>, {}};
    v.elements.resize(extents.elements());
    for (std::size_t i = 0; i < extents.elements(); ++i)
      if constexpr (std::is_same_v<value_t<N>, double>)
        v.elements[i] = std::uniform_real_distribution(-1.0, 1.0)(random);
      else
        reinterpret_cast<std::int32_t*>(v.elements.data())[i] = static_cast<std::int32_t>(random() % 4);
    fed[{n.id().node, 0}] = v;
    to.push_back(n);
  }

  explicit random_graph(const choices& c, bool may_write = false) : random(c.seed), writes(may_write) {
    leaf(matrices, shape(c.rows, 4));
    leaf(matrices, shape(c.rows, 4));
    leaf(rows, shape(4));
    leaf(columns, shape(c.rows, 1));
    leaf(weights, shape(4, 4));
    leaf(pictures, shape(c.rows, 4, 4, 2));
    leaf(kernels, shape(3, 3, 2, 2));
    leaf(classes, shape(c.rows));
    scalars.push_back(let(mean(matrices[0])));
    row_variables.push_back(variable<double, dims<4>>(g, "r", init::uniform{-1, 1}));
    weight_variables.push_back(variable<double, dims<4, 4>>(g, "w", init::uniform{-1, 1}));
    rows.push_back(row(row_variables[0].erased()));
    weights.push_back(square_matrix(weight_variables[0].erased()));
    for (const std::uint32_t step : c.steps) {
      random.seed(step);
      grow(step >> 8);
    }
  }

  static auto pairs(const matrix& m) { return reshape<dims<batch{}, 2, 2>>(m); }
  static tensor<double, dims<4, 4>> twice_unit() {
    tensor<double, dims<4, 4>> t{};
    for (int i = 0; i < 4; ++i) t(i, i) = 2;
    return t;
  }

  /// Values that are all smooth where they are differentiated, and small.
  void grow(std::uint32_t choice) {
    const auto m = pick(matrices), n = pick(matrices);
    const auto r = pick(rows);
    const auto c = pick(columns);
    const auto w = pick(weights);
    const auto x = pick(scalars);
    switch (choice % 48) {
      case 0: return matrices.push_back(let(m * n + r));
      case 1: return matrices.push_back(let(tanh(m) - n));
      case 2: return matrices.push_back(let(sigmoid(r * m)));
      case 3: return matrices.push_back(let(tanh(matmul(m, w) + r)));
      case 4: return matrices.push_back(let(matmul(m, w) * 0.5));
      case 5: return rows.push_back(mean<0>(m * n));
      case 6: return rows.push_back(let(x * tanh(r)));
      case 7: return weights.push_back(let(tanh(matmul<transpose_of::a>(m, n))));
      case 8: return weights.push_back(let(w * reshape<dims<4, 1>>(r)));
      case 9: return matrices.push_back(softmax(m));
      case 10: return weights.push_back(transpose(w));
      case 11: return weights.push_back(let(reshape<dims<4, 4>>(tanh(reshape<dims<16>>(w))) + w));
      case 12: {  // what follows the product needs what is computed after it
        const auto p = matmul(m, w);
        return matrices.push_back(let(tanh(p + mean<0>(m * n))));
      }
      case 13: return rows.push_back(max<0>(m));
      case 14: return matrices.push_back(let(c * m + x));
      case 15: return matrices.push_back(let(select(m > n, m, n * 0.5)));
      case 16: return matrices.push_back(let(relu(m) + 0.1 * n));
      case 17: return matrices.push_back(let(minimum(m, n) + maximum(m, r)));
      case 18: return columns.push_back(let(reshape<dims<batch{}, 1>>(sum<1>(m * n)) * 0.25));
      case 19: return columns.push_back(let(matmul(m, reshape<dims<4, 1>>(r)) * 0.5));
      case 20: return scalars.push_back(let(mean(m * n)));
      case 21: return scalars.push_back(let(sum(w) * 0.1));
      case 22: return scalars.push_back(let(mean(softmax_cross_entropy(m, pick(classes)))));
      case 23: return classes.push_back(argmax<1>(m));
      case 24: return matrices.push_back(let(one_hot<4, double>(pick(classes)) * 0.5 + m));
      case 25: return matrices.push_back(let(cumsum<1>(m) * 0.3));
      case 26: return matrices.push_back(sort<1>(m));
      case 27: return pictures.push_back(let(tanh(conv2d(pick(pictures), pick(kernels)) * 0.3)));
      case 28: return pictures.push_back(let(tanh(pick(pictures)) * pick(pictures)));
      case 29: return matrices.push_back(let(m * sum(square(max_pool2d<2>(pick(pictures)))) * 0.05));
      case 30: return scalars.push_back(let(mean(avg_pool2d<2>(pick(pictures)))));
      case 31: return kernels.push_back(let(tanh(pick(kernels)) * x));
      case 32: return matrices.push_back(let(m / (1.5 + square(n))));
      case 33: return matrices.push_back(let(exp(m * 0.3 - 1.0) + log(square(n) + 1.0) - sqrt(square(m) + 0.5)));
      case 34: return matrices.push_back(let(m + constant(g, tensor<double, dims<4>>{0.5, -1, 0, 2}) * 0.3));
      case 35: return weights.push_back(let(matmul(w, pick(weights)) * 0.3));
      case 36: return weights.push_back(let(matmul<transpose_of::b>(w, pick(weights)) * 0.3 + r));
      case 37: return rows.push_back(let(min<0>(m) * let(prod(r * 0.1 + 1.0))));
      case 38: return write();
      case 39: return weights.push_back(concat<0>(slice<0, 0, 1>(w), slice<0, 1, 3>(pick(weights))));
      case 40: {
        const auto [left, right] = split<1, 2>(m);
        return matrices.push_back(concat<1>(right, left * 0.5));
      }
      case 41: return matrices.push_back(let(pad<1, 1, 2>(slice<1, 2, 1>(m)) + n));
      case 42: return pictures.push_back(transpose<0, 2, 1, 3>(pick(pictures)));
      case 43: return rows.push_back(mean<0>(concat<0>(m, n, m)));
      case 44: return weights.push_back(inverse(tanh(w) * 0.2 + constant(g, twice_unit())));
      case 45: {
        const auto products = matmul<transpose_of::a>(pairs(m), pairs(n)) * 0.5 + reshape<dims<2, 2>>(r);
        return matrices.push_back(let(reshape<dims<batch{}, 4>>(tanh(products))));
      }
      case 46: {
        const auto products = matmul(pairs(m), slice<0, 0, 2>(slice<1, 1, 2>(w)));
        return matrices.push_back(let(reshape<dims<batch{}, 4>>(products * 0.5) + n));
      }
      default: return matrices.push_back(let(reshape<dims<batch{}, 4>>(pairs(m)) - mean(n)));
    }
  }

  /// A variable is written, by one of several who may write it; what that yields may be read.
  void write() {
    const auto r = pick(rows);
    const auto w = pick(weights);
    const auto v = pick(row_variables);
    const auto u = pick(weight_variables);
    switch (writes ? random() % 6 : 4 + random() % 2) {
      case 0: {
        const auto to = assign(v, tanh(r) + 0.25);
        targets.push_back(to.id().node);
        return rows.push_back(row(to.erased()));
      }
      case 1: {
        const auto to = assign_add(v, 0.1 * r);
        targets.push_back(to.id().node);
        return rows.push_back(row(to.erased()));
      }
      case 2: {
        const auto to = assign(u, w * 0.5);
        targets.push_back(to.id().node);
        return weights.push_back(square_matrix(to.erased()));
      }
      case 3: return targets.push_back(assign_add(u, tanh(w) * 0.1).id().node);
      case 4: {
        const auto fresh = variable<double, dims<4, 4>>(g, "w" + std::to_string(g.size()), init::uniform{-0.5, 0.5});
        weight_variables.push_back(fresh);
        return weights.push_back(square_matrix(fresh.erased()));
      }
      default: {
        const auto fresh = variable<double, dims<4>>(g, "r" + std::to_string(g.size()), init::constant{0.25});
        row_variables.push_back(fresh);
        return rows.push_back(row(fresh.erased()));
      }
    }
  }

  scalar loss() {
    return let(mean(matrices.back() * rows.back()) + 0.1 * sum(weights.back() * weights.back()) + 0.1 * scalars.back() +
               0.01 * sum(columns.back()) + 0.1 * mean(pictures.back()));
  }
};

/// One node at a time. Of a variable every node sees the value from before the step, except for those that read what a
/// write yields; writers of one variable come one after the other, in the order of their numbers.
class interpreter {
 public:
  interpreter(graph& g, const values& fed) : session_(g, {.threads = 1, .devices = 3}), graph_(g), fed_(fed) {}

  values& variables() { return variables_; }

  /// A step: what is fetched, after all writers among what is needed have run.
  void step(const sequence<value>& fetches, const std::vector<std::uint32_t>& targets) {
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
  void need(std::uint32_t n) {
    if (needed_[n] || fed_.count({n, 0})) return;
    needed_[n] = 1;
    for (const value& v : graph_[n].def.inputs) need(v.node);
    for (const std::uint32_t c : graph_[n].control) need(c);
  }

  void compute(std::uint32_t n) {
    const node_def& what = graph_[n].def;
    if (known_.count({n, 0}) || what.op == &operation_of<group_op>) return;
    if (what.op == &operation_of<variable_op>) {
      known_[{n, 0}] = before_.at({n, 0});
    } else if (what.op->writes) {
      write(n);
    } else {
      for (std::uint32_t o = 0; o < what.outputs.size(); ++o) run({n, o});
    }
  }

  void write(std::uint32_t n) {
    const node_def& what = graph_[n].def;
    const std::string name = what.op->name;
    std::vector<double>& v = variables_.at({what.inputs[0].node, 0}).elements;
    const std::vector<double>& x = known_.at({what.inputs.back().node, what.inputs.back().output}).elements;
    const auto number = [&](std::size_t i) { return detail::literal_value<double>(what.literals[i]); };
    for (std::size_t i = 0; i < v.size(); ++i)
      if (name == "assign") {
        v[i] = x[i];
      } else if (name == "assign_add") {
        v[i] += x[i];
      } else if (name == "gradient_descent") {
        v[i] -= number(0) * x[i];
      } else {
        BOOST_REQUIRE_EQUAL(name, "momentum");
        double& velocity = variables_.at({what.inputs[1].node, 0}).elements[i];
        velocity = number(1) * velocity + x[i];
        v[i] -= number(0) * velocity;
      }
    known_[{n, 0}] = variables_.at({what.inputs[0].node, 0});
  }

  void run(value v) {
    const node_def& what = graph_[v.node].def;
    plan::step_request request;
    std::vector<plan::fed_value> fed;
    request.feeds.push_back({fed_.begin()->first.first, 0});  // has the batch's size
    for (const value& in : what.inputs) {
      if (graph_[in.node].def.op == &operation_of<constant_op>) continue;
      bool twice = false;
      for (const value& other : request.feeds) twice = twice || other == in;
      if (!twice) request.feeds.push_back(in);
    }
    for (const value& in : request.feeds) {
      const value_of& k = known_.at({in.node, in.output});
      fed.push_back({k.elements.data(), k.extents});
    }
    request.fetches.push_back(v);
    value_of result;
    result.type = graph_.info(v).type;
    prepared_step step(session_, request);
    step.run(fed.data(), [&](std::size_t, const shape& extents) -> void* {
      result.extents = extents;
      result.elements.resize(extents.elements());
      return result.elements.data();
    });
    known_[{v.node, v.output}] = result;
  }

  session_on_cpu session_;
  graph& graph_;
  const values& fed_;
  values known_, variables_, before_;
  std::vector<char> needed_;
};

/// The words of what is wrong; nothing if all is well.
using verdict = std::optional<std::string>;

struct way {
  const char* name;
  int devices, lanes;
};

class planned {
 public:
  planned(graph& g, const sequence<value>& fetches, const std::vector<std::uint32_t>& targets, const values& fed,
          way how)
      : session_(g, {.threads = 1, .inter_op_threads = how.lanes, .devices = how.devices}), fed_(fed) {
    plan::step_request request;
    request.fetches = fetches;
    for (const std::uint32_t t : targets) request.targets.push_back(t);
    for (const auto& [v, x] : fed) request.feeds.push_back({v.first, v.second});
    step_.emplace(session_, request);
    fetches_ = fetches.size();
  }

  session& in() { return session_; }
  std::string explain() const { return step_->explain(); }

  const std::vector<std::vector<double>>& run() {
    std::vector<plan::fed_value> fed;
    for (const auto& [v, x] : fed_) fed.push_back({x.elements.data(), x.extents});
    found_.assign(fetches_, {});
    step_->run(fed.data(), [&](std::size_t i, const shape& extents) -> void* {
      found_[i].resize(extents.elements());
      return found_[i].data();
    });
    return found_;
  }

 private:
  session session_;
  const values& fed_;
  std::optional<prepared_step> step_;
  std::size_t fetches_;
  std::vector<std::vector<double>> found_;
};

bool close(double a, double b) {
  return std::abs(a - b) <= 1e-9 * (1 + std::abs(a) + std::abs(b)) || (a != a && b != b);
}

verdict differ(const std::vector<double>& found, const value_of& right, const std::string& where) {
  if (found.size() != right.extents.elements())
    return where + " has " + std::to_string(found.size()) + " elements, not " +
           std::to_string(right.extents.elements());
  if (right.type != dtype::float64)
    return std::memcmp(found.data(), right.elements.data(), right.bytes()) == 0 ? verdict{} : where + " differs";
  for (std::size_t e = 0; e < found.size(); ++e)
    if (!close(found[e], right.elements[e]))
      return where + "[" + std::to_string(e) + "] is " + std::to_string(found[e]) + ", not " +
             std::to_string(right.elements[e]);
  return {};
}

verdict check_steps(graph& g, const sequence<value>& fetches, const std::vector<std::uint32_t>& targets,
                    const values& fed, way how) {
  planned p(g, fetches, targets, fed, how);
  interpreter right(g, fed);
  const auto variables_of = [&](auto&& each) {
    for (std::uint32_t n = 0; n < g.size(); ++n)
      if (g[n].def.op == &operation_of<variable_op>) each(n);
  };
  const auto read = [&](std::uint32_t n) {
    value_of v;
    v.extents = p.in().variable_info(n).extents;
    v.elements.resize(v.extents.elements());
    p.in().read_variable(n, v.elements.data());
    return v;
  };
  variables_of([&](std::uint32_t n) { right.variables()[{n, 0}] = read(n); });
  for (int step = 0; step < 3; ++step) {
    const auto& found = p.run();
    right.step(fetches, targets);
    const std::string when = std::string(how.name) + ", step " + std::to_string(step) + ": ";
    for (std::size_t i = 0; i < fetches.size(); ++i)
      if (verdict bad = differ(found[i], right(fetches[i]), when + g[fetches[i].node].name))
        return *bad + "\n" + p.explain();
    verdict bad;
    variables_of([&](std::uint32_t n) {
      if (!bad) bad = differ(read(n).elements, right.variables()[{n, 0}], when + "the variable " + g[n].name);
    });
    if (bad) return *bad + "\n" + p.explain();
  }
  return {};
}

constexpr way one_device{"one device", 1, 1}, two_lanes{"two lanes", 1, 2}, three_devices{"three devices", 3, 1};

verdict check_values(const choices& c) {
  random_graph r(c, true);
  sequence<value> fetches{r.matrices.back().id(), r.rows.back().id(), r.weights.back().id()};
  if (c.seed % 3 == 0) fetches.push_back(r.pick(r.matrices).id());
  if (c.seed % 4 == 0) fetches.push_back(r.classes.back().id());
  if (c.seed % 5 == 0) fetches.push_back(r.pictures.back().id());
  if (c.seed % 6 == 0) fetches.push_back(r.pick(r.rows).id());
  return check_steps(r.g, fetches, r.targets, r.fed, c.seed % 2 ? one_device : two_lanes);
}

verdict check_training(const choices& c) {
  random_graph r(c);
  const auto loss = r.loss();
  if (c.seed % 2 == 0)
    r.targets.push_back(gradient_descent{.learning_rate = 0.05}
                            .minimize(loss + 0.1 * sum(square(r.row_variables[0])))
                            .erased()
                            .id()
                            .node);
  else
    r.targets.push_back(
        momentum{.learning_rate = 0.05}.minimize(loss + 0.1 * sum(square(r.row_variables[0]))).erased().id().node);
  r.writes = true;
  for (int i = 0; i < 4; ++i) r.grow(static_cast<std::uint32_t>(r.random()));
  sequence<value> fetches{loss.id(), r.rows.back().id()};
  if (c.seed % 3 == 0) fetches.push_back(r.row_variables[0].id());
  return check_steps(r.g, fetches, r.targets, r.fed, c.seed % 3 ? one_device : two_lanes);
}

/// Values in the middle are fed in place of what is computed.
verdict check_feeds(const choices& c) {
  random_graph r(c);
  const auto m = r.pick(r.matrices);
  const auto w = r.pick(r.weights);
  const auto feed = [&](value v, const shape& extents) {
    if (r.g[v.node].def.op == &operation_of<variable_op> || r.g[v.node].def.op->writes) return;
    value_of x{extents, dtype::float64, {}};
    for (std::size_t i = 0; i < extents.elements(); ++i)
      x.elements.push_back(std::uniform_real_distribution(-1.0, 1.0)(r.random));
    r.fed[{v.node, v.output}] = x;
  };
  feed(m.id(), shape(c.rows, 4));
  feed(w.id(), shape(4, 4));
  return check_steps(r.g, {r.matrices.back().id(), r.scalars.back().id(), r.weights.back().id()}, {}, r.fed,
                     one_device);
}

verdict check_gradients(const choices& c) {
  random_graph r(c);
  const auto loss = r.loss();
  const auto [a, b, d, w] = gradients(loss, r.matrices[0], r.matrices[1], r.rows[0], r.weights[0]);
  const auto [k, p] = gradients(loss, r.kernels[0], r.pictures[0]);
  sequence<value> fetches{loss.id(), a.id(), b.id(), d.id(), w.id(), k.id(), p.id()};
  if (c.seed % 2 == 0) {
    const auto [second] = gradients(sum(square(a)) + sum(b), r.weights[0]);
    fetches.push_back(second.id());
  }
  if (verdict bad = check_steps(r.g, fetches, {}, r.fed, c.seed % 3 ? one_device : three_devices)) return bad;

  // Along a direction, by differences: where two widths agree, for there are kinks.
  planned f(r.g, fetches, {}, r.fed, one_device);
  const std::vector<std::vector<double>> at = f.run();
  const std::uint32_t inputs[] = {r.matrices[0].id().node, r.matrices[1].id().node, r.rows[0].id().node,
                                  r.weights[0].id().node, r.kernels[0].id().node,   r.pictures[0].id().node};
  const values there = r.fed;
  std::vector<std::vector<double>> direction;
  double slope = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    direction.emplace_back();
    for (std::size_t e = 0; e < at[1 + i].size(); ++e) {
      direction[i].push_back(std::uniform_real_distribution(-1.0, 1.0)(r.random));
      slope += direction[i][e] * at[1 + i][e];
    }
  }
  const auto loss_at = [&](double h) {
    r.fed = there;
    for (std::size_t i = 0; i < 6; ++i)
      for (std::size_t e = 0; e < direction[i].size(); ++e) r.fed[{inputs[i], 0}].elements[e] += h * direction[i][e];
    return f.run()[0][0];
  };
  const double h = 1e-5, wide = (loss_at(h) - loss_at(-h)) / (2 * h),
               narrow = (loss_at(h / 4) - loss_at(-h / 4)) / (h / 2);
  if (std::abs(wide - narrow) > 1e-6 * (1 + std::abs(slope))) return {};
  if (std::abs(narrow - slope) <= 1e-5 * (1 + std::abs(slope))) return {};
  return "the slope is " + std::to_string(slope) + " by gradients, " + std::to_string(narrow) + " by differences\n" +
         f.explain();
}

/// What arrives at the last operation is one number: a product's gradient of it does not read the product.
verdict check_gradients_of_sums(const choices& c) {
  random_graph r(c);
  const auto m = r.matrices.back();
  const auto loss = c.seed % 4 == 0   ? sum(m)
                    : c.seed % 4 == 1 ? mean(matmul(m, r.weights.back()))
                    : c.seed % 4 == 2 ? sum(matmul(m, r.weights.back()) + r.rows.back())
                                      : mean(matmul<transpose_of::b>(m, r.weights.back()));
  const auto [a, b, w] = gradients(loss, r.matrices[0], r.rows[0], r.weights[0]);
  sequence<value> fetches{a.id(), b.id(), w.id()};
  if (c.seed % 3 != 0) fetches.push_back(loss.id());
  return check_steps(r.g, fetches, {}, r.fed, one_device);
}

verdict check_several_devices(const choices& c) {
  std::mt19937 where(c.seed);
  random_graph r(c);
  const device_scope anywhere(r.g,
                              [&](const placement_query&) { return device_spec(cpu{static_cast<int>(where() % 3)}); });
  for (int i = 0; i < 10; ++i) r.grow(static_cast<std::uint32_t>(r.random()));
  const auto [a, d] = gradients(mean(r.matrices.back() * r.rows.back()), r.matrices[0], r.weights[0]);
  return check_steps(r.g, {r.matrices.back().id(), a.id(), d.id()}, r.targets, r.fed, three_devices);
}

using check = verdict (*)(const choices&);

verdict judge(check by, const choices& c) {
  try {
    return by(c);
  } catch (const error& e) {
    // The one order that a step cannot have; where it is made of two writes and a read between them.
    if (std::strstr(e.what(), "after a write and runs after another write")) return {};
    return std::string("throws ") + e.what();
  }
}

/// Leaves out what is not needed for the failure, and says what is left.
std::string shrunk(check by, choices c, std::string words) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (std::size_t i = c.steps.size(); i-- > 0;) {
      choices less = c;
      less.steps.erase(less.steps.begin() + static_cast<std::ptrdiff_t>(i));
      if (const verdict still = judge(by, less)) c = less, words = *still, smaller = true;
    }
  }
  return "seed " + std::to_string(c.seed) + ", " + std::to_string(c.steps.size()) + " steps left: " + words + "\n" +
         to_string(random_graph(c).g);
}

void run_seeds(check by, unsigned from, unsigned count) {
  const char* const seconds = std::getenv("WEFT_RANDOM_SECONDS");
  const char* const other = std::getenv("WEFT_RANDOM_FROM");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds ? std::atoi(seconds) : 0);
  const unsigned first = other ? static_cast<unsigned>(std::atoi(other)) : from;
  unsigned seed = first;
  for (; seed - first < count || std::chrono::steady_clock::now() < end; ++seed) {
    const choices c(seed);
    if (const verdict bad = judge(by, c)) {
      BOOST_ERROR(shrunk(by, c, *bad));
      return;
    }
  }
  if (seconds) std::printf("%u programs\n", seed - first);
}

}  // namespace

BOOST_AUTO_TEST_CASE(plans_compute_what_single_nodes_compute) { run_seeds(check_values, 0, 120); }
BOOST_AUTO_TEST_CASE(plans_train_what_single_nodes_train) { run_seeds(check_training, 4000, 100); }
BOOST_AUTO_TEST_CASE(plans_take_values_in_the_middle) { run_seeds(check_feeds, 5000, 60); }
BOOST_AUTO_TEST_CASE(plans_compute_the_gradients_of_any_graph) { run_seeds(check_gradients, 1000, 80); }
BOOST_AUTO_TEST_CASE(plans_compute_the_gradients_of_sums) { run_seeds(check_gradients_of_sums, 3000, 60); }
BOOST_AUTO_TEST_CASE(several_devices_compute_the_same) { run_seeds(check_several_devices, 2000, 60); }
