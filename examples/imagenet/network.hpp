// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <weft/checkpoint/restore.hpp>
#include <weft/weft.hpp>

#include "../optimizers.hpp"
#include "../placement.hpp"

/// The networks of this example, each compiled in a file of its own.
namespace imagenet {

/// How a network is trained, beside the optimizer.
struct loss_options {
  double label_smoothing = 0.1;   ///< the share of a label that all classes have in equal parts (Szegedy et al., 2016)
  double auxiliary_weight = 0.4;  ///< of the loss of an auxiliary classifier, where the network has one
};

/// Configures a network. Without `recipe`, it has no training step.
struct network_options {
  std::uint64_t seed = 1;
  variable_placement place = [](const weft::placement_query&) { return weft::device_spec(weft::cpu{0}); };
  loss_options loss{};
  const training_recipe* recipe = nullptr;
};

/// A graph that classifies colour images [batch, height, width, 3], with the network's inference and training.
class network {
 public:
  using image_batch = weft::tensor<float, weft::dims<weft::dyn<"batch">, weft::dyn<"height">, weft::dyn<"width">, 3>>;
  using label_batch = weft::tensor<std::int32_t, weft::dims<weft::dyn<"batch">>>;

  weft::graph g;
  weft::node<float, image_batch::dims_type> images;
  weft::node<std::int32_t, label_batch::dims_type> labels;                         // from 0
  weft::node<float, weft::dims<weft::dyn<"batch">, weft::dyn<"classes">>> logits;  // of inference
  weft::node<float> top_1, top_5;  // the shares of a batch whose label is the largest logit, or among the five largest
  weft::node<float> cost;          // what training minimizes; an empty node without a recipe
  training train{weft::effect(weft::symbol()), {}};

  network(const network&) = delete;
  network& operator=(const network&) = delete;
  virtual ~network() = default;

  /// The variables of inference.
  virtual weft::variable_list parameters() const = 0;
  /// The table of nn::describe, and a line with the sums: "parameters N, multiply-adds M". The multiply-adds are those
  /// of the logits of one image: an auxiliary classifier counts among the parameters alone.
  virtual std::string describe() const = 0;
  /// Takes the values of a file of Weft's (save_weights) or of a state_dict of PyTorch's, whichever the names say.
  virtual void load(const std::string& weights, weft::session& s) const = 0;

 protected:
  explicit network(std::uint64_t seed);
};

/// A network's name on the command line, the images that it takes, and their normalization.
struct network_kind {
  const char* name;
  int side, classes;
  bool centred;  ///< pixels become -1 to 1, as Inception's; otherwise ImageNet's mean and deviation are taken out
  std::unique_ptr<network> (*make)(const network_options&);
};

std::unique_ptr<network> make_resnet18(const network_options&);
std::unique_ptr<network> make_resnet50(const network_options&);
std::unique_ptr<network> make_inception_v3(const network_options&);
/// A narrow ResNet-18 for ten classes of images of 64 x 64.
std::unique_ptr<network> make_small(const network_options&);
/// A still narrower one, of 32 x 32.
std::unique_ptr<network> make_tiny(const network_options&);

std::vector<std::string> network_names();
/// Throws invalid_argument where there is none of this name.
const network_kind& find_network(const std::string& name);

}  // namespace imagenet
