#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
# Builds the Debian packages and uses them in a new Debian 12: g++ and libweft-dev alone, then with CMake and pkg-config, then
# with the packages that libweft-dev recommends, and the commands. Needs root, lintian, mmdebstrap and dpkg-dev.
#
# usage: deb.sh [BUILD_FOLDER]     build/deb by default
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${1:-$source/build/deb}
root=$build/root

export DEB_BUILD_MAINT_OPTIONS=hardening=+all
cmake -S "$source" -B "$build" -DCMAKE_BUILD_TYPE=Release -DWEFT_FIND_LATER=ON -DWEFT_BUILD_TESTS=OFF \
  -DWEFT_BUILD_EXAMPLES=OFF -DWEFT_BUILD_BENCHMARKS=OFF \
  -DCMAKE_CXX_FLAGS="$(dpkg-buildflags --get CXXFLAGS) $(dpkg-buildflags --get CPPFLAGS)" \
  -DCMAKE_EXE_LINKER_FLAGS="$(dpkg-buildflags --get LDFLAGS) -Wl,--as-needed"
cmake --build "$build"
cmake --build "$build" --target site || echo "without the site, weft-doc contains the pages"
rm -f "$build"/*.deb
(cd "$build" && cpack -G DEB)
lintian --fail-on error,warning "$build"/*.deb

# in_root COMMAND...: runs a command in the new Debian.
in_root() {
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}
install_packages() { in_root apt-get install -y -qq "$@" > "$build/apt.log" 2>&1 || { cat "$build/apt.log"; exit 1; }; }

rm -rf "$root"
mmdebstrap --variant=minbase --include=g++ bookworm "$root"
in_root apt-get update -qq
mkdir "$root/work"
cp "$build"/*.deb "$root/work"
cat > "$root/work/program.cpp" << 'END'
#include <cstdio>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3, 2>>(g, "x");
  auto y = placeholder<float, dims<3>>(g, "y");
  auto w = variable<float, dims<2, 1>>(g, "w", init::zeros{});
  auto loss = mean(square(squeeze<1>(matmul(x, w)) - y));
  auto train = gradient_descent{.learning_rate = 0.1}.minimize(loss);
  session s{g};
  auto step = s.prepare(fetch(loss, train), feed(x, y));
  tensor<float, dims<3, 2>> inputs{1, 0, 0, 1, 1, 1};
  tensor<float, dims<3>> outputs{2, 3, 5};
  float cost = 1;
  for (int i = 0; i < 200; ++i) cost = std::get<0>(step(inputs, outputs));
#if defined(WEFT_HAS_DNNL)
  std::puts("with oneDNN");
#endif
  std::printf("cost %.4f\n", cost);
  return cost < 0.001f ? 0 : 1;
}
END
cat > "$root/work/CMakeLists.txt" << 'END'
cmake_minimum_required(VERSION 3.22)
project(user LANGUAGES CXX)
find_package(weft REQUIRED COMPONENTS ${PARTS})
add_executable(program program.cpp)
target_link_libraries(program PRIVATE weft::weft)
foreach(part IN LISTS PARTS)
  target_link_libraries(program PRIVATE weft::${part})
endforeach()
END
# by_cmake PARTS, by_pkg_config MODULE: builds and runs the program.
by_cmake() {
  in_root sh -ec "cd /work; rm -rf build; cmake -B build -DCMAKE_BUILD_TYPE=Release '-DPARTS=$1'; cmake --build build
                  build/program" | tee "$build/program.log"
}
by_pkg_config() {
  in_root sh -ec "cd /work; g++ -std=c++20 -O1 program.cpp \$(pkg-config --cflags --libs $1) -o program; ./program"
}

install_packages --no-install-recommends "/work/$(cd "$build" && echo libweft-dev_*.deb)"
in_root sh -ec 'cd /work; g++ -std=c++20 -O1 program.cpp -o program; ./program'
install_packages --no-install-recommends cmake make pkgconf
by_pkg_config weft-data
by_cmake data
if grep -q oneDNN "$build/program.log"; then echo "error: oneDNN without its package"; exit 1; fi

# apt installs recommended packages only together with the package: the first of each alternative, without versions.
install_packages $(dpkg-deb -f "$build"/libweft-dev_*.deb Recommends | sed 's/([^)]*)//g; s/|[^,]*//g; s/,/ /g')
by_cmake "data;distributed"
grep -q oneDNN "$build/program.log"
by_pkg_config weft-distributed

install_packages --no-install-recommends man-db $(cd "$build" && printf '/work/%s ' weft-*.deb)
in_root weft --version
in_root weft_launch -n 2 -- true
in_root man weft | grep -q "inspect, compare and convert"
in_root man weft_launch | grep -q "restart_task"
ls "$root"/usr/share/doc/weft-doc
echo "the Debian packages work"
