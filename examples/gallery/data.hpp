// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <weft/weft.hpp>

/// Data of the gallery's programs, by formulas, so that every run has the same.
namespace gallery {

using namespace weft;

/// Images of horizontal (0), vertical (1) and diagonal (2) stripes in noise, and which they are.
inline auto stripes(int first, int count) {
  tensor<float, dims<dyn<"batch">, 8, 8, 1>> images{shape(count, 8, 8, 1)};
  tensor<std::int32_t, dims<dyn<"batch">>> labels{shape(count)};
  for (int n = 0; n < count; ++n) labels(n) = (first + n) % 3;
  for (int k = 0; k < 64 * count; ++k) {
    const int n = k / 64, row = k / 8 % 8, column = k % 8;
    const int along = labels(n) == 0 ? row : labels(n) == 1 ? column : row + column;
    images(n, row, column, 0) = float(std::sin(1.6 * along + first + n) + std::sin(0.7 * k * k + first));
  }
  return std::pair{images, labels};
}

/// Pictures of a spot.
template <int Count>
auto spots(int step) {
  tensor<float, dims<Count, 64>> x;
  for (int i = 0; i < Count; ++i) {
    const double row = 3.5 + 2.5 * std::sin(1.7 * i + step), column = 3.5 + 2.5 * std::cos(2.9 * i + 0.5 * step);
    for (int p = 0; p < 64; ++p)
      x(i, p) = float(std::exp(-0.5 * (std::pow(p / 8 - row, 2) + std::pow(p % 8 - column, 2))));
  }
  return x;
}

/// Points on the unit circle.
template <int Count>
auto circle(int step) {
  tensor<float, dims<Count, 2>> x;
  for (int i = 0; i < Count; ++i) {
    x(i, 0) = float(std::cos(0.7 * i + step));
    x(i, 1) = float(std::sin(0.7 * i + step));
  }
  return x;
}

/// Two numbers for each example, in place of random ones.
template <int Count>
auto noise(int step) {
  tensor<float, dims<Count, 2>> z;
  for (int i = 0; i < Count; ++i)
    for (int j = 0; j < 2; ++j) z(i, j) = float(1.4 * std::sin(1.3 * i * i + 2.1 * j + 0.37 * step * (j + 1)));
  return z;
}

/// Sixteen sequences, padded with zeros to the longest, their lengths and their means.
struct waves {
  tensor<float, dims<dyn<"steps">, dyn<"batch">, 1>> x;
  tensor<std::int32_t, dims<dyn<"batch">>> lengths{shape(16)};
  tensor<float, dims<dyn<"batch">>> means{shape(16)};

  explicit waves(int number) {
    for (int i = 0; i < 16; ++i) lengths(i) = 2 + (5 * i * i + number) % 11;
    x = tensor<float, dims<dyn<"steps">, dyn<"batch">, 1>>{
        shape(*std::max_element(lengths.begin(), lengths.end()), 16, 1)};
    for (int i = 0; i < 16; ++i)
      for (int t = 0; t < lengths(i); ++t) {
        x(t, i, 0) = float(std::sin(2.3 * i + 0.4 * (i % 3) * t + number));
        means(i) += x(t, i, 0) / float(lengths(i));
      }
  }
};

/// A season of 24 steps and a longer one, with autoregressive noise.
inline std::vector<float> series(int n) {
  std::vector<float> y(n);
  double noise = 0;
  for (int t = 0; t < n; ++t) {
    noise = 0.6 * noise + 0.15 * std::sin(0.7 * t * t);
    y[t] = float(std::sin(0.2618 * t) + 0.5 * std::sin(0.05 * t) + noise);
  }
  return y;
}

/// A cart on a rail.
struct cart {
  double place, speed = 0;

  void push(int action) {  // to the left, not at all, to the right
    speed = 0.9 * speed + 0.1 * (action - 1);
    place += 0.3 * speed;
  }
  tensor<float, dims<1, 2>> state() const { return {float(place), float(speed)}; }
};

/// A pole on a cart (Barto, Sutton and Anderson 1983).
struct pole {
  std::array<float, 4> state{0, 0, 0.05f, 0};  // place, speed, angle and its speed

  /// Pushes left (0) or right (1) for 20 ms; returns whether the pole still stands.
  bool push(int action) {
    auto& [place, speed, angle, turn] = state;
    const float force = action == 1 ? 10.0f : -10.0f, cosine = std::cos(angle), sine = std::sin(angle);
    const float pushed = (force + 0.05f * turn * turn * sine) / 1.1f;
    const float turned = (9.8f * sine - cosine * pushed) / (0.5f * (4.0f / 3 - 0.1f * cosine * cosine / 1.1f));
    place += 0.02f * speed;
    speed += 0.02f * (pushed - 0.05f * turned * cosine / 1.1f);
    angle += 0.02f * turn;
    turn += 0.02f * turned;
    return std::abs(place) < 2.4f && std::abs(angle) < 0.21f;
  }
};

/// The features that client request n sends to the classifier.
inline auto request(int n) {
  tensor<float, dims<1, 16>> x;
  for (int i = 0; i < 16; ++i) x(0, i) = float(std::sin(0.3 * n * (i + 1)));
  return x;
}

}  // namespace gallery
