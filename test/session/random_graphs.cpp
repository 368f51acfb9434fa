#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>
#include <weft/weft.hpp>

using namespace weft;

// Random graphs, run by a plan that reuses buffers and fuses kernels, against an interpreter of the same graph that
// does one node at a time in a plan of its own, where every value is fed and fetched and nothing can be reused.

namespace {

struct value_of {
  shape extents;
  std::vector<double> elements;
};

class reference {
 public:
  reference(graph& g, const std::map<std::uint32_t, value_of>& fed)
      : session_(g, {.threads = 1, .devices = 3}), graph_(g), first_{fed.begin()->first, 0} {
    for (const auto& [node, v] : fed) known_[{node, 0}] = v;
  }

  const value_of& operator()(value v) {
    if (const auto found = known_.find({v.node, v.output}); found != known_.end()) return found->second;
    const invocation& what = graph_[v.node].what;
    step_request request;
    std::vector<detail::fed_value> fed;
    request.feeds.push_back(first_);  // has the batch's size
    for (const value& in : what.inputs) {
      if (graph_[in.node].what.op == &constant_operation) continue;
      bool twice = false;
      for (const value& other : request.feeds) twice = twice || other == in;
      if (twice) continue;
      (*this)(in);
      request.feeds.push_back(in);
    }
    for (const value& in : request.feeds)
      fed.push_back({known_[{in.node, in.output}].elements.data(), known_[{in.node, in.output}].extents});
    request.fetches.push_back(v);
    value_of result;
    prepared_step step(session_, request);
    step.run(fed.data(), [&](std::size_t, const shape& extents) -> void* {
      result.extents = extents;
      result.elements.resize(extents.elements());
      return result.elements.data();
    });
    return known_[{v.node, v.output}] = result;
  }

 private:
  session session_;
  graph& graph_;
  value first_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, value_of> known_;
};

using batch = dyn_extent<"batch">;
using matrix = node<double, dims<batch{}, 4>>;
using row = node<double, dims<4>>;
using square_matrix = node<double, dims<4, 4>>;

struct random_graph {
  graph g;
  std::mt19937 random;
  std::vector<matrix> matrices;
  std::vector<row> rows;
  std::vector<square_matrix> weights;
  std::map<std::uint32_t, value_of> fed;

  template <class N>
  N pick(const std::vector<N>& from) {
    return from[random() % from.size()];
  }

  template <class N>
  void leaf(std::vector<N>& to, const shape& extents) {
    const auto n = placeholder<double, dims_t<N>>(g);
    value_of v{extents, {}};
    for (std::size_t i = 0; i < extents.elements(); ++i)
      v.elements.push_back(std::uniform_real_distribution(-1.0, 1.0)(random));
    fed[n.id().node] = v;
    to.push_back(n);
  }

  explicit random_graph(unsigned seed) : random(seed) {
    leaf(matrices, shape(3, 4));
    leaf(matrices, shape(3, 4));
    leaf(rows, shape(4));
    leaf(weights, shape(4, 4));
    for (int i = 0; i < 14; ++i) grow();
  }

