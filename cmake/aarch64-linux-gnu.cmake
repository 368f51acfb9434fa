# SPDX-License-Identifier: BSL-1.0
# Compiles for 64-bit ARM with Debian's g++-aarch64-linux-gnu; ctest runs the tests in qemu-user-static. Of Boost, the tests
# then use headers only. Optional libraries are used if the system has them for arm64.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static;-L;/usr/aarch64-linux-gnu)
