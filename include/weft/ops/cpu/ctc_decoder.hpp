// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>

#include <weft/ops/cpu/ctc_loss.hpp>
#include <weft/tensor/sequence.hpp>

/// CPU kernel of the decoders for connectionist temporal classification.
WEFT_COLD_BEGIN
namespace weft::detail {

/// Finds the most probable label sequences of one row of logits by a prefix beam search (Graves and Jaitly, ICML 2014).
class ctc_beam {
 public:
  ctc_beam() = default;
  ctc_beam(std::size_t width, std::size_t frames, std::size_t classes) : width_(width), blocked_(classes) {
    nodes_.reserve(frames * width + 1);
    beam_.reserve(width);
    candidates_.reserve(width);
  }
  std::size_t memory_bytes() const {
    return nodes_.memory_bytes() + beam_.memory_bytes() + candidates_.memory_bytes() + blocked_.memory_bytes();
  }

  template <class T>
  void run(const T* logits, std::size_t frames, std::size_t classes, std::size_t blank) {
    nodes_.clear();
    nodes_.push_back({});
    beam_.clear();
    beam_.push_back({0, 0, -infinity, 0, 0});
    for (std::size_t t = 0; t < frames; ++t, logits += classes) step(logits, classes, blank);
  }
  /// Writes the labels of the path in a place of the beam and returns their number, or -1 if there is no such path.
  std::int32_t labels(std::size_t place, std::int32_t* to, double& log_probability) const {
    log_probability = place < beam_.size() ? beam_[place].total : -infinity;
    if (place >= beam_.size()) return -1;
    std::int32_t length = 0;
    for (std::int32_t n = beam_[place].node; n; n = nodes_[at(n)].parent) ++length;
    std::int32_t i = length;
    for (std::int32_t n = beam_[place].node; n; n = nodes_[at(n)].parent) to[--i] = nodes_[at(n)].label;
    return length;
  }

 private:
  static constexpr double infinity = __builtin_huge_val();
  /// A prefix. Node 0 is the empty one.
  struct prefix {
    std::int32_t parent = -1, label = -1, first_child = 0, sibling = 0, place = 0;
  };
  /// A prefix that ends in a blank, or in a label. A candidate with a label extends the prefix by it.
  struct entry {
    std::int32_t node;
    double blank, label, total;
    std::int32_t extension;
    bool operator<(const entry& other) const { return total > other.total; }  // a heap with the least likely on top
  };
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

  void add(std::int32_t node, double blank, double label, std::int32_t extension) {
    const double total = device::log_add(blank, label);
    if (!(total > -infinity)) return;
    if (candidates_.size() == width_) {
      if (!(total > candidates_[0].total)) return;
      std::pop_heap(candidates_.begin(), candidates_.end());
      candidates_.pop_back();
    }
    candidates_.push_back({node, blank, label, total, extension});
    std::push_heap(candidates_.begin(), candidates_.end());
  }

  template <class T>
  void step(const T* logits, std::size_t classes, std::size_t blank) {
    const double norm = device::log_sum(logits, classes);
    const auto log_p = [&](std::size_t c) { return static_cast<double>(logits[c]) - norm; };
    const auto extended = [&](const entry& e, std::size_t c) {  // a repeated label needs a blank in between
      return (static_cast<std::int32_t>(c) == nodes_[at(e.node)].label ? e.blank : e.total) + log_p(c);
    };
    candidates_.clear();
    for (std::size_t i = 0; i < beam_.size(); ++i) nodes_[at(beam_[i].node)].place = static_cast<std::int32_t>(i) + 1;
    for (const entry& e : beam_) {
      const prefix& n = nodes_[at(e.node)];
      double label = -infinity;
      if (e.node) {
        label = e.label + log_p(at(n.label));
        if (const std::int32_t place = nodes_[at(n.parent)].place)
          label = device::log_add(label, extended(beam_[at(place - 1)], at(n.label)));
      }
      add(e.node, e.total + log_p(blank), label, -1);
    }
    for (const entry& e : beam_) {
      const auto mark = [&](bool value) {  // the children in the beam have received this already
        for (std::int32_t c = nodes_[at(e.node)].first_child; c; c = nodes_[at(c)].sibling)
          if (nodes_[at(c)].place) blocked_[at(nodes_[at(c)].label)] = value;
      };
      mark(true);
      for (std::size_t c = 0; c < classes; ++c)
        if (c != blank && !blocked_[c]) add(e.node, -infinity, extended(e, c), static_cast<std::int32_t>(c));
      mark(false);
    }
    for (const entry& e : beam_) nodes_[at(e.node)].place = 0;
    std::sort_heap(candidates_.begin(), candidates_.end());
    for (entry& e : candidates_)
      if (e.extension >= 0) e.node = child(e.node, e.extension);
    beam_.swap(candidates_);
  }
  std::int32_t child(std::int32_t parent, std::int32_t label) {
    std::int32_t& first = nodes_[at(parent)].first_child;
    for (std::int32_t c = first; c; c = nodes_[at(c)].sibling)
      if (nodes_[at(c)].label == label) return c;
    const auto made = static_cast<std::int32_t>(nodes_.size());
    const std::int32_t sibling = first;
    first = made;
    nodes_.push_back({parent, label, 0, sibling, 0});
    return made;
  }

