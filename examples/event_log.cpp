// SPDX-License-Identifier: BSL-1.0
#include "event_log.hpp"

#include <weft/summary/event_writer.hpp>
#include <weft/summary/graph_def.hpp>

using namespace weft;

struct event_log::state {
  event_writer to;
};

event_log::event_log(const std::string& folder) {
  if (!folder.empty()) writer_ = std::unique_ptr<state>(new state{event_writer(folder)});
}

event_log::~event_log() = default;

void event_log::begin(std::int64_t step, const graph& g) {
  if (!writer_) return;
  writer_->to.add_session_log(session_status::start, step);
  writer_->to.add_graph(g);
}

void event_log::scalar(const char* tag, double value, std::int64_t step) {
  if (writer_) writer_->to.add_scalar(tag, value, step);
}

void event_log::images(const char* tag, const float* pixels, const shape& extents, std::int64_t step) {
  if (!writer_) return;
  tensor<float, dims<dyn<"count">, dyn<"height">, dyn<"width">, dyn<"channels">>> shown{extents};
  std::copy(pixels, pixels + shown.elements(), shown.data());
  writer_->to.add_image(tag, shown, step);
}

void event_log::weights(session& s, std::int64_t step) {
  if (!writer_) return;
  const graph& g = s.of();
  for (std::uint32_t n = 0; n < g.size(); ++n) {
    if (!is_operation<variable_op>(g[n].def.op) || kind_of(g[n].def) != variable_kind::trained) continue;
    tensor<float, dims<dyn<"elements">>> values{shape(s.variable_info(n).extents.elements())};
    s.read_variable(n, values.data());
    writer_->to.add_histogram(g[n].name, values, step);
  }
}

void event_log::flush() try {
  if (writer_) writer_->to.flush();
} catch (const error&) {
}

void event_log::close() {
  if (writer_) writer_->to.close();
}
