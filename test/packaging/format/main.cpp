// SPDX-License-Identifier: BSL-1.0
#include <weft/format.hpp>

#if !defined(__cpp_lib_format)
  #error "no <format>"
#endif

using namespace weft;

int main() {
  const tensor<float, dims<2>> x{1, 2.5f};
  graph g;
  auto images = placeholder<float, dims<dyn<"batch">, 784>>(g, "images");
  session s{g};
  auto step = s.prepare(fetch(images), feed(images));
  const bool right = std::format("{}", x) == "[1.  2.5]" && std::format("{}", x * 2.0f) == "[2. 5.]" &&
                     std::format("{}", tensor_view<const float, dims<2>>(x)) == "[1.  2.5]" &&
                     std::format("{}", shape(2, 3)) == "[2, 3]" && std::format("{}", images) == to_string(images) &&
                     std::format("{}", step) == to_string(step);
  return right ? 0 : 1;
}
