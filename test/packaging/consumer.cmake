# Builds and runs test/packaging/consumer against Weft, taken as WAY says: find_package or add_subdirectory.
#
# usage: cmake -DWAY=... -DSOURCE=... -DBINARY=... -DCOMPILER=... -DGENERATOR=... -DDISTRIBUTED=... -DCUDA=...
#        -DLAUNCHER=... -P consumer.cmake

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
else()
  set(way -DWEFT_SOURCE_DIR=${SOURCE})
endif()

execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE}/test/packaging/consumer -B ${folder}/build -G ${GENERATOR}
                        -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} "-DWEFT_COMPONENTS=${components}" ${way}
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${folder}/build COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${folder}/build/consumer COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${folder}/build/compiled COMMAND_ERROR_IS_FATAL ANY)
if(DISTRIBUTED AND WAY STREQUAL "find_package")
  execute_process(COMMAND ${folder}/build/cluster COMMAND_ERROR_IS_FATAL ANY)
endif()

# A Debug build links a core that is optimised, unless it is told not to.
foreach(optimized IN ITEMS ON OFF)
  set(debug ${folder}/debug_${optimized})
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE}/test/packaging/consumer -B ${debug} -G ${GENERATOR}
                          -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -DCMAKE_BUILD_TYPE=Debug
                          -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DWEFT_OPTIMIZED_IN_DEBUG=${optimized}
                          "-DWEFT_COMPONENTS=${components}" ${way}
                  COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${debug}/compile_commands.json commands)
  string(REGEX MATCH "[^\n]*plain.dir/compiled.cpp.o -c[^\n]*" program "${commands}")
  string(REGEX MATCH "[^\n]*weft.cpp.o -c[^\n]*" core "${commands}")
  string(FIND "${program}" -DWEFT_SEPARATE_COMPILATION separate)
  string(FIND "${core}" -O2 core_level)
  if(NOT program OR NOT core)
    message(FATAL_ERROR "no commands for the program and the core:\n${commands}")
  endif()
  if(optimized AND (separate EQUAL -1 OR core_level EQUAL -1 OR "${program}" MATCHES " -O[123]"))
    message(FATAL_ERROR "a Debug build has no optimised core:\n${program}\n${core}")
  elseif(NOT optimized AND NOT (separate EQUAL -1 AND core_level EQUAL -1))
    message(FATAL_ERROR "WEFT_OPTIMIZED_IN_DEBUG=OFF has no effect:\n${program}\n${core}")
  endif()
endforeach()
execute_process(COMMAND ${CMAKE_COMMAND} --build ${folder}/debug_ON --target plain COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${folder}/debug_ON/plain COMMAND_ERROR_IS_FATAL ANY)
# What the program does not compile itself is there, so it comes from the library.
find_program(NM nm)
if(NM)
  file(GLOB_RECURSE object ${folder}/debug_ON/CMakeFiles/plain.dir/compiled.cpp.o)
  execute_process(COMMAND ${NM} -C ${object} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  if(NOT symbols MATCHES " U weft::prepared_step::prepared_step")
    message(FATAL_ERROR "the program compiles the core itself")
  endif()
endif()
