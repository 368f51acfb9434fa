// SPDX-License-Identifier: BSL-1.0
#pragma once

// Metrics that accumulate over the batches of an evaluation (tf.metrics):
//
//   metrics::accuracy accuracy;
//   for (auto [x, y] : test_set.batches(1000)) accuracy.update(y, step(x));
//   std::printf("%.4f\n", accuracy.value());
//
// Each has update(...), value(), reset(), merge(other) to combine workers' results, and serialize(...) for a saver.
// They count in double; sums are compensated.

#include <weft/train/metrics/auc.hpp>
#include <weft/train/metrics/binary.hpp>
#include <weft/train/metrics/classes.hpp>
#include <weft/train/metrics/mean.hpp>