  std::size_t width_ = 0;
  sequence<prefix> nodes_;
  sequence<entry> beam_, candidates_;
  sequence<bool> blocked_;
};

/// Inputs: logits and their lengths. Outputs: labels, padded with -1, their lengths, and logarithms of probabilities.
/// A width of 0 takes the most probable class of each frame.
template <class T>
class ctc_decoder_kernel final : public kernel {
 public:
  ctc_decoder_kernel(const prepare_context& p, std::int64_t blank, std::size_t width, bool merges)
      : batch_(ctc_batch_of(p, p.inputs[0].extents, blank, false)),
        merges_(merges),
        chunks_(p.inputs[1].extents.elements(), p.inputs[0].extents.elements(), 1024) {
    if (chunks_.count > 16) chunks_.count = 16;  // each needs memory
    paths_ = chunks_.items ? p.outputs[1].extents.elements() / chunks_.items : 0;
    if (width) beams_.resize(chunks_.count);
    for (ctc_beam& b : beams_) b = ctc_beam(width, batch_.frames, batch_.classes);
    for (int i = 0; i < 2; ++i) in_[i] = p.input_slots[i];
    for (int i = 0; i < 3; ++i) out_[i] = p.output_slots[i];
  }

  void run(const kernel_context& f) override {
    const auto* frame_counts = reinterpret_cast<const std::int32_t*>(f.buffers[in_[1]]);
    auto* const labels = reinterpret_cast<std::int32_t*>(f.buffers[out_[0]]);
    auto* const lengths = reinterpret_cast<std::int32_t*>(f.buffers[out_[1]]);
    auto* const scores = reinterpret_cast<T*>(f.buffers[out_[2]]);
    for (std::size_t i = 0; i < chunks_.items; ++i)
      if (frame_counts[i] < 0 || static_cast<std::size_t>(frame_counts[i]) > batch_.frames)
        throw error(error_code::out_of_range, "ctc decoder",
                    {"row ", i, " has ", frame_counts[i], " frames of ", batch_.frames});
    chunks_.run(f, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const T* const x = reinterpret_cast<const T*>(f.buffers[in_[0]]) + i * batch_.frames * batch_.classes;
        const auto frames = static_cast<std::size_t>(frame_counts[i]);
        if (!beams_.empty()) beams_[chunk].run(x, frames, batch_.classes, batch_.blank);
        for (std::size_t k = 0; k < paths_; ++k) {
          std::int32_t* const to = labels + (i * paths_ + k) * batch_.frames;
          std::fill(to, to + batch_.frames, -1);
          double score = 0;
          lengths[i * paths_ + k] = beams_.empty() ? greedy(x, frames, to, score) : beams_[chunk].labels(k, to, score);
          scores[i * paths_ + k] = static_cast<T>(score);
        }
      }
    });
  }
  std::size_t memory_bytes() const override {
    std::size_t bytes = 0;
    for (const ctc_beam& b : beams_) bytes += b.memory_bytes();
    return bytes;
  }
  std::string describe() const override { return str_cat({"ctc decoder, ", paths_, " paths"}); }

 private:
  std::int32_t greedy(const T* x, std::size_t frames, std::int32_t* to, double& score) const {
    std::int32_t length = 0;
    std::size_t before = batch_.blank;
    for (std::size_t t = 0; t < frames; ++t, x += batch_.classes) {
      const auto c = static_cast<std::size_t>(std::max_element(x, x + batch_.classes) - x);
      score += static_cast<double>(x[c]) - device::log_sum(x, batch_.classes);
      if (c != batch_.blank && !(merges_ && c == before)) to[length++] = static_cast<std::int32_t>(c);
      before = c;
    }
    return length;
  }

  device::ctc_batch batch_;
  bool merges_;
  device::chunks chunks_;
  std::size_t paths_ = 0;
  sequence<ctc_beam> beams_;
  std::uint32_t in_[2], out_[3];
};

}  // namespace weft::detail
WEFT_COLD_END
