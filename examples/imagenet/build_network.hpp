// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include <weft/checkpoint/weights.hpp>
#include <weft/nn.hpp>
#include <weft/nn/pytorch.hpp>
#include <weft/ops/losses/losses.hpp>
#include <weft/weft.hpp>

#include "network.hpp"

/// A network from a model of layers. Included by the files that hold one model each.
namespace imagenet {

/// The logits of a model that has an auxiliary classifier, or of one that has none.
template <class Result>
auto logits_of(const Result& result) {
  if constexpr (requires { result.logits; })
    return result.logits;
  else
    return result;
}

/// Whether a file holds a state_dict of PyTorch: it has no variable of a network's own name.
bool is_pytorch_file(const std::string& path);
/// The last line of a description: the sum of its rows without the multiply-adds of the layers below `without`.
std::string sums_of(const std::string& table, std::string_view without);

template <class Model, int Side, int Classes>
class network_of final : public network {
 public:
  explicit network_of(const network_options& how) : network(how.seed), model_(weft::nn::named(Model(), "net")) {
    using namespace weft;
    const device_scope on(g, how.place);
    const auto pixels = placeholder<float, dims<dyn<"batch">, Side, Side, 3>>(g, "images");
    const auto inferred = let(logits_of(model_(pixels, nn::mode::inference)));
    // The same nodes, without the extents that the compiler knows: the program has one type for all networks.
    images = decltype(images)(pixels.erased());
    logits = decltype(logits)(inferred.erased());
    top_1 = mean(cast<float>(argmax<1>(inferred) == labels));
    top_5 = mean(cast<float>(in_top_k(inferred, labels, 5)));
    if (!how.recipe) return;

    const auto result = model_(pixels, nn::mode::training);
    const auto loss_of = [&](const auto& trained) -> node<float> {
      return mean(softmax_cross_entropy(trained, labels, {.label_smoothing = how.loss.label_smoothing}));
    };
    cost = loss_of(logits_of(result));
    if constexpr (requires { result.auxiliary; })
      cost = cost + static_cast<float>(how.loss.auxiliary_weight) * loss_of(result.auxiliary);
    train = minimize(*how.recipe, cost);
  }

  weft::variable_list parameters() const override { return weft::nn::parameters(model_); }
  std::string describe() const override {
    using namespace weft;
    graph of_description;
    const auto x = placeholder<float, dims<dyn<"batch">, Side, Side, 3>>(of_description, "images");
    const std::string table = nn::describe(nn::named(Model(), "net"), x);
    return table + sums_of(table, "AuxLogits/");
  }
  void load(const std::string& weights, weft::session& s) const override {
    if (is_pytorch_file(weights))
      weft::nn::load_pytorch_weights(weights, model_, s);
    else
      weft::load_weights(weights, s, {.variables = parameters()});
  }

 private:
  Model model_;
};

}  // namespace imagenet
