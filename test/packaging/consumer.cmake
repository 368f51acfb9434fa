# SPDX-License-Identifier: BSL-1.0
# Builds and runs test/packaging/consumer against Weft, taken as WAY says: find_package or add_subdirectory.
#
# usage: cmake -DWAY=... -DSOURCE=... -DBINARY=... -DCOMPILER=... -DGENERATOR=... -DDISTRIBUTED=... -DCUDA=...
#        -DLAUNCHER=... -P consumer.cmake

cmake_minimum_required(VERSION 3.22)

set(folder ${BINARY}/consumer/${WAY})
file(REMOVE_RECURSE ${folder})
set(components data)
if(DISTRIBUTED)
  string(APPEND components ";distributed")
endif()
if(CUDA)
  string(APPEND components ";cuda")
endif()

if(WAY STREQUAL "find_package")
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${BINARY} --prefix ${folder}/prefix OUTPUT_QUIET
                  COMMAND_ERROR_IS_FATAL ANY)
  file(GLOB license ${folder}/prefix/share/doc/*/LICENSE)
  if(NOT license)
    message(FATAL_ERROR "the licence is not installed")
  endif()
  if(NOT EXISTS ${folder}/prefix/share/weft/gdb/weft.py)
    message(FATAL_ERROR "gdb's printers are not installed")
  endif()
  set(way -DCMAKE_PREFIX_PATH=${folder}/prefix)
  if(EXISTS ${folder}/prefix/bin/weft)
    list(APPEND way -DWEFT_MODEL=${SOURCE}/test/onnx/files/imported.onnx)
  endif()
else()
  set(way -DWEFT_SOURCE_DIR=${SOURCE})
endif()

# configure(FOLDER ARGUMENT...): sets `output`; `program` and `core` are the commands that compile a file of the program
# `plain` and Weft's core.
function(configure to)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE}/test/packaging/consumer -B ${to} -G ${GENERATOR}
                          -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}
                          -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "-DWEFT_COMPONENTS=${components}" ${way} ${ARGN}
                  OUTPUT_VARIABLE output ECHO_OUTPUT_VARIABLE COMMAND_ERROR_IS_FATAL ANY)
  set(output "${output}" PARENT_SCOPE)
  file(READ ${to}/compile_commands.json commands)
  string(REGEX MATCH "[^\n]*plain.dir/compiled.cpp.o -c[^\n]*" program "${commands}")
  string(REGEX MATCH "[^\n]*weft.cpp.o -c[^\n]*" core "${commands}")
  if(NOT program OR NOT core)
    message(FATAL_ERROR "no commands for the program and the core:\n${commands}")
  endif()
  set(program "${program}" PARENT_SCOPE)
  set(core "${core}" PARENT_SCOPE)
endfunction()

# Builds without optimisation link a core that is optimised, unless WEFT_OPTIMIZED_IN_DEBUG is off. Without a build type, one
# message names it; flags with a level stay as they are.
# Name, arguments, whether the core is optimised, whether there is the message.
foreach(case IN ITEMS "none|-DCMAKE_BUILD_TYPE=|yes|yes" "Debug|-DCMAKE_BUILD_TYPE=Debug|yes|no"
                      "DebugAlone|-DCMAKE_BUILD_TYPE=Debug,-DWEFT_OPTIMIZED_IN_DEBUG=OFF|no|no"
                      "Release|-DCMAKE_BUILD_TYPE=Release|no|no" "level|-DCMAKE_CXX_FLAGS=-O1|no|no")
  string(REPLACE "|" ";" case "${case}")
  list(GET case 0 name)
  list(GET case 1 arguments)
  list(GET case 2 links)
  list(GET case 3 warns)
  string(REPLACE "," ";" arguments "${arguments}")
  configure(${folder}/${name} ${arguments})
  string(REGEX MATCHALL "CMAKE_BUILD_TYPE is not set" warnings "${output}")
  list(LENGTH warnings count)
  if(NOT (warns AND count EQUAL 1) AND NOT (NOT warns AND count EQUAL 0))
    message(FATAL_ERROR "${name}: ${count} messages about the build type")
  endif()
  if(links AND NOT (program MATCHES " -DWEFT_SEPARATE_COMPILATION" AND core MATCHES " -O2" AND NOT program MATCHES " -O[123]"))
    message(FATAL_ERROR "${name}: there is no optimised core:\n${program}\n${core}")
  elseif(NOT links AND (program MATCHES " -DWEFT_SEPARATE_COMPILATION" OR core MATCHES " -O2"))
    message(FATAL_ERROR "${name}: the core's level is not that of the build:\n${program}\n${core}")
  endif()
endforeach()

# The build without a build type is the one that is built: the program is not optimised, and Weft's core is.
set(programs consumer compiled plain)
if(DISTRIBUTED AND WAY STREQUAL "find_package")
  list(APPEND programs cluster)
endif()
if(WAY STREQUAL "find_package" AND EXISTS ${folder}/prefix/bin/weft)
  list(APPEND programs imported)
endif()
execute_process(COMMAND ${CMAKE_COMMAND} --build ${folder}/none --target ${programs} exported shared COMMAND_ERROR_IS_FATAL ANY)
foreach(program IN LISTS programs)
  execute_process(COMMAND ${folder}/none/${program} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
file(READ ${folder}/none/exported.cmake exported)
if(NOT exported MATCHES "weft::compiled")
  message(FATAL_ERROR "the exported library does not name weft::compiled:\n${exported}")
endif()

# The program does not define what it uses of the core, so that it comes from the library.
find_program(NM nm)
if(NM)
  file(GLOB_RECURSE object ${folder}/none/CMakeFiles/plain.dir/compiled.cpp.o)
  execute_process(COMMAND ${NM} -C ${object} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  if(NOT symbols MATCHES " U weft::prepared_step::prepared_step")
    message(FATAL_ERROR "the program compiles the core itself")
  endif()
  # Neither a hidden file nor weft::compiled exports anything of Weft from a shared library but what WEFT_API marks.
  execute_process(COMMAND ${NM} -DC --defined-only ${folder}/none/libshared.so OUTPUT_VARIABLE symbols
                  COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]*weft::[^\n]*" symbols "${symbols}")
  set(shared "error|detail::(resource|folder_lock|watch_of_thread|inside_parallel_for)|data::detail::new_unpacker")
  string(APPEND shared "|plan::(new_|connect_to|no_gpu)")
  string(APPEND shared "|gpu::(preparation_of|kernels_of|reduction_of|copy_into_layout|installed_platform|math)")
  list(FILTER symbols EXCLUDE REGEX "weft::(${shared})")
  if(symbols)
    message(FATAL_ERROR "a shared library exports ${symbols}")
  endif()
endif()

# The same program without CMake, by the files of pkg-config, which must be right wherever the folder is.
find_program(PKG_CONFIG pkg-config)
if(PKG_CONFIG AND WAY STREQUAL "find_package")
  file(RENAME ${folder}/prefix ${folder}/moved)
  set(modules weft weft-data)
  if(DISTRIBUTED)
    list(APPEND modules weft-distributed)
  endif()
  execute_process(COMMAND ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${folder}/moved/share/pkgconfig
                          ${PKG_CONFIG} --cflags --libs ${modules}
                  OUTPUT_VARIABLE flags COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  set(sources ${SOURCE}/test/packaging/consumer)
  execute_process(COMMAND ${COMPILER} -std=c++20 -DWEFT_SEPARATE_COMPILATION ${sources}/compiled.cpp
                          ${sources}/compiled_model.cpp -o ${folder}/by_pkg_config ${folder}/none/libweft_compiled.a ${flags}
                  COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${folder}/by_pkg_config COMMAND_ERROR_IS_FATAL ANY)
endif()

# The manifest of vcpkg cannot take the version from include/weft/version.hpp.
file(READ ${SOURCE}/packaging/vcpkg/ports/weft/vcpkg.json manifest)
string(JSON version GET "${manifest}" version)
file(STRINGS ${BINARY}/weft.pc same REGEX "^Version: ${version}$")
if(NOT same)
  message(FATAL_ERROR "vcpkg.json has the version ${version}, and this build another one")
endif()
