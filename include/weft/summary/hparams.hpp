// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <exception>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>

#include <weft/summary/event_writer.hpp>
#include <weft/summary/events.hpp>

/// The messages of TensorBoard's HParams plugin (its plugins/hparams/api.proto and plugin_data.proto).
namespace weft {

/// A hyperparameter of a run, a number, bool or text: `{"learning_rate", 0.1}`.
struct hparam {
  enum class kind_type : unsigned char { text = 1, truth = 2, number = 3 };  // the plugin's DataType

  std::string name;
  kind_type kind;
  double number = 0;
  std::string text = {};

  template <class T>
    requires std::is_arithmetic_v<T>
  hparam(std::string called, T value)
      : name(std::move(called)),
        kind(std::is_same_v<T, bool> ? kind_type::truth : kind_type::number),
        number(static_cast<double>(value)) {}
  hparam(std::string called, std::string value)
      : name(std::move(called)), kind(kind_type::text), text(std::move(value)) {}
  hparam(std::string called, const char* value) : hparam(std::move(called), std::string(value)) {}
};

namespace detail {

/// A Summary that contains `message` as field `field` of HParamsPluginData.
inline std::string hyperparameters_summary(const char* tag, std::uint32_t field, const data::protobuf_writer& message) {
  constexpr std::int64_t version = 0, dt_float = 1;
  data::protobuf_writer content, tensor, scalar, summary;
  content.add_integer(1, version);
  content.add_message(field, message);
  tensor.add_integer(1, dt_float);
  tensor.add_message(2, scalar);
  tensor.add_number(5, 0.f);
  summary.add_message(1, plugin_value(tag, "hparams", content.bytes(), tensor));
  return summary.bytes();
}

/// Experiment: the columns of the dashboard.
inline data::protobuf_writer experiment_message(double time, std::initializer_list<hparam> values,
                                                std::initializer_list<std::string> metrics) {
  data::protobuf_writer experiment;
  experiment.add_number(3, time);
  for (const hparam& h : values) {
    data::protobuf_writer info;
    info.add_text(1, h.name);
    info.add_integer(4, static_cast<std::int64_t>(h.kind));
    if (h.kind == hparam::kind_type::truth) {  // without a domain, the dashboard has no checkboxes for the filter
      data::protobuf_writer domain;
      for (const bool truth : {false, true}) {
        data::protobuf_writer value;
        value.add_integer(4, truth);
        domain.add_message(1, value);
      }
      info.add_message(5, domain);
    }
    experiment.add_message(4, info);
  }
  for (const std::string& tag : metrics) {
    data::protobuf_writer name, info;
    name.add_text(2, tag);
    info.add_message(1, name);
    experiment.add_message(5, info);
  }
  return experiment;
}

/// SessionStartInfo: a run's values, each as a google.protobuf.Value.
inline data::protobuf_writer session_start_message(double time, std::initializer_list<hparam> values) {
  data::protobuf_writer start;
  for (const hparam& h : values) {
    data::protobuf_writer value;
    if (h.kind == hparam::kind_type::number) value.add_number(2, h.number);
    if (h.kind == hparam::kind_type::text) value.add_text(3, h.text);
    if (h.kind == hparam::kind_type::truth) value.add_integer(4, h.number != 0);
    start.add_entry(1, h.name, value);
  }
  start.add_number(5, time);
  return start;
}

}  // namespace detail

inline void event_writer::add_hyperparameters(std::initializer_list<hparam> values,
                                              std::initializer_list<std::string> metrics) {
  if (metrics.size() > 0)
    add_message(
        detail::event_field::summary,
        detail::hyperparameters_summary("_hparams_/experiment", 2, detail::experiment_message(now(), values, metrics)),
        0);
  add_message(
      detail::event_field::summary,
      detail::hyperparameters_summary("_hparams_/session_start_info", 3, detail::session_start_message(now(), values)),
      0);
}

inline void event_writer::end_hyperparameters(run_status status) {
  data::protobuf_writer end;
  end.add_integer(1, static_cast<std::int64_t>(status));
  end.add_number(2, now());
  add_message(detail::event_field::summary, detail::hyperparameters_summary("_hparams_/session_end_info", 4, end), 0);
}

}  // namespace weft
