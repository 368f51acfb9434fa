// SPDX-License-Identifier: BSL-1.0
#include "evaluation.hpp"

#include <memory>
#include <string>

#include <weft/train/schedules.hpp>

using namespace weft;

namespace imagenet {

accuracies measure(session& s, const network& net, const image_source& images, std::size_t batch) {
  auto step = s.prepare(fetch(net.top_1, net.top_5), feed(net.images, net.labels));
  double count = 0;
  accuracies sum;
  for (const auto& [x, y] : images.test_batches(batch)) {
    const auto [top_1, top_5] = step(x, y);
    const auto weight = static_cast<double>(y.elements());
    sum.top_1 += top_1 * weight, sum.top_5 += top_5 * weight, count += weight;
  }
  return {sum.top_1 / count, sum.top_5 / count};
}

averaged_network::averaged_network(network& net, double decay) : net_(net) {
  const variable_list all = net.parameters();
  if (decay > 0)
    averages_ =
        exponential_moving_average{.decay = decay, .num_updates = global_step(net.g)}.apply_to_present_values(all);
  const sequence<symbol>& variables = all.erased();
  for (const symbol& v : variables) nodes_.emplace_back(v.id().node, v.id().node);
  if (!averages_) return;
  for (auto& [variable, tested] : nodes_)
    for (std::uint32_t n = 0; n < net.g.size(); ++n)
      if (net.g[n].name == net.g[variable].name + "/ExponentialMovingAverage") tested = n;
}

std::vector<hook> averaged_network::hooks(session& s) const {
  if (!averages_) return {};
  auto update = std::make_shared<decltype(s.prepare(fetch(*averages_)))>(s.prepare(fetch(*averages_)));
  return {call_every({.steps = 1}, [update](auto&, auto&) { (*update)(); })};
}

void averaged_network::restart(session& s) const {
  if (averages_) averages_->restart(s);
}

void averaged_network::copy(session& from, session& to) const {
  for (const auto& [variable, tested] : nodes_) {
    const storage value(from.variable_info(tested).bytes());
    from.read_variable(tested, value.data());
    to.write_variable(variable, value.data());
  }
}

}  // namespace imagenet
