// SPDX-License-Identifier: BSL-1.0
// The program in which embed.cpp embeds a frozen model. It needs the header of the model, weft/frozen/ and the C++
// standard library. It classifies images in a file, writes their scores and prints the latency of single images.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "model.hpp"

int main(int argc, char** argv) {
  std::FILE* const images = argc == 3 ? std::fopen(argv[1], "rb") : nullptr;
  std::FILE* const scores = images ? std::fopen(argv[2], "wb") : nullptr;
  if (!scores) {
    std::fputs("usage: classify IMAGES SCORES     (784 floats, and 10 floats, for each image)\n", stderr);
    return 2;
  }
  static model::workspace memory;
  static float image[784], result[10];
  constexpr int most = 100'000;
  static double microseconds[most];
  int count = 0;
  while (count < most && std::fread(image, sizeof image, 1, images) == 1) {
    const auto began = std::chrono::steady_clock::now();
    model::predict(image, result, memory);
    microseconds[count++] = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count();
    if (std::fwrite(result, sizeof result, 1, scores) != 1) return 1;
  }
  if (count == 0 || std::fclose(scores) != 0) return 1;
  std::sort(microseconds, microseconds + count);
  std::printf("latency of an image: p50 %.1f us, p99 %.1f us, p99.9 %.1f us\n", microseconds[count / 2],
              microseconds[count * 99 / 100], microseconds[count / 1000 * 999 + count % 1000 * 999 / 1000]);
}
