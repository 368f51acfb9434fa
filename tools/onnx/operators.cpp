// SPDX-License-Identifier: BSL-1.0
#include <span>

#include "operators_arrays.hpp"
#include "operators_attention.hpp"
#include "operators_control.hpp"
#include "operators_elementwise.hpp"
#include "operators_images.hpp"
#include "operators_index.hpp"
#include "operators_losses.hpp"
#include "operators_normalization.hpp"
#include "operators_products.hpp"
#include "operators_quantized.hpp"
#include "operators_recurrent.hpp"
#include "operators_reduce.hpp"
#include "operators_signals.hpp"
#include "operators_windows.hpp"

namespace tool::importer {

void for_each_row(const std::function<void(const row&)>& f) {
  const auto each = [&](std::span<const row> family) {
    for (const row& r : family) f(r);
  };
  each(array_rows);
  each(attention_rows);
  each(control_rows);
  each(elementwise_rows);
  each(image_rows);
  each(index_rows);
  each(loss_rows);
  each(normalization_rows);
  each(product_rows);
  each(quantized_rows);
  each(recurrent_rows);
  each(reduce_rows);
  each(signal_rows);
  each(window_rows);
}

const row* find_row(const std::string& op, std::int64_t opset) {
  static const auto all = [] {
    std::multimap<std::string_view, const row*> rows;
    for_each_row([&](const row& r) { rows.emplace(r.op, &r); });
    return rows;
  }();
  const auto [first, last] = all.equal_range(op);
  for (auto at = first; at != last; ++at)
    if (opset >= at->second->since && opset <= at->second->until) return at->second;
  return nullptr;
}

}  // namespace tool::importer