  void grow() {
    const auto m = pick(matrices), n = pick(matrices);
    const auto r = pick(rows);
    const auto w = pick(weights);
    switch (random() % 14) {
      case 0:
        matrices.push_back(let(m * n + r));
        break;
      case 1:
        matrices.push_back(let(tanh(m) - n));
        break;
      case 2:
        matrices.push_back(let(sigmoid(r * m)));
        break;
      case 3:
        matrices.push_back(let(tanh(matmul(m, w) + r)));
        break;
      case 4:
        matrices.push_back(matmul(m, w));
        break;
      case 5:
        rows.push_back(mean<0>(m * n));
        break;
      case 6:
        rows.push_back(let(sum(r) * tanh(r)));
        break;
      case 7:
        weights.push_back(let(tanh(matmul<transpose_of::a>(m, n))));
        break;
      case 8:
        weights.push_back(let(w * reshape<dims<4, 1>>(r)));
        break;
      case 9:
        matrices.push_back(softmax(m));
        break;
      case 10:
        weights.push_back(transpose(w));
        break;
      case 11:
        weights.push_back(let(reshape<dims<4, 4>>(tanh(reshape<dims<16>>(w))) + w));
        break;
      case 12: {  // what follows the product needs what is computed after it
        const auto p = matmul(m, w);
        matrices.push_back(let(tanh(p + mean<0>(m * n))));
        break;
      }
      default:
        rows.push_back(max<0>(m));
        break;
    }
  }
};

void check_same(graph& g, const sequence<value>& fetches, const std::map<std::uint32_t, value_of>& fed, int devices) {
  step_request request;
  request.fetches = fetches;
  std::vector<detail::fed_value> values;
  for (const auto& [node, v] : fed) {
    request.feeds.push_back({node, 0});
    values.push_back({v.elements.data(), v.extents});
  }
  session s(g, {.threads = 1, .devices = devices});
  prepared_step step(s, request);
  reference expected(g, fed);
  for (int repeat = 0; repeat < 2; ++repeat) {
    std::vector<std::vector<double>> found(fetches.size());
    step.run(values.data(), [&](std::size_t i, const shape& extents) -> void* {
      found[i].resize(extents.elements());
      return found[i].data();
    });
    for (std::size_t i = 0; i < fetches.size(); ++i) {
      const auto& right = expected(fetches[i]).elements;
      BOOST_REQUIRE_EQUAL(found[i].size(), right.size());
      for (std::size_t e = 0; e < right.size(); ++e)
        BOOST_REQUIRE_MESSAGE(std::abs(found[i][e] - right[e]) <= 1e-9 * (1 + std::abs(right[e])),
                              "fetch " << i << ", " << g[fetches[i].node].name << "[" << e << "]: " << found[i][e]
                                       << " is not " << right[e] << "\n"
                                       << step.explain());
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(plans_compute_what_single_nodes_compute) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      random_graph r(seed);
      sequence<value> fetches{r.matrices.back().id(), r.rows.back().id(), r.weights.back().id()};
      if (seed % 3 == 0) fetches.push_back(r.pick(r.matrices).id());
      check_same(r.g, fetches, r.fed, 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(plans_compute_the_gradients_of_any_graph) {
  for (unsigned seed = 1000; seed < 1100; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      random_graph r(seed);
      const auto loss = let(mean(r.matrices.back() * r.rows.back()) + sum(r.weights.back()));
      const auto [a, b, c, d] = gradients(loss, r.matrices[0], r.matrices[1], r.rows[0], r.weights[0]);
      sequence<value> fetches{a.id(), b.id(), c.id(), d.id()};
      if (seed % 3 == 0) fetches.push_back(loss.id());
      if (seed % 2 == 0) {
        const auto [second] = gradients(sum(square(a)) + sum(b), r.weights[0]);
        fetches.push_back(second.id());
      }
      check_same(r.g, fetches, r.fed, 1);
    }
  }
}

// What arrives at the last operation is one number: a product's gradient of it does not read the product.
BOOST_AUTO_TEST_CASE(plans_compute_the_gradients_of_sums) {
  for (unsigned seed = 3000; seed < 3100; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      random_graph r(seed);
      const auto m = r.matrices.back();
      const auto loss = seed % 4 == 0   ? sum(m)
                        : seed % 4 == 1 ? mean(matmul(m, r.weights.back()))
                        : seed % 4 == 2 ? sum(matmul(m, r.weights.back()) + r.rows.back())
                                        : mean(matmul<transpose_of::b>(m, r.weights.back()));
      const auto [a, b, c] = gradients(loss, r.matrices[0], r.rows[0], r.weights[0]);
      sequence<value> fetches{a.id(), b.id(), c.id()};
      if (seed % 3 != 0) fetches.push_back(loss.id());
      check_same(r.g, fetches, r.fed, 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(several_devices_compute_the_same) {
  for (unsigned seed = 2000; seed < 2060; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937 where(seed);
      random_graph r(seed);
      const device_scope anywhere(
          r.g, [&](const placement_query&) { return device_spec(cpu{static_cast<int>(where() % 3)}); });
      for (int i = 0; i < 10; ++i) r.grow();
      const auto [a, d] = gradients(mean(r.matrices.back() * r.rows.back()), r.matrices[0], r.weights[0]);
      check_same(r.g, {r.matrices.back().id(), a.id(), d.id()}, r.fed, 3);
    }
  }
}
